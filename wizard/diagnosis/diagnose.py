"""From a text to a verdict and findings, most likely cause first."""

from __future__ import annotations

import contextlib
import functools
import gzip
import zlib
from collections.abc import Iterable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from wizard.adopt import adopt_line
from wizard.diagnosis.context import facts_of
from wizard.diagnosis.faultbase import faults
from wizard.diagnosis.rank import Situation, evidence_of, findings_of, told
from wizard.diagnosis.remedies import values_of
from wizard.diagnosis.scan import Scan, Scanner, last_line
from wizard.diagnosis.types import UNRECOGNISED, Diagnosis, Evidence, Finding, Verdict
from wizard.errors import UsageError
from wizard.i18n import _
from wizard.logtext import Record, find_cause
from wizard.machine import Machine
from wizard.plan import LaunchPlan
from wizard.text import one_line

_CHUNK = 4 << 20
_GZIP = b"\x1f\x8b"
_BLOCK_SHOWN = 8
_TROUBLE = 3
"""Lines of unknown errors that make a text that of a failure; one or two of them, healthy logs have too."""


class Watch:
    """Diagnoses a log while it is written: feed it, ask for findings, conclude when the process has ended."""

    def __init__(
        self,
        *,
        plan: LaunchPlan | None = None,
        machine: Machine | None = None,
        vllm_version: str | None = None,
        values: Mapping[str, str] | None = None,
    ) -> None:
        """``values``: what remedies may name and neither plan nor log say, such as ``model_parser``."""
        self._plan, self._machine, self._version = plan, machine, vllm_version
        self._values = dict(values or {})
        self._scanner = Scanner()

    @property
    def shown(self) -> int:
        """How many lines held a signature so far: while it stands still, so do the findings."""
        return self._scanner.found.seen

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the log; a line counts when its end has come."""
        self._scanner.feed(chunk)

    def findings(self) -> tuple[Finding, ...]:
        """What the lines so far show, most likely cause first."""
        return findings_of(self._situation(self._scanner.found), ended=False)

    def conclude(self, exit_code: int | None = None) -> Diagnosis:
        """The diagnosis of the whole text. ``exit_code`` decides where it is silent; None: not known."""
        found = self._scanner.finish()
        now = self._situation(found)
        findings = findings_of(now, ended=True)
        verdict = _verdict(now, findings, exit_code)
        if not any(finding.severity != "info" for finding in findings):
            silent = _silent_end(now, exit_code)
            findings = (*silent, *findings)
            if any(finding.severity == "error" for finding in silent):
                verdict = "failed"
            elif silent:
                verdict = "incomplete"
        if verdict == "unknown" and (quoted := _quoted(now)) is not None:
            findings = (quoted, *findings)
        return Diagnosis(
            verdict=verdict, findings=findings, lines=found.lines, bytes=found.size, plan=now.plan
        )

    def _situation(self, found: Scan) -> Situation:
        plan = self._plan or _told_plan(found.start, self._version or found.facts.get("vllm"))
        facts = facts_of(found.facts, self._machine, plan, self._version)
        values = values_of(plan) | ({"gpus": str(facts.gpus)} if facts.gpus else {})
        values |= self._values
        return Situation(found, find_cause(found.records), facts, values, plan)


@functools.lru_cache(maxsize=4)
def _told_plan(start: str, version: str | None) -> LaunchPlan | None:
    """The plan of the server whose log has this line with its arguments; None where there is no such line."""
    adopted = adopt_line(start, version=version) if start else None
    return None if adopted is None else adopted.plan


def diagnose_text(
    text: str | bytes | BinaryIO | Iterable[bytes],
    *,
    plan: LaunchPlan | None = None,
    machine: Machine | None = None,
    vllm_version: str | None = None,
    exit_code: int | None = None,
    values: Mapping[str, str] | None = None,
) -> Diagnosis:
    """Cause and cure in a log of vLLM or its installation, an answer of a server, or opencode's output.

    A file is read in pieces and only the lines worth it are kept. ``machine``, ``plan`` and ``vllm_version``
    decide between causes that say the same; ``plan`` also makes remedies concrete and drops those that change
    nothing in it; ``exit_code`` decides where the text is silent; ``values`` as for ``Watch``.
    """
    watch = Watch(plan=plan, machine=machine, vllm_version=vllm_version, values=values)
    for chunk in _chunks(text):
        watch.feed(chunk)
    return watch.conclude(exit_code)


def diagnose_file(
    path: Path,
    *,
    plan: LaunchPlan | None = None,
    machine: Machine | None = None,
    vllm_version: str | None = None,
    exit_code: int | None = None,
) -> Diagnosis:
    """The diagnosis of a file, or of the newest file of a folder of logs, as of ``diagnose_text``.

    Raises UsageError when it cannot be read.
    """
    try:
        with _newest(path).open("rb") as file:
            return diagnose_text(
                _unpacked(file), plan=plan, machine=machine, vllm_version=vllm_version, exit_code=exit_code
            )
    except OSError as error:
        raise UsageError(
            _("Cannot read {path}: {reason}.").format(path=path, reason=error.strerror),
            _("Name the log of vLLM, or - for standard input."),
        ) from error


def _newest(path: Path) -> Path:
    """The file itself; of a folder, as opencode keeps one, the log that was written last."""
    if not path.is_dir():
        return path
    logs = [
        entry
        for entry in path.iterdir()
        if entry.suffix in (".log", ".txt", ".out", ".gz") and entry.is_file()
    ]
    return max(logs, key=lambda entry: entry.stat().st_mtime, default=path)


def _chunks(text: str | bytes | BinaryIO | Iterable[bytes]) -> Iterable[bytes]:
    if isinstance(text, str):
        return (text.encode("utf-8", errors="replace"),)
    if isinstance(text, bytes):
        return (text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK))
    if hasattr(text, "read"):
        return iter(lambda: text.read(_CHUNK), b"")
    return text


def _unpacked(file: BufferedReader) -> Iterable[bytes]:
    """The pieces of a file, of a rotated log that gzip packed too; of one that breaks off what there is."""
    if not file.peek(2).startswith(_GZIP):
        yield from _chunks(file)
        return
    with gzip.GzipFile(fileobj=file) as packed, contextlib.suppress(EOFError, zlib.error, gzip.BadGzipFile):
        yield from iter(lambda: packed.read1(_CHUNK), b"")


def _silent_end(now: Situation, exit_code: int | None) -> tuple[Finding, ...]:
    """The fault an exit code shows when the text names no cause, or that a start without an end shows."""
    found = now.found
    if now.named or found.failure is not None:
        return ()
    evidence: tuple[Record, ...] = () if (last := last_line(found)) is None else (last,)
    if exit_code and not found.stopping:
        return tuple(told(fault, evidence, now) for fault in faults() if exit_code in fault.exit_codes)
    starting = found.begun > found.serving and not found.stopping and len(found.troubled) < _TROUBLE
    return tuple(told(fault, evidence, now) for fault in faults() if fault.silence) if starting else ()


def _verdict(now: Situation, findings: tuple[Finding, ...], exit_code: int | None) -> Verdict:
    if any(finding.severity != "info" for finding in findings):
        return "failed"
    if _broke(now) or (exit_code and not now.found.stopping):
        return "unknown"
    return "healthy" if now.found.serving or (findings and now.found.excerpt) else "incomplete"


def _broke(now: Situation) -> bool:
    """Whether the text tells of a failure after the last time the server was seen to run."""
    found = now.found
    if found.failure is not None and found.failure.number > found.serving:
        return True
    return not found.serving and (now.cause is not None or len(found.troubled) >= _TROUBLE)


def _quoted(now: Situation) -> Finding | None:
    """What the text itself says about a failure nobody knows; None when it says nothing at all."""
    found, cause = now.found, now.cause
    if cause is not None and now.named:
        named = Evidence(line=cause.record.number, text=one_line(cause.text))
        around = [record for record in cause.block if record.number != cause.record.number and record.text]
        evidence = (named, *(evidence_of(record) for record in around[1 - _BLOCK_SHOWN :]))
    elif found.failure is not None:
        evidence = tuple(evidence_of(record) for record in (*reversed(found.troubled), found.failure))
    elif telling := (found.troubled or [last for last in (last_line(found),) if last is not None]):
        evidence = tuple(evidence_of(record) for record in reversed(telling))
    else:
        return None
    return Finding(
        fault=UNRECOGNISED,
        severity="error",
        title=_("A failure that is not in the fault base."),
        cause=_("The line quoted first is the most telling one; nothing more is known about it."),
        evidence=evidence,
    )
