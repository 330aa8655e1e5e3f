"""Something is broken: from what a person names (log, container, unit, server, symptom) to its cause."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from wizard import paths
from wizard.adopt import adopt
from wizard.catalog import Symptom, symptoms
from wizard.child import Outcome, run_child
from wizard.diagnosis import Diagnosis, Finding, diagnose_file, diagnose_text
from wizard.errors import UnknownNameError, UsageError, WizardError
from wizard.flow.cure import explain_smoke
from wizard.flow.examine import check_configuration
from wizard.flow.journey import Journey, Step, forget, need
from wizard.flow.places import runs_dir
from wizard.flow.qualify import smoke_test
from wizard.flow.serving import connect
from wizard.i18n import _
from wizard.machine import Check, Machine, load_machine
from wizard.plan import LaunchPlan, read_plan
from wizard.serve import latest_run, normal_url

_LINES = "20000"
_STATE = "{{.State.Running}} {{.State.ExitCode}}"
_DEADLINE_S = 30.0
_DEFAULT_URL = "http://127.0.0.1:8000/v1"
_OPTIONS = r"(?:(?:--tail|--since|--until|-n)[ =]\S+ |-\S+ )*"
_TYPED = (
    (re.compile(rf"^(?:sudo )?docker (?:container )?logs {_OPTIONS}(\S+)$"), "docker:{}"),
    (re.compile(rf"^(?:sudo )?podman (?:container )?logs {_OPTIONS}(\S+)$"), "podman:{}"),
    (re.compile(r"^(?:sudo )?journalctl (?:-\S+ )*?(?:-u|--unit)[ =]?(\S+)(?: .*)?$"), "unit:{}"),
    (re.compile(r"^(?:sudo )?(?:tail|cat|less|zcat|head) (?:-\S+ (?:\d+ )?)*([^\s-]\S*)$"), "{}"),
    (re.compile(r"^:(\d+)$"), "port:{}"),
    (re.compile(r"^(\d{2,5})$"), "port:{}"),
    (re.compile(r"^(https?://\S+)$"), "server:{}"),
)
"""How people write a source, and what it is called here."""
_SHELL = re.compile(r"(?<=\S) (?:2>&1|&>|>|\|).*$")
"""What a shell would do with the output of a command."""


def examine_trouble(journey: Journey, cancel: threading.Event | None = None) -> Journey:
    """Step Diagnosis: look at what was named and return the journey with the diagnosis.

    ``[start] log`` names it: a file or folder, ``docker:NAME``, ``podman:NAME``, ``unit:NAME``, ``port:N``,
    ``server:URL``, ``symptom:ID``, or the command a person would type for it. Only looks; a server is asked
    a few questions. Raises UsageError where nothing can be read, ServerError where no server answers.
    """
    stop = cancel or threading.Event()
    named = named_source(journey.answers.start.log or "")
    kind, _separator, name = named.partition(":")
    asking = _ASKED.get(kind)
    if asking is None:
        found = diagnose(named, cancel=stop)
        return msgspec.structs.replace(journey, diagnosis=found)
    return asking(journey, name, stop)


def named_source(text: str) -> str:
    """What a person typed as the name of a source: commands that print logs are understood too."""
    typed = _SHELL.sub("", " ".join(text.split()))
    for pattern, name in _TYPED:
        if match := pattern.match(typed):
            return name.format(match[1])
    return text


def is_asked(source: str) -> bool:
    """Whether a source is a server or a complaint, which are looked at by asking, and not a text to read."""
    return source.partition(":")[0] in _ASKED


def keep_pasted(text: str) -> str:
    """Write a pasted text into a file of its own, readable for its owner only, and return its path."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="vllm-opencode-pasted-", suffix=".txt", delete=False, encoding="utf-8", errors="replace"
    ) as file:
        file.write(text if text.endswith("\n") else f"{text}\n")
    return file.name


def log_named(journey: Journey) -> str:
    """The file a journey looked at, or "" when it was something else."""
    named = journey.answers.start.log or ""
    return named if Path(named).is_file() else ""


def diagnose(
    source: str,
    *,
    plan: Path | None = None,
    vllm_version: str | None = None,
    exit_code: int | None = None,
    simulate: str | None = None,
    cancel: threading.Event | None = None,
) -> Diagnosis:
    """Cause and cure of a text: a file, the newest log of a folder, a container, a unit, ``-`` for input.

    With ``plan`` (see ``wizard.plan.read_plan``) the remedies are made for that very command. ``simulate``
    names the recorded machine the text is from; without it the text alone decides: it may be from anywhere.
    """
    known: LaunchPlan | None = None if plan is None else read_plan(plan)
    machine: Machine | None = None if simulate is None else load_machine(simulate)
    kind, _separator, name = source.partition(":")
    reader = _LOGS.get(kind)
    if source != "-" and (reader is None or Path(source).exists()):
        return diagnose_file(
            paths.expanded(source),
            plan=known,
            machine=machine,
            vllm_version=vllm_version,
            exit_code=exit_code,
        )
    text, code = (sys.stdin.buffer, None) if reader is None else reader(name, cancel or threading.Event())
    return diagnose_text(
        text,
        plan=known,
        machine=machine,
        vllm_version=vllm_version,
        exit_code=code if exit_code is None else exit_code,
    )


def _container_log(tool: str) -> Callable[[str, threading.Event], tuple[str, int | None]]:
    def read(name: str, cancel: threading.Event) -> tuple[str, int | None]:
        said = _run((tool, "logs", "--timestamps", "--tail", _LINES, "--", name), cancel)
        state = _run((tool, "inspect", "--format", _STATE, "--", name), cancel)
        running, _space, code = state.output.strip().partition(" ")
        # Its two streams come apart; the time before each line puts them together again.
        lines = sorted([*said.output.splitlines(), *said.errors.splitlines()], key=lambda line: line[:30])
        ended = running == "false" and code.isdecimal()
        return "\n".join(lines) + "\n", int(code) if ended else None

    return read


def _unit_log(name: str, cancel: threading.Event) -> tuple[str, int | None]:
    said = _run(("journalctl", "--no-pager", "--lines", _LINES, "--unit", name), cancel)
    if not said.output.strip() or "-- No entries --" in said.output:
        said = _run(("journalctl", "--no-pager", "--lines", _LINES, "--user-unit", name), cancel)
    if not said.output.strip() or "-- No entries --" in said.output:
        raise UsageError(
            _("The journal holds nothing of the unit {name}.").format(name=name),
            _("See its name with: systemctl list-units --all. It may need sudo."),
        )
    return said.output, None


_LOGS: Mapping[str, Callable[[str, threading.Event], tuple[str, int | None]]] = {
    "docker": _container_log("docker"),
    "podman": _container_log("podman"),
    "unit": _unit_log,
}


def _run(argv: tuple[str, ...], cancel: threading.Event) -> Outcome:
    """The output of a program that prints a log, its last megabyte. Raises UsageError when it fails."""
    if shutil.which(argv[0]) is None:
        raise UsageError(
            _("There is no program {program}.").format(program=argv[0]),
            _("Save the log to a file where it runs, and name the file here."),
        )
    done = run_child(argv, os.environ, _DEADLINE_S, cancel)
    if done.code != 0:
        reason = done.cut_short or (done.errors or done.output).strip().rpartition("\n")[2]
        raise UsageError(
            _("{program} did not give the log: {reason}").format(program=argv[0], reason=reason),
            _("Try it by hand; it may need sudo."),
        )
    return done


def _port(journey: Journey, name: str, cancel: threading.Event) -> Journey:
    return _server(journey, f"http://127.0.0.1:{name}/v1", cancel)


def _server(journey: Journey, url: str, cancel: threading.Event) -> Journey:
    """A running server: its configuration in opencode, then real requests."""
    return _asked(journey, url, ("config", "smoke"), (), cancel)


def _symptom(journey: Journey, name: str, cancel: threading.Event) -> Journey:
    known = {symptom.id: symptom for symptom in symptoms()}
    if name not in known:
        raise UnknownNameError(_("symptom"), name, known)
    run = latest_run(runs_dir(journey))
    url = journey.answers.start.base_url or (run.base_url if run is not None else _DEFAULT_URL)
    symptom: Symptom = known[name]
    return _asked(journey, url, symptom.look, symptom.faults, cancel)


def _asked(
    journey: Journey, url: str, look: tuple[str, ...], faults: tuple[str, ...], cancel: threading.Event
) -> Journey:
    """Look in these places, until one shows an error; what the symptom may come of is told first."""
    start = msgspec.structs.replace(journey.answers.start, base_url=normal_url(url))
    journey = forget(journey, Step.DIAGNOSE)
    asked = msgspec.structs.replace(journey, answers=msgspec.structs.replace(journey.answers, start=start))
    findings: list[Finding] = []
    for place in look:
        findings += _LOOKS[place](asked, cancel)
        if any(one.severity == "error" for one in findings):
            break
    expected = {fault: place for place, fault in enumerate(faults)}
    order = {"error": 0, "warning": 1, "info": 2}
    findings.sort(key=lambda one: (order[one.severity], expected.get(one.fault, len(expected))))
    failed = any(one.severity != "info" for one in findings)
    found = Diagnosis(verdict="failed" if failed else "healthy", findings=tuple(findings), lines=0, bytes=0)
    return msgspec.structs.replace(journey, diagnosis=found)


_ASKED: Mapping[str, Callable[[Journey, str, threading.Event], Journey]] = {
    "symptom": _symptom,
    "port": _port,
    "server": _server,
}


def _look_at_config(journey: Journey, _cancel: threading.Event) -> list[Finding]:
    return [_of_check(check) for check in check_configuration(journey) if check.status in ("fail", "warn")]


def _look_at_answers(journey: Journey, cancel: threading.Event) -> list[Finding]:
    try:
        connected = connect(journey)
    except WizardError as error:
        refused = Check(id="server", status="fail", detail=error.message, hint=error.hint)
        return [_of_check(refused)]
    tested = smoke_test(_with_plan(connected), lambda _check: None, cancel)
    found = explain_smoke(tested).findings
    if found or need(tested.smoke).verdict != "fail":
        return list(found)
    failed = next(one for one in need(tested.smoke).checks if one.required and one.status == "fail")
    return [_of_check(Check(id=failed.id, status="fail", detail=failed.detail, hint=failed.hint))]


def _look_at_log(journey: Journey, _cancel: threading.Event) -> list[Finding]:
    run = latest_run(runs_dir(journey))
    return [] if run is None else list(diagnose_file(Path(run.log)).findings)


_LOOKS: Mapping[str, Callable[[Journey, threading.Event], list[Finding]]] = {
    "config": _look_at_config,
    "smoke": _look_at_answers,
    "log": _look_at_log,
}


def _with_plan(journey: Journey) -> Journey:
    """The journey with the plan its server was started with, where it runs here and can be read."""
    port = need(journey.server).base_url.rpartition(":")[2].partition("/")[0]
    try:
        return msgspec.structs.replace(journey, plan=adopt(f"port:{port}").plan)
    except WizardError:
        return journey


def _of_check(check: Check) -> Finding:
    return Finding(
        fault=check.id,
        severity="error" if check.status == "fail" else "warning",
        title=check.detail,
        cause=check.hint,
        evidence=(),
    )
