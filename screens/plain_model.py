"""Step Model as questions: the best ten by number; what is typed instead is looked for."""

from __future__ import annotations

import re

import msgspec

from screens import model_words
from screens.dialogue import Dialogue
from screens.lookups import tool_parsers
from screens.moves import Move, Outcome
from wizard import flow
from wizard.errors import RefusedError, UnknownParserError
from wizard.flow import Candidate, Journey, Line
from wizard.i18n import _

_ABOUT = re.compile(r"([?v]?)\s*(\d*)")
"""A number to take, to have explained or to see the variants of; without one, the usual."""


class _View(msgspec.Struct, frozen=True, kw_only=True):
    """What is listed: everything or the best, what matches a text, the variants of one model."""

    everything: bool = False
    text: str = ""
    opened: str = ""


def model(dialogue: Dialogue, journey: Journey) -> Outcome:
    """What works here, best first."""
    if not journey.rows:
        dialogue.say(_("Rating models for this machine…"))
        journey = flow.rate_models(journey)
    offered = flow.candidates(journey, flow.weights_on_disk(journey.rows, journey))
    if all(candidate.row.verdict == "no" for candidate in offered):
        dialogue.say(*(_line(line) for line in flow.model_lines(offered)[: model_words.BEST]))
        raise RefusedError(
            _("No model of the table works here."), _("Go back, or rehearse on a recorded machine.")
        )
    lines = _listed(dialogue, offered, _View())
    while True:
        usual = next((n for n, line in enumerate(lines) if flow.is_chosen(line.candidate, journey.choice)), 0)
        hint = _("number, ? number why, v number variants, a all, o other, or words to look for")
        answer = dialogue.text(f"{_('Which model?')} ({hint})", str(usual + 1) if lines else "a")
        about = _ABOUT.fullmatch(answer)
        if about is not None:
            line = _numbered(lines, about[2] or str(usual + 1))
            if line is None:
                dialogue.say(_("Please type a number from 1 to {last}.").format(last=len(lines)))
            elif about[1] == "v":
                lines = _listed(dialogue, offered, _View(opened=line.candidate.row.model))
            elif about[1] == "?":
                dialogue.say(*_why(line, journey))
            elif line.candidate.row.verdict == "no":
                dialogue.say(_("This cannot run here"), *_why(line, journey))
            else:
                return Outcome(Move.NEXT, _taken(flow.take_row(journey, line.candidate.row)))
        elif answer == "o":
            other = _other(dialogue, journey)
            if other is not None:
                return Outcome(Move.NEXT, other)
        else:
            wanted = _View(everything=True) if answer == "a" else _View(text=answer)
            lines = _listed(dialogue, offered, wanted)


def _listed(dialogue: Dialogue, offered: tuple[Candidate, ...], view: _View) -> tuple[Line, ...]:
    """Say the lines of a view with their numbers, the first ten unless more was asked for."""
    lines = flow.model_lines(offered, view.text, view.everything, (view.opened,))
    if view.opened:
        lines = tuple(line for line in lines if line.candidate.row.model == view.opened)
    shown = lines if view.everything else lines[: model_words.BEST]
    dialogue.say(*(f"{number}. {_line(line)}" for number, line in enumerate(shown, 1)))
    if not shown:
        dialogue.say(_("Nothing matches: {text}").format(text=view.text))
    elif len(lines) > len(shown):
        text = _("{count} more models; type a for all, or a part of a name, a format, a parser, on disk")
        dialogue.say(text.format(count=len(lines) - len(shown)))
    return shown


def _numbered(lines: tuple[Line, ...], number: str) -> Line | None:
    return lines[int(number) - 1] if number.isdecimal() and 1 <= int(number) <= len(lines) else None


def _line(line: Line) -> str:
    name, variant, weights, context, parser, verdict, disk = model_words.cells(line)
    shown = [name.strip(), variant, f"{weights} GiB", context, parser, verdict]
    if line.candidate.on_disk.state != "absent":
        shown.append(_("on disk: {word}").format(word=disk))
    return ", ".join(shown)


def _why(line: Line, journey: Journey) -> tuple[str, ...]:
    candidate = line.candidate
    title = f"{candidate.row.name} {candidate.row.variant}"
    reasons = model_words.because(candidate.row.reasons, journey.runtime)
    return (*model_words.head(candidate, journey), *(f"{title}: {reason}" for reason in reasons))


def _taken(journey: Journey) -> Journey:
    return journey if journey.choice is not None else flow.choose_model(journey)


def _other(dialogue: Dialogue, journey: Journey) -> Journey | None:
    """A model outside the table; None: what is known of it was not enough to take it."""
    text = dialogue.text(_("Name on the hub (owner/name), or a folder"))
    if not text:
        return None
    dialogue.say(_("Reading what this model is…"))
    try:
        found = flow.choose_model(flow.name_model(journey, text))
    except UnknownParserError as error:
        dialogue.say(error.message)
        dialogue.say(*tool_parsers(journey).values())
        parser = dialogue.text(_("Which parser reads its tool calls? Its name, Enter for none of them"))
        if not parser:
            return None
        found = flow.choose_model(flow.name_model(journey, text, parser))
    dialogue.say(*model_words.derived(flow.need(found.choice)))
    return found if dialogue.agreed(_("Take it?"), default=True) else None
