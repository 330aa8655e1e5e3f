"""The steps at the server: launch it or connect to it, and prove its tool calls.

``cancel`` ends long work early: the step then raises Cancelled, with nothing of its own left running.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from wizard.budget import Limits
from wizard.catalog import Model, find_model
from wizard.diagnosis import UNRECOGNISED, diagnose_text
from wizard.errors import LaunchError, RefusedError, UnknownNameError, UsageError
from wizard.flow.answers import Answers, key_variable
from wizard.flow.hearing import Found, Listening, StartFailed, failure, known_values
from wizard.flow.journey import Cancelled, Journey, need
from wizard.flow.places import prepare, rehearsed, runs_dir
from wizard.flow.prompt import limits_here
from wizard.flow.readback import comparison, with_figures
from wizard.flow.weights import LaunchEvent, bring_weights
from wizard.flow.yardstick import rehearsed_pace
from wizard.i18n import _
from wizard.plan import LaunchPlan
from wizard.serve import (
    Event,
    Exited,
    Finding,
    Ready,
    Run,
    StartedBy,
    follow,
    is_alive,
    latest_run,
    probe_server,
    read_key,
    start,
)
from wizard.serve import stop as stop_run

REHEARSAL_PACE_S = 4.0
"""How long the stand-in server takes to start: long enough to be watched."""


def launch(journey: Journey, emit: Callable[[LaunchEvent], None], cancel: threading.Event) -> Journey:
    """Step Launch: have the weights on disk, start vLLM and follow it until it answers.

    A run of the same plan that is still alive is gone on with, also one of an earlier wizard. Raises
    RefusedError for a plan that cannot work, FetchError for weights that cannot be had, LaunchError when
    vLLM does not come up, Cancelled.
    """
    plan = need(journey.plan)
    if plan.refused:
        raise RefusedError(plan.refused[0].text, _("Go back and choose something else."))
    if journey.runtime is not None and journey.runtime.kind == "assumed" and not journey.simulated:
        raise RefusedError(
            _("No installed vLLM was found on this machine."),
            _(
                "Install it: python3 -m venv ~/vllm && ~/vllm/bin/pip install vllm=={version} "
                "(or name one with [runtime] path or command)."
            ).format(version=journey.runtime.version),
        )
    journey = prepare(journey)
    started = plan
    if journey.simulated:
        started = rehearsed(plan, REHEARSAL_PACE_S, journey.answers.start.fault, rehearsed_pace(journey))
    run = _alive_run(journey, started)
    if run is None:
        journey = bring_weights(journey, emit, cancel)
    ours = run is None or (journey.started_here and run == journey.run)
    try:
        if run is None:
            with _uninterrupted():
                run = _start(started, journey)
        _follow_until_ready(run, plan.timeout_s, Listening(journey, plan), emit, cancel)
        server = probe_server(run.base_url, model=run.served_model_name, api_key=key_of(journey.answers))
    except BaseException:
        if run is not None and ours:
            stop_run(run)
        raise
    started_by: StartedBy = "rehearsal" if journey.simulated else "wizard"
    server = msgspec.structs.replace(server, started_by=started_by, pid=run.pid)
    running = msgspec.structs.replace(journey, run=run, server=server, started_here=ours)
    read = read_back(with_figures(running))
    emit(comparison(read, seconds=round(time.time() - run.started_at, 3)))
    return read


def _alive_run(journey: Journey, plan: LaunchPlan) -> Run | None:
    """The living run of this very plan, of this wizard or of an earlier one.

    Another plan's run is stopped if it was started here: it would hold the memory. Raises RefusedError when
    one of an earlier wizard holds the address; whoever uses it decides about it.
    """
    own = journey.run
    if own is not None and is_alive(own):
        if own.plan_id == plan.id:
            return own
        if journey.started_here:
            stop_run(own)
    earlier = latest_run(runs_dir(journey))
    if earlier is None or not is_alive(earlier):
        return None
    if earlier.plan_id == plan.id:
        return earlier
    if earlier.base_url == plan.base_url:
        raise RefusedError(
            _("A vLLM started from here earlier still serves {name} at {url}.").format(
                name=earlier.served_model_name, url=earlier.base_url
            ),
            _("Stop it with `vllm-opencode stop`, or choose another port."),
        )
    return None


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold an interrupt back until a process that was just started is known by its number."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(plan: LaunchPlan, journey: Journey) -> Run:
    """Start vLLM. A taken port is a fault like those in a log, and has the same remedies."""
    try:
        return start(plan, runs_dir(journey))
    except LaunchError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        said = f"OSError: {error.__cause__}"
        found = diagnose_text(said, plan=plan, machine=journey.machine, values=known_values(journey))
        raise StartFailed(error.message, error.hint, (said,), found=found) from error


def _follow_until_ready(
    run: Run, timeout_s: float, listening: Listening, emit: Callable[[Event], None], cancel: threading.Event
) -> None:
    """Raises StartFailed when vLLM ends or does not answer in time, Cancelled.

    What vLLM itself said last is only told where the diagnosis knows no better.
    """
    said: Finding | None = None
    exited: Exited | None = None
    seconds = 0.0
    for event in follow(run, timeout_s=timeout_s, cancel=cancel, listener=listening.hear):
        seconds = event.seconds
        if isinstance(event, Found) or not isinstance(event, Finding | Exited):
            emit(event)
        if isinstance(event, Ready):
            return
        if isinstance(event, Finding) and not isinstance(event, Found):
            said = event
        if isinstance(event, Exited):
            exited = event
            break
    if cancel.is_set():
        raise Cancelled(_("The start was stopped."))
    whole, fresh = listening.conclude(exited.code if exited else None, seconds)
    for found in fresh:
        emit(found)
    known = any(one.severity == "error" and one.fault != UNRECOGNISED for one in whole.findings)
    if said is not None and not known:
        emit(said)
    if exited is not None:
        emit(exited)
    raise failure(whole, said, run)


def read_back(journey: Journey) -> Journey:
    """What the running server says about its window decides about opencode's limits, not the estimate."""
    server, budget = journey.server, journey.budget
    if server is None or server.max_model_len is None or budget is None:
        return journey
    if server.max_model_len == budget.opencode.context:
        return journey
    corrected = limits_of(journey)
    return msgspec.structs.replace(journey, budget=msgspec.structs.replace(budget, opencode=corrected))


def limits_of(journey: Journey, opencode_version: str | None = None) -> Limits:
    """opencode's limits for the window the running server states, or for a shorter one the user asked for."""
    server = need(journey.server)
    wished = journey.answers.opencode.context
    windows = [window for window in (server.max_model_len, wished) if window]
    if not windows:
        raise RefusedError(
            _("{url} does not state its window.").format(url=server.base_url),
            _("Look up its --max-model-len, and say it: --context N. vLLM itself states it in /v1/models."),
        )
    return limits_here(
        journey,
        min(windows),
        thinks=thinks(journey),
        vllm_version=server.version,
        opencode_version=opencode_version,
    )


def connect(journey: Journey) -> Journey:
    """The road "connect": the running server that was named.

    ``[model]`` may name a served name, or a model of the catalogue that the server serves under its own.
    """
    url = journey.answers.start.base_url
    if url is None:
        raise UsageError(
            _("No address of a running vLLM was given."),
            _('Write it as [start] base_url = "http://host:8000/v1".'),
        )
    server = probe_server(url, api_key=key_of(journey.answers))
    wanted = journey.answers.model.served_name or journey.answers.model.id
    if wanted is not None:
        name = _served_as(wanted, server.served_names)
        if name != server.model:
            server = probe_server(url, model=name, api_key=key_of(journey.answers))
    return with_figures(msgspec.structs.replace(journey, server=server))


def _served_as(wanted: str, served: tuple[str, ...]) -> str:
    """The served name meant by a name. Raises UnknownNameError when it cannot be told."""
    if wanted in served:
        return wanted
    entry = find_model(wanted)
    own = [] if entry is None else [name for name in served if find_model(name) == entry]
    if entry is not None and len(own or served) == 1:
        return (own or served)[0]
    raise UnknownNameError(_("served model"), wanted, served)


def known_model(journey: Journey) -> Model | None:
    """What the catalogue knows about the model that is served, or None."""
    names = [journey.choice.model if journey.choice else None, journey.answers.model.id]
    names.append(journey.server.model if journey.server else None)
    return next((entry for name in names if name and (entry := find_model(name))), None)


def thinks(journey: Journey) -> bool:
    """Whether the served model thinks before it answers."""
    if journey.choice is not None:
        return journey.choice.thinks
    entry = known_model(journey)
    return entry is not None and entry.thinks


def stop_server(journey: Journey) -> Journey:
    """Stop the run of this journey, if there is one; a server somebody else started is left alone."""
    if journey.run is not None and is_alive(journey.run):
        stop_run(journey.run)
    return msgspec.structs.replace(journey, run=None, server=None, figures=None)


def key_of(answers: Answers) -> str | None:
    """The API key the answers point to, or None.

    Raises UsageError when the variable is not set, or the file cannot be read or is empty.
    """
    variable = key_variable(answers)
    if variable is None:
        return read_key(answers.serve.api_key_file)
    if not os.environ.get(variable):
        raise UsageError(_("The variable {name} holds no key.").format(name=variable), _("Export it first."))
    key = os.environ[variable].strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError(_("The variable {name} holds more than a key on one line.").format(name=variable))
    return key
