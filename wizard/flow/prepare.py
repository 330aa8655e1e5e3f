"""The steps before the launch: machine, runtime, model, budget and plan. They look, they change nothing.

Each takes a journey and returns it with the result; screens call them from a worker, ``setup`` one by one.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec

from wizard import catalog, paths
from wizard.budget import make_budget
from wizard.compat import (
    Choice,
    Wishes,
    choose,
    choose_best,
    choose_checkpoint,
    find_row,
    matrix,
    version_for,
)
from wizard.errors import RefusedError, UnknownNameError, UsageError
from wizard.fetch import Order, presence
from wizard.flow.answers import key_variable
from wizard.flow.journey import Cancelled, Journey, need
from wizard.flow.prompt import first_prompt
from wizard.flow.readback import residual
from wizard.flow.recipes import needs_of
from wizard.flow.settings import engine_settings, plan_settings
from wizard.i18n import _
from wizard.machine import (
    Check,
    Machine,
    Reading,
    check_destination,
    checked_for,
    checks,
    detect,
    machine_from,
    read_host,
    recording,
    write_recording,
)
from wizard.plan import ServeSettings, build_plan
from wizard.runtime import Runtime, assumed_runtime, find_runtimes, interpreter_of, probe
from wizard.text import shell_join

REHEARSAL_MACHINE = "gb10"
"""The recorded machine a rehearsal takes when none is named."""


def look_at_machine(journey: Journey, thorough: bool = True) -> Journey:
    """Step Machine: this host, or the recorded one. No GPU is a result here, not an error.

    Without ``thorough`` the checks that look at the host itself are skipped, for who only needs the machine.
    """
    answers = journey.answers
    recorded = answers.machine.simulate
    if recorded is None and journey.simulated:
        recorded = REHEARSAL_MACHINE
    return _with_machine(journey, detect(recorded), thorough)


def record_machine(journey: Journey, file: Path) -> Journey:
    """Step Machine on this host, which is also written down: see ``save_machine``."""
    return _with_machine(journey, machine_from(save_machine(journey, file)), thorough=True)


def dictate_machine(journey: Journey) -> tuple[Journey, bytes]:
    """Step Machine on this host, and the content of the file that ``save_machine`` would write."""
    _not_simulated(journey)
    reading = read_host()
    return _with_machine(journey, machine_from(reading), thorough=True), recording(reading)


def save_machine(journey: Journey, file: Path) -> Reading:
    """Read this host and write it down, redacted, for others to simulate; ``~`` is the home folder.

    Raises UsageError for a recorded machine, and for a file that exists or cannot be written.
    """
    _not_simulated(journey)
    path = paths.expanded(file)
    check_destination(path)
    reading = read_host()
    write_recording(reading, path)
    return reading


def _not_simulated(journey: Journey) -> None:
    if journey.simulated:
        raise UsageError(
            _("A recorded machine cannot be recorded again."),
            _("Leave --simulate out to record this host, or copy the file you have."),
        )


def recording_name() -> str:
    """A name in the home folder that no file has yet, to offer for a recording."""
    names = (f"~/machine{number}.json" for number in ("", *(f"-{n}" for n in range(2, 100))))
    return next((name for name in names if not os.path.lexists(paths.expanded(name))), "~/machine.json")


def _with_machine(journey: Journey, machine: Machine, thorough: bool) -> Journey:
    answers = journey.answers
    unknown = set(answers.machine.gpus or ()) - {gpu.index for gpu in machine.gpus}
    if unknown:
        raise UnknownNameError(
            _("GPU number"), str(min(unknown)), [str(gpu.index) for gpu in machine.gpus] or [_("none")]
        )
    found = checks(machine, answers.serve.port, answers.serve.host, live=thorough)
    return msgspec.structs.replace(journey, machine=machine, checks=found)


def find_runtime(journey: Journey) -> Journey:
    """Step Runtime: the vLLM asked for, else the first one found that answers, else an assumed one.

    Raises UsageError when the one asked for does not answer.
    """
    found = _runtimes(journey)
    working = next((runtime for runtime in found if not runtime.problem), None)
    runtime = working or assumed_runtime(version_for(need(journey.machine)))
    env = {**runtime.env, **journey.answers.runtime.env}
    return msgspec.structs.replace(
        journey,
        runtimes=found,
        runtime=msgspec.structs.replace(runtime, env=env),
        checks=_checks_with(journey, runtime),
    )


def _checks_with(journey: Journey, runtime: Runtime) -> tuple[Check, ...]:
    """The checks of this host, told of the Python in which the vLLM that was found will run."""
    if journey.simulated or runtime.kind in ("assumed", "container"):
        return journey.checks
    python = interpreter_of(runtime.command, {**os.environ, **runtime.env})
    if python is None:
        return journey.checks
    return checked_for(journey.checks, need(journey.machine), str(python))


def _runtimes(journey: Journey) -> tuple[Runtime, ...]:
    """What there is to choose from; empty: nothing is installed."""
    if journey.simulated:
        return (assumed_runtime(version_for(need(journey.machine))),)
    asked = _asked_command(journey)
    if asked is None:
        return tuple(_with_needs(runtime) for runtime in find_runtimes())
    runtime = probe(asked, {**needs_of(asked), **journey.answers.runtime.env})
    if runtime.problem:
        raise UsageError(
            _("{command} does not answer as a vLLM: {reason}").format(
                command=shell_join(asked), reason=runtime.problem
            ),
            _("Check [runtime] in the answers, or the environment vLLM is installed in."),
        )
    return (runtime,)


def _with_needs(runtime: Runtime) -> Runtime:
    """A vLLM of a recipe asked again, in the environment it was installed for."""
    needs = needs_of(runtime.command)
    return probe(runtime.command, {**needs, **runtime.env}) if needs else runtime


def _asked_command(journey: Journey) -> tuple[str, ...] | None:
    wanted = journey.answers.runtime
    if wanted.command is not None:
        return wanted.command
    if wanted.image is not None:
        return (wanted.image,)
    if wanted.path is None:
        if wanted.kind == "container":
            raise UsageError(
                _('Which image? [runtime] kind = "container" names none.'),
                _("Add image with its name and tag, as `docker images` or `podman images` shows them."),
            )
        return None
    path = paths.expanded(wanted.path)
    return (str(path / "bin" / "vllm") if path.is_dir() else str(path),)


def rate_models(journey: Journey) -> Journey:
    """Step Model, first half: the compatibility matrix."""
    machine = need(journey.machine)
    runtime = need(journey.runtime)
    rows = matrix(machine, runtime, engine_settings(journey, runtime), journey.answers.machine.gpus)
    return msgspec.structs.replace(journey, rows=rows)


def choose_model(journey: Journey, cancel: threading.Event | None = None) -> Journey:
    """Step Model, second half: the model asked for, else the best that works.

    Raises Cancelled when ``cancel`` is set while the hub is asked about a model outside the catalogue.
    """
    runtime = need(journey.runtime)
    answers = journey.answers.model
    wishes = Wishes(
        variant=answers.variant,
        path=answers.path,
        served_name=answers.served_name,
        parser=answers.parser,
        reasoning_parser=answers.reasoning_parser,
    )
    if answers.id is None and answers.path is None:
        choice = choose_best(journey.rows, runtime, wishes)
    elif (entry := _catalogue_entry(answers.id, answers.path)) is not None:
        row = find_row(journey.rows, entry, answers.id or "", answers.variant)
        choice = choose(row, runtime, wishes)
    else:
        choice = _outside(journey, wishes, cancel or threading.Event())
    return msgspec.structs.replace(journey, choice=choice)


def _outside(journey: Journey, wishes: Wishes, cancel: threading.Event) -> Choice:
    answers, runtime = journey.answers, need(journey.runtime)
    try:
        return choose_checkpoint(
            answers.model.id or Path(answers.model.path or "").name,
            need(journey.machine),
            runtime,
            wishes,
            answers.machine.gpus,
            settings=engine_settings(journey, runtime),
            offline=answers.serve.offline,
            cancel=cancel,
        )
    except RefusedError:
        if cancel.is_set():
            raise Cancelled(_("Reading the model was stopped.")) from None
        raise


def _catalogue_entry(name: str | None, path: str | None) -> catalog.Model | None:
    """The catalogue's model, or None for a checkpoint outside it: a local folder or a hub id."""
    if path is None and "/" not in (name or ""):
        return catalog.model(name or "")
    return catalog.find_model(name or "")


def make_plan(journey: Journey) -> Journey:
    """Step Budget: memory, tokens, and from them the complete launch plan.

    Reads what an earlier start measured, and what the user adds to opencode's prompt; touches nothing.
    """
    machine = need(journey.machine)
    runtime = need(journey.runtime)
    choice = need(journey.choice)
    answers = journey.answers
    prompt = first_prompt(journey)
    members = [gpu for gpu in machine.gpus if gpu.index in choice.gpus]
    budget = make_budget(
        gpu=min(members, key=lambda gpu: gpu.memory_mib) if members and not runtime.cpu_build else None,
        weights_gib=choice.weights_gib,
        config=choice.config,
        context=choice.context,
        thinks=choice.thinks,
        settings=plan_settings(journey),
        output=answers.budget.output,
        concurrency=answers.budget.concurrency,
        base_prompt_tokens=prompt.measured,
        extra_prompt_tokens=prompt.extra,
        trim_tools=answers.budget.trim_tools,
        opencode_version=prompt.opencode_version,
        cap=prompt.cap,
        residual=residual(journey),
    )
    serve = ServeSettings(
        host=answers.serve.host,
        port=answers.serve.port,
        api_key_file=answers.serve.api_key_file,
        extra_args=answers.serve.extra_args,
        timeout_s=answers.serve.timeout_s or _patience_s(choice),
        api_key_env=key_variable(answers),
        kv_cache_dtype=answers.budget.kv_cache_dtype,
        gpu_memory_utilization=answers.budget.gpu_memory_utilization,
        offline=answers.serve.offline,
    )
    plan = build_plan(machine=machine, runtime=runtime, choice=choice, budget=budget, settings=serve)
    return msgspec.structs.replace(journey, budget=budget, plan=plan)


def _patience_s(choice: Choice) -> float:
    """How long a start may take: longer where vLLM has to download the weights first."""
    pace = catalog.vllm_facts().start_pace
    whole = presence(Order(checkpoint=choice.checkpoint)).state == "whole"
    missing = 0.0 if whole else choice.files_gib or 0.0
    return 60 * (pace.patience_minutes + missing / pace.download_gib_per_minute)
