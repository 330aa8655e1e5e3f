"""Commands around a running server: launch, status, logs, stop, smoke, rehearse."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from wizard import paths, rehearsal
from wizard.cli import output
from wizard.cli.events import show_check, show_check_event, show_event
from wizard.cli.journeys import consent, journey, with_runtime
from wizard.cli.looking import AnswersOption
from wizard.cli.options import current
from wizard.cli.signals import like_interrupt
from wizard.cli.speed import show_speed
from wizard.errors import LaunchError, RefusedError, UnknownNameError, UsageError
from wizard.flow import (
    bring_up,
    choose_model,
    chosen,
    free_port,
    keep_verdict,
    make_plan,
    need,
    rate_models,
    smoke_test,
)
from wizard.flow import connect as connect_journey
from wizard.i18n import _
from wizard.serve import (
    Run,
    is_alive,
    latest_run,
)
from wizard.serve import stop as stop_run

CureOption = Annotated[
    bool,
    typer.Option(
        "--cure",
        help=_(
            "Apply remedies that only change the plan and cost neither quality nor safety, three at most, "
            "and start again."
        ),
    ),
]
FOLLOW_S = 0.3
"""How often a log that is followed is looked at again."""


def launch(
    answers: AnswersOption = None,
    model: Annotated[str | None, typer.Option("--model", help=_("A model of the catalogue."))] = None,
    yes: Annotated[bool, typer.Option("--yes", help=_("Go on without asking."))] = False,
    attach: Annotated[
        bool | None, typer.Option("--attach/--detach", help=_("Stay with the server, or leave it running."))
    ] = None,
    cure: CureOption = False,
) -> int:
    """Start vLLM. 0: it answers; 1: it did not come up, was refused, or a cure lost the tool calls."""
    detach = None if attach is None else not attach
    start = journey(answers, model={"id": model}, serve={"detach": detach, "cure": "safe" if cure else None})
    planned = make_plan(choose_model(rate_models(with_runtime(start))))
    plan = need(planned.plan)
    if not planned.simulated and not plan.refused:
        command, size = " ".join(plan.command), chosen(planned).download_gib
        question = _("Download {size:.0f} GiB and start {command} …?") if size else _("Start {command} …?")
        consent(question.format(command=command, size=size), yes)
    detached = planned.answers.serve.detach and not planned.simulated
    like_interrupt(hangup=not detached)
    cancel = threading.Event()
    launched = bring_up(planned, show_event, lambda at: smoke_test(at, show_check_event, cancel), cancel)
    run = need(launched.run)
    if launched.smoke is not None and launched.smoke.verdict == "fail":
        if launched.started_here:
            stop_run(run)
        raise RefusedError(
            _("vLLM answers, but its tool calls do not arrive: it was stopped again."),
            _(
                "The checks above say why. Find the parser that reads them: vllm-opencode diagnose {log}"
            ).format(log=run.log),
        )
    if detached:
        output.say(_("It goes on without this window. Stop it with: vllm-opencode stop"))
        return 0
    if planned.simulated and attach is None:
        stop_run(run)
        output.say(_("Rehearsal over; the stand-in server is stopped."))
        return 0
    return _attend(run)


def _attend(run: Run) -> int:
    """Stay with a run until it ends or the user interrupts, which stops it."""
    output.say(_("Attached. Ctrl-C stops the server."))
    try:
        while is_alive(run):
            time.sleep(FOLLOW_S)
    except KeyboardInterrupt:
        stop_run(run)
        output.say(_("Stopped."))
        return 0
    raise LaunchError(_("The server ended by itself."), _("The whole log: {log}").format(log=run.log))


def status() -> int:
    """What runs. 0: it answers; 1: nothing runs or it does not answer."""
    run = latest_run(paths.runs_dir())
    alive = run is not None and is_alive(run)
    if current().json:
        output.document({"running": alive, "run": run})
        return 0 if alive else 1
    if run is None:
        output.say(_("Nothing was started from here yet."))
        return 1
    word = _("runs") if alive else _("ended")
    output.say(
        _("{name} {word}: {url}, process {pid}, log {log}").format(
            name=run.served_model_name, word=word, url=run.base_url, pid=run.pid, log=run.log
        )
    )
    return 0 if alive else 1


def logs(
    follow: Annotated[bool, typer.Option("-f", "--follow", help=_("Go on until the run ends."))] = False,
) -> int:
    """The log of the last run, made inert; ``-f`` goes on until the run ends."""
    run = _known_run()
    with Path(run.log).open(encoding="utf-8", errors="replace") as file:
        while True:
            for line in file:
                output.say(line.rstrip("\n"))
            if not follow or not is_alive(run):
                return 0
            time.sleep(FOLLOW_S)


def stop() -> int:
    """Stop the last run. 0: it is gone; 1: something of it is left."""
    run = _known_run()
    stopped = stop_run(run)
    if current().json:
        output.document(stopped)
    if stopped.left:
        raise RefusedError(
            _("Some of its processes are still there: {pids}.").format(
                pids=", ".join(map(str, stopped.left))
            ),
            _("Look at them with ps, and end them by hand."),
        )
    output.say(_("Stopped.") if stopped.was_running else _("It has ended already."))
    return 0


def _known_run() -> Run:
    run = latest_run(paths.runs_dir())
    if run is None:
        raise UsageError(_("Nothing was started from here yet."), _("Start it with: vllm-opencode launch"))
    return run


def smoke(
    base_url: Annotated[
        str | None, typer.Option("--base-url", help=_("Address of a running vLLM, with /v1."))
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help=_("Served name, or a model of the catalogue."))
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option("--api-key-env", help=_("Variable that holds the key."))
    ] = None,
    api_key_file: Annotated[
        str | None, typer.Option("--api-key-file", help=_("File that holds the key."))
    ] = None,
) -> int:
    """The live tool-call test. 0: passed; 1: failed or inconclusive."""
    start = journey(
        start={
            "mode": "connect",
            "base_url": default_url(None) if base_url is None else base_url,
            "api_key_env": api_key_env,
        },
        model={"served_name": model},
        serve={"api_key_file": api_key_file},
    )
    tested = smoke_test(connect_journey(start), show_check, threading.Event())
    keep_verdict(tested)
    report = need(tested.smoke)
    if current().json:
        output.document(report)
    else:
        output.say(_("Verdict: {verdict}").format(verdict=report.verdict))
        show_speed(report.speed)
    return 0 if report.verdict == "pass" else 1


def default_url(answers_file: Path | None) -> str | None:
    """Where a server is looked for when none is named: the last run of ours, else vLLM's own port here.

    None with an answers file, which may name it itself.
    """
    if answers_file is not None:
        return None
    run = latest_run(paths.runs_dir())
    return run.base_url if run is not None and is_alive(run) else "http://127.0.0.1:8000/v1"


def rehearse(
    fault: Annotated[str | None, typer.Option("--fault", help=_("What shall go wrong; see --list."))] = None,
    listing: Annotated[bool, typer.Option("--list", help=_("List the faults."))] = False,
) -> int:
    """A stand-in vLLM on a free loopback port, until Ctrl-C."""
    known = rehearsal.faults()
    if listing:
        if current().json:
            output.document({"faults": known})
        else:
            output.table((_("fault"), _("what happens")), ((name, _(title)) for name, title in known.items()))
        return 0
    if fault is not None and fault not in known:
        raise UnknownNameError(_("fault"), fault, known)
    port = free_port()
    words = [
        "serve",
        "rehearsal",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--served-model-name",
        "rehearsal",
    ]
    words += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    words += ["--rehearsal-fault", fault] if fault else []
    address = f"http://127.0.0.1:{port}/v1"
    if current().json:
        output.event({"base_url": address, "fault": fault})
    output.say(_("Rehearsal, not a real vLLM: {url}. Ctrl-C ends it.").format(url=address))
    like_interrupt(hangup=True)
    stand_in = subprocess.Popen([*rehearsal.command(), *words, "--rehearsal-with-parent"])
    try:
        return 0 if stand_in.wait() == 0 else 1
    except KeyboardInterrupt:
        stand_in.terminate()
        stand_in.wait(timeout=10)
        return 0
