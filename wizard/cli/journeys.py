"""Journeys for commands: the answers file, with what the command line says laid over it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from wizard.cli.options import current
from wizard.errors import UsageError
from wizard.flow import Answers, Journey, check_answers, find_runtime, load_answers, look_at_machine
from wizard.i18n import _


def journey(answers_file: Path | None = None, **sections: dict[str, object]) -> Journey:
    """A journey at its start. ``sections`` are answers by section; a None leaves an answer alone."""
    answers = Answers() if answers_file is None else load_answers(answers_file)
    common = current()
    if common.simulate is not None:
        sections.setdefault("machine", {})["simulate"] = common.simulate
    if common.offline:
        sections.setdefault("serve", {})["offline"] = True
    for section, values in sections.items():
        given = {key: value for key, value in values.items() if value is not None}
        changed = msgspec.structs.replace(getattr(answers, section), **given)
        answers = msgspec.structs.replace(answers, **{section: changed})
    check_answers(answers, _("The command line"))
    return Journey(answers=answers)


def with_runtime(start: Journey) -> Journey:
    """The machine and the runtime of a journey."""
    return find_runtime(look_at_machine(start, thorough=False))


def consent(question: str, given: bool) -> None:
    """Go on only with ``--yes`` or a yes typed at a terminal. Raises UsageError without either."""
    if given:
        return
    if not sys.stdin.isatty():
        raise UsageError(_("This needs a yes, and there is no terminal to ask on."), _("Add --yes."))
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in (_("y"), _("yes"), "y", "yes"):
        raise KeyboardInterrupt
