"""From what a scan found to a verdict and findings, most likely cause first."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from wizard.diagnosis.faultbase import fault_base
from wizard.diagnosis.remedies import Values, remedies_for, values_of
from wizard.diagnosis.scan import Hit, Scan, last_line, scan
from wizard.diagnosis.types import UNRECOGNISED, Diagnosis, Evidence, Fault, Finding, Severity, Verdict
from wizard.errors import UsageError
from wizard.i18n import _
from wizard.logtext import Cause, Record, find_cause
from wizard.plan import LaunchPlan
from wizard.text import one_line

_CHUNK = 1 << 20
_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


def diagnose_text(
    text: str | bytes | BinaryIO | Iterable[bytes],
    *,
    plan: LaunchPlan | None = None,
    exit_code: int | None = None,
) -> Diagnosis:
    """Cause and cure in a vLLM log, the body of an HTTP error, or opencode's output.

    A file is read in pieces and only the lines worth it are kept. ``plan`` makes remedies concrete and drops
    those that change nothing in it; ``exit_code`` decides where the text is silent.
    """
    found = scan(_chunks(text))
    cause = find_cause(found.records)
    values = values_of(found.arguments, plan)
    findings = _findings(found, cause, values, plan)
    if not any(finding.severity != "info" for finding in findings):
        findings = (*_silent_end(found, cause, exit_code, values, plan), *findings)
    verdict = _verdict(found, cause, findings, exit_code)
    if verdict == "unknown" and (quoted := _quoted(found, cause)) is not None:
        findings = (quoted, *findings)
    return Diagnosis(verdict=verdict, findings=findings, lines=found.lines, bytes=found.size)


def diagnose_file(path: Path, *, plan: LaunchPlan | None = None, exit_code: int | None = None) -> Diagnosis:
    """The diagnosis of a file, as of ``diagnose_text``. Raises UsageError when it cannot be read."""
    try:
        with path.open("rb") as file:
            return diagnose_text(file, plan=plan, exit_code=exit_code)
    except OSError as error:
        raise UsageError(
            _("Cannot read {path}: {reason}.").format(path=path, reason=error.strerror),
            _("Name the log of vLLM, or - for standard input."),
        ) from error


def _chunks(text: str | bytes | BinaryIO | Iterable[bytes]) -> Iterable[bytes]:
    if isinstance(text, str):
        return (text.encode("utf-8", errors="replace"),)
    if isinstance(text, bytes):
        return (text,)
    if hasattr(text, "read"):
        return iter(lambda: text.read(_CHUNK), b"")
    return text


def _findings(
    found: Scan, cause: Cause | None, values: Values, plan: LaunchPlan | None
) -> tuple[Finding, ...]:
    hits: dict[str, list[Hit]] = {}
    for hit in found.hits:
        hits.setdefault(hit.fault.id, []).append(hit)
    findings = [
        _finding(same, found, values, plan)
        for same in hits.values()
        if not same[0].fault.last_resort or _nothing_else(found, cause)
    ]
    return tuple(sorted(findings, key=lambda finding: _likelihood(finding, cause)))


def _nothing_else(found: Scan, cause: Cause | None) -> bool:
    """Whether the text shows no fault but those of last resort, and names no cause since the server ran."""
    others = (hit for hit in found.hits if not hit.fault.last_resort)
    named = cause is not None and cause.record.number > found.serving
    return not named and all(_severity(hit.fault, hit.record, found) == "info" for hit in others)


def _finding(hits: list[Hit], found: Scan, values: Values, plan: LaunchPlan | None) -> Finding:
    """One fault with all its lines; the last one, which belongs to the latest start, gives the values."""
    fault = hits[-1].fault
    return _told(
        fault,
        severity=_severity(fault, hits[-1].record, found),
        evidence=tuple({hit.record.text: _evidence(hit.record) for hit in reversed(hits)}.values())[::-1],
        values={**values, **hits[-1].groups},
        plan=plan,
    )


def _told(
    fault: Fault,
    *,
    severity: Severity,
    evidence: tuple[Evidence, ...],
    values: Values,
    plan: LaunchPlan | None,
) -> Finding:
    return Finding(
        fault=fault.id,
        severity=severity,
        title=_(fault.title),
        cause=_(fault.cause),
        evidence=evidence,
        remedies=remedies_for(fault, values, plan),
        sources=fault.sources,
    )


def _severity(fault: Fault, record: Record, found: Scan) -> Severity:
    """A fault counts for less once the server ran: overcome, said while stopping, or one client's affair."""
    if fault.scope == "request":
        return fault.served_severity if found.serving else fault.severity
    over = record.number < found.serving or 0 < found.stopping < record.number
    return "info" if over else fault.severity


def _likelihood(finding: Finding, cause: Cause | None) -> tuple[int, bool, int]:
    """Severe ones first, then the one that the cause's own line shows, then in the order of the text."""
    numbers = {evidence.line for evidence in finding.evidence}
    named = cause is not None and not numbers.isdisjoint(record.number for record in cause.block[-1:])
    return _ORDER[finding.severity], not named, finding.evidence[0].line


def _silent_end(
    found: Scan, cause: Cause | None, exit_code: int | None, values: Values, plan: LaunchPlan | None
) -> tuple[Finding, ...]:
    """The fault an exit code shows when the text names no cause after the server was last seen to run."""
    if cause is not None and cause.record.number > found.serving:
        return ()
    last = last_line(found)
    evidence = () if last is None else (_evidence(last),)
    return tuple(
        _told(fault, severity=fault.severity, evidence=evidence, values=values, plan=plan)
        for fault in fault_base().fault
        if exit_code in fault.exit_codes
    )


def _verdict(
    found: Scan, cause: Cause | None, findings: tuple[Finding, ...], exit_code: int | None
) -> Verdict:
    if any(finding.severity != "info" for finding in findings):
        return "failed"
    if _broke(found, cause) or (exit_code and not found.stopping):
        return "unknown"
    return "healthy" if found.serving else "incomplete"


def _broke(found: Scan, cause: Cause | None) -> bool:
    """Whether the text tells of a failure after the last time the server was seen to run."""
    if found.failure is not None and found.failure.number > found.serving:
        return True
    return cause is not None and not found.serving


def _quoted(found: Scan, cause: Cause | None) -> Finding | None:
    """What the text itself says about a failure nobody knows; None when it says nothing at all."""
    if cause is not None and cause.record.number > found.serving:
        evidence = Evidence(line=cause.record.number, text=one_line(cause.text))
    elif (telling := found.failure or last_line(found)) is not None:
        evidence = _evidence(telling)
    else:
        return None
    return Finding(
        fault=UNRECOGNISED,
        severity="error",
        title=_("A failure that is not in the fault base."),
        cause=_("The line quoted is the most telling one; nothing more is known about it."),
        evidence=(evidence,),
    )


def _evidence(record: Record) -> Evidence:
    return Evidence(line=record.number, text=one_line(record.text))
