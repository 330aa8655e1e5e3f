"""What was tried against a fault of a plan, kept beside the runs: what did not help is not offered again."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import msgspec

from wizard import diagnosis
from wizard.diagnosis import Remedy, edit_of
from wizard.errors import UsageError
from wizard.flow.journey import Attempt, Journey, need
from wizard.flow.places import runs_dir
from wizard.paths import write_atomic
from wizard.plan import LaunchPlan, take_back

LIMIT = 3
"""So many remedies in a row are tried; then a person should look at it."""
_FILE = "attempts.json"
_KEPT = 200
"""Kept at most, the oldest go first."""


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    attempts: tuple[Attempt, ...] = ()


def key_of_remedy(remedy: Remedy) -> str:
    """What tells a remedy from others in any language: what it does, not how it is worded."""
    change = (sorted(remedy.set.items()), remedy.unset, sorted(remedy.env.items()))
    content = (remedy.kind, *change, remedy.commands)
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:12]


def uncured_id(plan: LaunchPlan) -> str:
    """The fingerprint of a plan without any remedy in it."""
    for edit in plan.edits:
        if edit.origin == "remedy":
            plan = take_back(plan, edit)
    return plan.id


def offered(journey: Journey, finding: diagnosis.Finding) -> tuple[Remedy, ...]:
    """The remedies of a finding, best first, without those that did not help with it in this plan.

    What helped an earlier start of the same plan comes first.
    """
    known = {
        attempt.remedy: attempt.outcome
        for attempt in _known(journey)
        if attempt.fault == finding.fault and attempt.plan == uncured_id(need(journey.plan))
    }
    left = [remedy for remedy in finding.remedies if known.get(key_of_remedy(remedy)) != "failed"]
    return tuple(sorted(left, key=lambda remedy: known.get(key_of_remedy(remedy)) != "helped"))


def applicable(remedy: Remedy) -> bool:
    """Whether a remedy can be carried out from here: it changes the plan, or is to start once more."""
    return edit_of(remedy) is not None or remedy.again


def exhausted(journey: Journey) -> bool:
    """Whether so many remedies were tried in a row that a report is worth more than another one."""
    return len(journey.attempts) >= LIMIT


def note(journey: Journey, attempt: Attempt) -> Journey:
    """The journey with one more attempt, which is kept for later starts too."""
    return _keep(msgspec.structs.replace(journey, attempts=(*journey.attempts, attempt)))


def judged(journey: Journey, outcome: Literal["helped", "failed", "changed"]) -> Journey:
    """The journey with the word on its last attempt; unchanged when there is none that waits for one."""
    if not journey.attempts or journey.attempts[-1].outcome != "tried":
        return journey
    last = msgspec.structs.replace(journey.attempts[-1], outcome=outcome)
    return _keep(msgspec.structs.replace(journey, attempts=(*journey.attempts[:-1], last)))


def _known(journey: Journey) -> tuple[Attempt, ...]:
    """Every attempt that is kept, oldest first; a file that cannot be read counts as empty."""
    try:
        kept = msgspec.json.decode(_file(journey).read_bytes(), type=_Kept).attempts
    except (OSError, msgspec.MsgspecError):
        kept = ()
    return (*kept, *journey.attempts)


def _keep(journey: Journey) -> Journey:
    """Write the last attempt down, in the place of an earlier word on the same remedy."""
    last = journey.attempts[-1]
    same = (last.plan, last.fault, last.remedy)
    try:
        kept = msgspec.json.decode(_file(journey).read_bytes(), type=_Kept).attempts
    except (OSError, msgspec.MsgspecError):
        kept = ()
    others = [one for one in kept if (one.plan, one.fault, one.remedy) != same]
    # Where nothing can be written, the attempts of this journey are known all the same.
    try:
        _file(journey).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(_file(journey), msgspec.json.encode(_Kept(attempts=(*others, last)[-_KEPT:])))
    except (OSError, UsageError):
        return journey
    return journey


def _file(journey: Journey) -> Path:
    return runs_dir(journey) / _FILE
