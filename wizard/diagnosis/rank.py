"""From the lines a scan found to findings: which faults they show here, how sure that is, and what helps."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from wizard.diagnosis.context import Facts, suits
from wizard.diagnosis.remedies import Values, remedies_for
from wizard.diagnosis.scan import Hit, Scan
from wizard.diagnosis.types import Condition, Evidence, Fault, Finding, Severity
from wizard.i18n import _
from wizard.logtext import Cause, Record
from wizard.plan import LaunchPlan
from wizard.text import one_line

_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}
_NO_CONDITION = Condition()


class Situation(msgspec.Struct, frozen=True):
    """Everything a finding is made from, beside the lines."""

    found: Scan
    cause: Cause | None
    facts: Facts
    values: Values
    plan: LaunchPlan | None

    @property
    def named(self) -> bool:
        """Whether the text names a cause since the server was last seen to run."""
        return self.cause is not None and self.cause.record.number > self.found.serving


class _Candidate(msgspec.Struct, frozen=True):
    """A fault, the lines that show it, and how sure it is: the smaller, the surer."""

    fault: Fault
    hits: tuple[Hit, ...]
    severity: Severity
    weak: bool
    doubt: int


def findings_of(now: Situation, *, ended: bool) -> tuple[Finding, ...]:
    """The findings, most likely cause first. ``ended``: nothing more will be written."""
    by_fault: dict[str, list[Hit]] = {}
    for hit in now.found.hits:
        if _counts(hit, now.found, ended):
            by_fault.setdefault(hit.matcher.fault.id, []).append(hit)
    candidates = [one for hits in by_fault.values() if (one := _candidate(hits, now)) is not None]
    replaced = {id for one in candidates if not one.weak for id in one.fault.replaces}
    kept = [one for one in candidates if one.fault.id not in replaced]
    if now.named or any(one.severity != "info" for one in kept if not one.fault.last_resort):
        kept = [one for one in kept if not one.fault.last_resort]
    return tuple(_finding(one, now) for one in sorted(kept, key=lambda one: _likelihood(one, now.cause)))


def told(fault: Fault, evidence: Iterable[Record], now: Situation) -> Finding:
    """A finding that no signature shows: the lines are those that come nearest to evidence."""
    return _told(
        fault, fault.severity, tuple(evidence_of(record) for record in evidence), now.values, "", now
    )


def evidence_of(record: Record) -> Evidence:
    """A line as it is shown."""
    return Evidence(line=record.number, text=one_line(record.text))


def _counts(hit: Hit, found: Scan, ended: bool) -> bool:
    """Whether the rest of the text bears out what a line shows; what is last shows only at the end."""
    signature, seen = hit.matcher.signature, found.first_seen
    number = hit.record.number
    return (
        all(word in seen for word in signature.needs)
        and all(seen.get(word, number + 1) <= number for word in signature.after)
        and not any(word in seen for word in signature.unless)
        and (not signature.last or (ended and found.progress <= number))
        and (not signature.excerpt or found.excerpt)
    )


def _candidate(hits: list[Hit], now: Situation) -> _Candidate | None:
    """The lines of one fault, without those that its condition rules out."""
    fault = hits[0].matcher.fault
    answers = {id(hit): suits(fault.when, now.facts, hit.stage, {**now.values, **hit.groups}) for hit in hits}
    fitting = [hit for hit in hits if answers[id(hit)] or (answers[id(hit)] is None and not fault.only_known)]
    if not fitting:
        return None
    strong = [hit for hit in fitting if not hit.matcher.signature.weak]
    certain = any(answers[id(hit)] for hit in fitting)
    doubt = 1 if fault.when == _NO_CONDITION else 0 if certain else 2
    return _Candidate(
        fault,
        tuple(sorted(strong or fitting, key=lambda hit: hit.record.number)),
        _severity(fault, max(hit.record.number for hit in fitting), now.found),
        not strong,
        doubt,
    )


def _severity(fault: Fault, number: int, found: Scan) -> Severity:
    """A fault counts for less once the server ran: overcome, said while stopping, or one client's affair."""
    if fault.scope == "request":
        return fault.served_severity if found.serving else fault.severity
    over = number < found.serving or 0 < found.stopping < number
    return "info" if over else fault.severity


def _likelihood(one: _Candidate, cause: Cause | None) -> tuple[int, bool, bool, int, int]:
    """Severe ones first, then what strong lines show, the cause's own line, what suits the machine."""
    numbers = {hit.record.number for hit in one.hits}
    named = cause is not None and not numbers.isdisjoint(record.number for record in cause.block[-1:])
    return _ORDER[one.severity], one.weak, not named, one.doubt, min(numbers)


def _finding(one: _Candidate, now: Situation) -> Finding:
    """One fault with all its lines; the last one, which belongs to the latest start, gives the values."""
    records = {hit.record.text: hit.record for hit in reversed(one.hits)}
    evidence = tuple(evidence_of(record) for record in records.values())[::-1]
    last = one.hits[-1]
    values = dict(now.values)
    for hit in one.hits:
        if hit.record.number == last.record.number:
            values |= hit.groups
    return _told(one.fault, one.severity, evidence, values, last.stage, now)


def _told(
    fault: Fault,
    severity: Severity,
    evidence: tuple[Evidence, ...],
    values: Values,
    stage: str,
    now: Situation,
) -> Finding:
    return Finding(
        fault=fault.id,
        severity=severity,
        title=_(fault.title),
        cause=_(fault.cause),
        evidence=evidence,
        remedies=remedies_for(fault, values, now.plan, now.facts, stage),
        will_not_help=tuple(_(text) for text in fault.will_not_help),
        sources=fault.sources,
    )
