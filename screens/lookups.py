"""What both front ends look up for a question: the recorded machines, and the text of a log."""

from __future__ import annotations

import threading

import msgspec

from screens import wording
from wizard import flow
from wizard.catalog import parsers, symptoms
from wizard.flow import Journey
from wizard.i18n import _
from wizard.machine import load_machine, machine_names
from wizard.text import one_line


def recorded_machines() -> dict[str, str]:
    """The machines to rehearse on: a line for each name. Reads the small files that come with the wizard."""
    return {name: wording.recorded_line(name, load_machine(name)) for name in machine_names()}


def tool_parsers(journey: Journey) -> dict[str, str]:
    """The tool-call parsers of the vLLM at hand, each with the form of call it reads."""
    known = {entry.name: entry.wire_format for entry in parsers("tool")}
    names = sorted(flow.need(journey.runtime).tool_parsers or known)
    return {name: one_line(f"{name}  {known.get(name, '')}", wording.LINE_WIDTH) for name in names}


def complaints() -> dict[str, str]:
    """What people say when something is broken: a line for each id."""
    return {symptom.id: one_line(_(symptom.title), wording.LINE_WIDTH) for symptom in symptoms()}


def look_at_trouble(journey: Journey, cancel: threading.Event | None = None) -> Journey:
    """The diagnosis of what was named. Raises UsageError when it cannot be read.

    A dash is a file of that name: standard input is the terminal the wizard runs in.
    """
    start = journey.answers.start
    if start.log == "-":
        start = msgspec.structs.replace(start, log="./-")
        answers = msgspec.structs.replace(journey.answers, start=start)
        journey = msgspec.structs.replace(journey, answers=answers)
    return flow.examine_trouble(journey, cancel)
