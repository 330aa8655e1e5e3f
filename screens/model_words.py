"""The models of step Model in words: the cells of a line, and what is known of the highlighted one."""

from __future__ import annotations

from collections.abc import Sequence

from screens.figures import context, gib, letter
from screens.wording import numbers, sourced, status_word
from wizard.catalog import Origin
from wizard.compat import Choice, Reason, Row, deciding
from wizard.flow import Candidate, Journey, Line
from wizard.i18n import N_, _
from wizard.runtime import Runtime
from wizard.text import one_line, two_digits

BEST = 10
"""Models that are shown first where a list cannot be scrolled."""

_DISK = {"whole": N_("yes"), "partial": N_("part"), "absent": "-"}
_MEASURED = ("NVML", "checkpoint", "chat template", "hub")
"""Sources of reasons that were asked, not looked up."""
_ASKED = ("parser-known", "parser-unknown")


def cells(line: Line) -> tuple[str, ...]:
    """Model, variant, weights, context, parser, verdict, and whether it is on disk."""
    row = line.candidate.row
    variant = f"{row.variant} +{line.others}" if line.others else row.variant
    return (
        f"  {row.checkpoint}" if line.inset else row.name,
        variant,
        gib(row.weights_gib or None, digits=0),
        context(row.max_context),
        row.parser or "-",
        status_word(row.verdict),
        _(_DISK[line.candidate.on_disk.state]),
    )


def counted(offered: Sequence[Candidate], found: Sequence[Candidate], text: str) -> str:
    """How many of all variants a filter finds; without one, how many work here."""
    if text.strip():
        counted = _("{found} of {total} variants  [Esc] all")
        return counted.format(found=len(found), total=len(offered))
    works = sum(candidate.row.verdict != "no" for candidate in found)
    return _("{found} of {total} variants work here").format(found=works, total=len(offered))


def head(candidate: Candidate, journey: Journey) -> tuple[str, ...]:
    """The verdict with the checkpoint, then speed, download and the GPUs."""
    row = candidate.row
    facts = [_speed(row), _download(candidate, journey), _places(row, journey)]
    return (
        f"{status_word(row.verdict)}  {one_line(row.checkpoint)}",
        " · ".join(fact for fact in facts if fact),
    )


def because(reasons: Sequence[Reason], runtime: Runtime | None) -> tuple[str, ...]:
    """The reasons, those that decide first, each with the letter of where it comes from."""
    first = deciding(reasons)
    ordered = (*first, *(reason for reason in reasons if reason not in first))
    # Both parsers of a model often have one name, and then the same to say.
    return tuple(dict.fromkeys(f"{reason.text}{letter(_origin(reason, runtime))}" for reason in ordered))


def in_full(reasons: Sequence[Reason]) -> list[str]:
    """Every reason with its code and source."""
    return [sourced(f"{reason.text} [{reason.code}]", reason.source) for reason in reasons]


def derived(choice: Choice) -> tuple[str, ...]:
    """What the files of a checkpoint outside the catalogue say."""
    text = _(
        "Format {format}, {weights} GiB of weights, window {context}, parser {parser}, reasoning {reasoning}"
    )
    return (
        text.format(
            format=choice.quantization or "?",
            weights=gib(choice.weights_gib),
            context=context(choice.context).partition(" ")[0],
            parser=choice.parser or "-",
            reasoning=choice.reasoning_parser or "-",
        ),
        *(f"- {reason.text}" for reason in choice.reasons),
    )


def _speed(row: Row) -> str:
    if row.tokens_per_second is None:
        return ""
    text = _("About {speed} tokens/s one stream{c}")
    return text.format(speed=two_digits(row.tokens_per_second), c=letter("computed"))


def _download(candidate: Candidate, journey: Journey) -> str:
    """What is to be downloaded, and how long that takes at the pace of this journey's last download."""
    if candidate.on_disk.state == "whole":
        return _("on disk")
    if not candidate.download_gib:
        return ""
    last = journey.fetched
    if last is None or not last.downloaded_bytes or not last.seconds:
        return _("to download {size} GiB").format(size=gib(candidate.download_gib, digits=0))
    minutes = candidate.download_gib * (1 << 30) * last.seconds / last.downloaded_bytes / 60
    text = _("to download {size} GiB, about {minutes} min at your line{c}")
    return text.format(
        size=gib(candidate.download_gib, digits=0), minutes=two_digits(max(1, minutes)), c=letter("computed")
    )


def _places(row: Row, journey: Journey) -> str:
    """Which of several GPUs it takes."""
    if journey.machine is None or len(journey.machine.gpus) < 2 or not row.gpus:
        return ""
    return _("on GPU {numbers}").format(numbers=numbers(tuple(sorted(row.gpus))))


def _origin(reason: Reason, runtime: Runtime | None) -> Origin:
    if reason.source == "computed":
        return "computed"
    asked = (
        runtime is not None and runtime.kind not in ("assumed", "rehearsal") and bool(runtime.tool_parsers)
    )
    if reason.source in _MEASURED or (asked and reason.code in _ASKED):
        return "measured"
    return "table"
