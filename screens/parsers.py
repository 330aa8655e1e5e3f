"""What the parser finder found, in words.

Like ``screens.wording``: pure, plain text, for both front ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from wizard.i18n import _, ngettext
from wizard.plan import PlanEdit, describe
from wizard.smoke.finder import Candidate, ParserSearch
from wizard.text import inert, one_line

RAW_LINES = 5


def telling(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Those that took something out of the text, right or wrong."""
    return tuple(candidate for candidate in candidates if candidate.ok or candidate.extracted)


def raw_lines(search: ParserSearch) -> tuple[str, ...]:
    """The beginning of what the model wrote."""
    lines = [line for line in inert(search.raw).splitlines() if line.strip()]
    shown = tuple(f"  {one_line(line, 70)}" for line in lines[:RAW_LINES])
    return (_("What the model wrote:"), *shown, *(("  …",) if len(lines) > RAW_LINES else ()))


def outcome_lines(search: ParserSearch, edit: PlanEdit | None) -> tuple[str, ...]:
    """The winner and what it changes, or the ways on where there is none; then how it was decided."""
    lines = []
    if search.best is not None:
        lines.append(_("The parser that fits: {parser}").format(parser=search.best))
    else:
        silent = len(search.candidates) - len(telling(search.candidates))
        lines.append(_("No tool-call parser fits."))
        lines.append(
            ngettext(
                "{count} parser finds no call in it.", "{count} parsers find no call in it.", silent
            ).format(count=silent)
        )
    lines += describe(edit) if edit is not None else ()
    for advice in search.advice:
        lines.append(f"- {advice.title}: {advice.detail}")
        lines += [f"    {flag} {value}" for flag, value in advice.set.items()]
    return (*lines, *search.notes)
