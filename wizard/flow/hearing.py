"""A start that is listened to: what its log shows is told while vLLM still dies, and concluded at its end."""

from __future__ import annotations

from collections.abc import Iterable

from wizard import diagnosis
from wizard.checkpoint import detect_parsers, read_checkpoint
from wizard.diagnosis import UNRECOGNISED, Diagnosis, Watch
from wizard.errors import LaunchError, WizardError
from wizard.flow.journey import Journey
from wizard.i18n import _
from wizard.plan import LaunchPlan
from wizard.serve import Event, Finding, Run, next_free_port


class Found(Finding, frozen=True, kw_only=True, tag="finding"):
    """A fault that the fault base knows; ``code`` and ``text`` are its name and title."""

    finding: diagnosis.Finding


class StartFailed(LaunchError):
    """vLLM did not come up, and what its log says about that; ``log`` is "" when there is none."""

    def __init__(
        self,
        message: str,
        hint: str = "",
        evidence: tuple[str, ...] = (),
        *,
        found: Diagnosis,
        log: str = "",
    ) -> None:
        super().__init__(message, hint, evidence)
        self.diagnosis = found
        self.log = log


class Listening:
    """Feeds the log of a start to the diagnosis and tells every fault once, as soon as it shows."""

    def __init__(self, journey: Journey, plan: LaunchPlan) -> None:
        self._watch = Watch(
            plan=plan, machine=journey.machine, vllm_version=plan.vllm_version, values=known_values(journey)
        )
        self._told: set[str] = set()
        self._shown = 0

    def hear(self, piece: bytes, seconds: float) -> Iterable[Event]:
        """The fault that the next bytes of the log show, if it was not told before."""
        self._watch.feed(piece)
        if self._watch.shown == self._shown:
            return ()
        self._shown = self._watch.shown
        errors = [found for found in self._watch.findings() if found.severity == "error"]
        return self._new(errors[:1], seconds)

    def conclude(self, exit_code: int | None, seconds: float) -> tuple[Diagnosis, list[Found]]:
        """The diagnosis of the whole log, and its first fault if that was not told yet."""
        whole = self._watch.conclude(exit_code)
        first = whole.findings[:1]
        known = [one for one in first if one.severity != "info" and one.fault != UNRECOGNISED]
        return whole, self._new(known, seconds)

    def _new(self, findings: Iterable[diagnosis.Finding], seconds: float) -> list[Found]:
        fresh = [found for found in findings if found.fault not in self._told]
        self._told.update(found.fault for found in fresh)
        return [found_event(found, seconds) for found in fresh]


def found_event(found: diagnosis.Finding, seconds: float) -> Found:
    """A finding as something that happened."""
    best = found.remedies[0].title if found.remedies else found.cause
    return Found(
        seconds=seconds,
        code=found.fault,
        text=found.title,
        evidence=tuple(seen.text for seen in found.evidence),
        hint=best,
        finding=found,
    )


def failure(found: Diagnosis, said: Finding | None, run: Run) -> StartFailed:
    """The error of a start that failed: the recognised cause, else what vLLM itself said last."""
    first = next((one for one in found.findings if one.severity == "error"), None)
    if first is not None and first.fault != UNRECOGNISED:
        reason = first.title
        hint = first.remedies[0].title if first.remedies else first.cause
        evidence = tuple(seen.text for seen in first.evidence)
    else:
        reason = said.text if said else _("vLLM ended without a word.")
        hint = said.hint if said and said.hint else _("The whole log: {log}").format(log=run.log)
        evidence = said.evidence if said else ()
    if said is not None and said.code == "failed":
        evidence = said.evidence
    message = _("vLLM did not come up: {reason}").format(reason=reason)
    return StartFailed(message, hint, evidence, found=found, log=run.log)


def known_values(journey: Journey) -> dict[str, str]:
    """What the journey knows that a remedy may name, and neither plan nor log say."""
    plan = journey.plan
    if journey.choice is not None:
        parser = journey.choice.family_parser
    else:
        parser = None if plan is None else _parser_of(plan)
    port = None if plan is None else next_free_port(plan.host, plan.port)
    known = {"model_parser": parser, "other_port": None if port is None else str(port)}
    return {name: value for name, value in known.items() if value}


def _parser_of(plan: LaunchPlan) -> str | None:
    """The tool-call parser that the template of a plan's checkpoint asks for, where that lies here."""
    try:
        checkpoint = read_checkpoint(plan.checkpoint, offline=True)
    except WizardError:
        return None
    return detect_parsers(checkpoint, version=plan.vllm_version).tool_parser
