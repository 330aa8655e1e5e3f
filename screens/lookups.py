"""What both front ends look up for a question: the recorded machines, and the text of a log."""

from __future__ import annotations

import msgspec

from screens import wording
from wizard import flow
from wizard.catalog import parsers
from wizard.flow import Journey
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


def read_log(journey: Journey) -> Journey:
    """The diagnosis of the file that was named. Raises UsageError when it cannot be read.

    A dash is a file of that name: standard input is the terminal the wizard runs in.
    """
    log = journey.answers.start.log or ""
    return msgspec.structs.replace(journey, diagnosis=flow.diagnose("./-" if log == "-" else log))
