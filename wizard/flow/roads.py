"""Taking a road, or leaving it for another one: the same from every front end."""

from __future__ import annotations

import msgspec

from wizard.flow.answers import Mode
from wizard.flow.journey import Journey, Step, answer


def take_road(journey: Journey, mode: Mode, **answers: object) -> Journey:
    """The journey at the start of a road.

    Leaving a rehearsal also leaves its recorded machine and its scratch folder, and the other way round.
    """
    if journey.answers.start.mode == "rehearse" and mode != "rehearse":
        answers.setdefault("machine", msgspec.structs.replace(journey.answers.machine, simulate=None))
    answers.setdefault("start", msgspec.structs.replace(journey.answers.start, mode=mode))
    changed = answer(journey, Step.START, **answers)
    if changed.simulated != journey.simulated:
        changed = msgspec.structs.replace(changed, scratch=None)
    return msgspec.structs.replace(changed, step=Step.START)


def connect_to(journey: Journey, base_url: str, api_key_file: str) -> Journey:
    """The road to a server that runs already."""
    start = msgspec.structs.replace(journey.answers.start, mode="connect", base_url=base_url)
    serve = msgspec.structs.replace(journey.answers.serve, api_key_file=api_key_file or None)
    return take_road(journey, "connect", start=start, serve=serve)


def diagnose_log(journey: Journey, log: str) -> Journey:
    """The road that reads a log."""
    return take_road(
        journey,
        "troubleshoot",
        start=msgspec.structs.replace(journey.answers.start, mode="troubleshoot", log=log),
    )


def rehearse_on(journey: Journey, name: str) -> Journey:
    """The rehearsal on a recorded machine."""
    return take_road(
        journey, "rehearse", machine=msgspec.structs.replace(journey.answers.machine, simulate=name)
    )
