"""The command models: what works on this machine, best first, and why the rest does not."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from wizard.catalog import is_version
from wizard.cli import output
from wizard.cli.journeys import journey
from wizard.cli.options import current
from wizard.compat import deciding
from wizard.flow import (
    Answers,
    Candidate,
    Journey,
    Line,
    RuntimeAnswers,
    candidates,
    find_runtime,
    look_at_machine,
    matching,
    model_lines,
    rate_models,
    weights_on_disk,
)
from wizard.i18n import _
from wizard.runtime import assumed_runtime
from wizard.text import one_line, shortened, two_digits

_WIDTH = 80
_VARIANT = 9
_LINE = "{:<{name}} {:<{variant}} {:>4} {:>5} {:<{parser}} {:>5} {:<4} {}"
_PARSER = 6
"""Columns of the shortest parser column; it grows with its content, at the cost of the names."""
_REST = _VARIANT + 4 + 5 + 5 + 4 + 7 + 7
"""Columns of everything but name and parser, with the gaps."""


def models(
    runtime: Annotated[
        str | None,
        typer.Option("--runtime", help=_("A venv with vLLM, its program, or a version that is not here.")),
    ] = None,
    text: Annotated[
        str, typer.Option("--filter", help=_("Only what matches: words of names, formats, parsers; on disk."))
    ] = "",
    everything: Annotated[
        bool, typer.Option("--all", help=_("Also what cannot run, with the reason."))
    ] = False,
    variants: Annotated[
        bool, typer.Option("--variants", help=_("Every variant, not only the best of each model."))
    ] = False,
) -> int:
    """The compatibility matrix. 0: something works here; 1: nothing does."""
    rated = rate_models(_with_runtime(runtime))
    offered = candidates(rated, weights_on_disk(rated.rows, rated))
    found = matching(offered, text)
    if current().json:
        output.document({"runtime": rated.runtime, "rows": [_document(each) for each in found]})
    else:
        if not found:
            output.say(_("Nothing matches: {text}").format(text=text))
            return 1
        possible = tuple(each for each in found if each.row.verdict != "no")
        listed = found if everything or not possible else possible
        opened = {each.row.model for each in listed} if variants else ()
        _say_lines(model_lines(listed, everything=everything, opened=opened))
        _say_rest(found, everything, variants)
    return 0 if any(each.row.verdict != "no" for each in found) else 1


def _with_runtime(wanted: str | None) -> Journey:
    """The machine, recorded or not, with the vLLM found, the one named, or one of a version not here."""
    looked = look_at_machine(journey(), thorough=False)
    if wanted is None:
        return find_runtime(looked)
    if is_version(wanted) and not Path(wanted).exists():
        return msgspec.structs.replace(looked, runtime=assumed_runtime(wanted))
    named = Journey(answers=Answers(runtime=RuntimeAnswers(path=wanted)), machine=looked.machine)
    return msgspec.structs.replace(looked, runtime=find_runtime(named).runtime)


def _document(candidate: Candidate) -> dict[str, object]:
    known: dict[str, object] = msgspec.to_builtins(candidate.row)
    return known | {"on_disk": candidate.on_disk, "download_gib": round(candidate.download_gib, 2)}


def _say_lines(lines: Sequence[Line]) -> None:
    """One line a row, within 80 columns; what is wrong with a row stands below it."""
    parser = max([_PARSER, *(len(line.candidate.row.parser or "") for line in lines)])
    rooms = {"name": _WIDTH - _REST - parser, "variant": _VARIANT, "parser": parser}
    headings = (_("model"), _("variant"), "GiB", _("ctx"), _("parser"), _("tok/s"), _("disk"), _("verdict"))
    output.say(_LINE.format(*headings, **rooms))
    for line in lines:
        output.say(_LINE.format(*_cells(line, rooms["name"]), **rooms))
        for reason in deciding(line.candidate.row.reasons)[:1]:
            text = textwrap.fill(reason.text, _WIDTH - 4, break_on_hyphens=False)
            output.say(textwrap.indent(text, "    "))


def _cells(line: Line, width: int) -> tuple[str, ...]:
    words = {"ok": _("OK"), "warn": _("WARN"), "no": _("NO")}
    disk = {"whole": _("here"), "partial": _("part"), "absent": "-"}
    row = line.candidate.row
    return (
        shortened(f"  {row.checkpoint}", width) if line.inset else one_line(row.name, width),
        shortened(f"{row.variant} +{line.others}" if line.others else row.variant, _VARIANT),
        f"{row.weights_gib:.0f}",
        f"{row.max_context // 1024}k" if row.max_context else "-",
        row.parser or "-",
        "-" if row.tokens_per_second is None else two_digits(row.tokens_per_second),
        disk[line.candidate.on_disk.state],
        words[row.verdict],
    )


def _say_rest(offered: Sequence[Candidate], everything: bool, variants: bool) -> None:
    """How much was shown of how much, and how to see the rest."""
    works = sum(each.row.verdict != "no" for each in offered)
    text = _("{works} of {total} variants work here. GiB: weights; tok/s: one stream, computed.")
    output.say()
    output.say(text.format(works=works, total=len(offered)))
    if not everything and 0 < works < len(offered):
        output.say(_("--all also lists what does not, and why."))
    if not variants:
        output.say(_("--variants lists every variant; --filter TEXT finds one."))
