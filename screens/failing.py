"""A failure in words, for both front ends: the fault, its lines, what helps and what was tried."""

from __future__ import annotations

import textwrap

from wizard import flow
from wizard.diagnosis import UNRECOGNISED, Finding, Remedy, edit_of
from wizard.errors import LaunchError
from wizard.flow import Journey
from wizard.i18n import _
from wizard.plan import describe

INDENT = "     "


def failure_head(error: LaunchError, finding: Finding | None) -> str:
    """The fault of a failed start with its name; without one what is known."""
    return error.message if finding is None else f"{finding.title}  [{finding.fault}]"


def failure_lines(error: LaunchError, finding: Finding | None) -> list[str]:
    """The lines of the log that show the fault and why it comes of them; else the last block of errors."""
    if finding is None or finding.fault == UNRECOGNISED:
        return list(error.evidence) or [_("The log holds no line about it.")]
    lines = [_("line {number}  {text}").format(number=seen.line, text=seen.text) for seen in finding.evidence]
    return [*lines, _("Why: {cause}").format(cause=finding.cause)]


def remedy_text(number: int, remedy: Remedy, width: int, *, chosen: bool = False) -> str:
    """A remedy with what it changes and what it costs, wrapped; the chosen one has a mark."""
    edit = edit_of(remedy)
    change = "  ".join(describe(edit)) if edit is not None else ""
    price = remedy.effect or (_("nothing is lost") if edit is not None else "")
    mark = "> " if chosen else "  "
    head = textwrap.wrap(f"{mark}{number}  {remedy.title}", width, subsequent_indent=INDENT)
    rest = (
        textwrap.wrap(part, width, initial_indent=INDENT, subsequent_indent=INDENT)
        for part in (change, price)
    )
    return "\n".join([*head, *(line for lines in rest for line in lines)])


def failure_foot(error: LaunchError, finding: Finding | None, journey: Journey) -> list[str]:
    """What will not help, who says so, and what was tried."""
    if finding is None or finding.fault == UNRECOGNISED:
        return [error.hint] if error.hint else []
    lines = [_("Will not help: {what}").format(what=text) for text in finding.will_not_help]
    if flow.exhausted(journey):
        lines.append(_("Three remedies were tried. [p] writes a report for somebody who helps."))
    tried = ", ".join(attempt.title for attempt in journey.attempts) or _("nothing")
    return [*lines, _("Tried so far: {what}").format(what=tried)]


def remedy_steps(remedy: Remedy) -> list[str]:
    """A remedy outside the plan as the steps to take: they are shown, never run."""
    until = _("Until {condition}.").format(condition=remedy.until) if remedy.until else ""
    steps = "\n".join(f"$ {command}" for command in remedy.commands)
    by_hand = _("This is for you to do; then start again with [r].")
    return [part for part in (remedy.title, steps, remedy.effect, until, by_hand) if part]
