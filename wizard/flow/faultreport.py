"""What is handed on about a failure: the log around the line that shows it, and a redacted report."""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path

from wizard import report
from wizard.diagnosis import Diagnosis
from wizard.errors import UsageError
from wizard.flow.journey import Journey
from wizard.i18n import _
from wizard.paths import write_atomic
from wizard.plan import document
from wizard.text import inert

_BEFORE, _AFTER = 3, 20
_LINE_LIMIT = 2000
_TAIL_BYTES = 64 << 10
_TAIL_LINES = 80


def log_around(log: str, line: int | None, around: int = _AFTER) -> tuple[str, ...]:
    """The lines of a file around a line, with their numbers; its last lines where none is named.

    Empty when it cannot be read.
    """
    try:
        with Path(log).open("rb") as file:
            if line is None:
                file.seek(max(0, Path(log).stat().st_size - _TAIL_BYTES))
                return tuple(map(_shown, file.read().splitlines()[-2 * around :]))
            first = max(1, line - _BEFORE)
            chosen = itertools.islice(file, first - 1, line + around)
            return tuple(f"{number:>6}  {_shown(text)}" for number, text in enumerate(chosen, first))
    except OSError:
        return ()


def write_fault_report(journey: Journey, found: Diagnosis, log: str = "", file: Path | None = None) -> Path:
    """Write what somebody who helps needs: machine, plan, findings, attempts, the end of the log; redacted.

    Returns where it is: ``file``, else one in the working folder, or where that cannot be written in the
    folder for temporary files. Raises UsageError when no place can be written.
    """
    plan = document(journey.plan) if journey.plan is not None else {}
    parts = {
        _("Machine"): journey.machine,
        _("Launch plan"): plan.get("plan"),
        _("Findings"): {one.fault: one for one in found.findings},
        _("Tried"): {attempt.title: attempt.outcome for attempt in journey.attempts},
    }
    lines = [_("vllm-opencode: report about a failure"), ""]
    for title, content in parts.items():
        if content:
            lines += [title, *report.listed(content), ""]
    if log:
        lines += [_("The end of the log"), *log_around(log, None, _TAIL_LINES // 2)]
    content = (report.redact("\n".join(lines)) + "\n").encode()
    here = Path(time.strftime("vllm-opencode-fault-%Y%m%d-%H%M%S.txt"))
    try:
        return _written(file or here, content)
    except UsageError:
        if file is not None:
            raise
        return _written(Path(tempfile.gettempdir()) / here, content)


def _written(target: Path, content: bytes) -> Path:
    write_atomic(target, content)
    return target.absolute()


def _shown(raw: bytes) -> str:
    return inert(raw[:_LINE_LIMIT].decode("utf-8", errors="replace")).rstrip()
