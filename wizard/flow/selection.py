"""Step Model as it is looked through and answered: what is on disk, what is found, which lines are shown."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from wizard.compat import Choice, Row, Verdict
from wizard.fetch import Presence, is_hub_id
from wizard.flow.journey import Journey, Step, answer
from wizard.i18n import N_, _

_VERDICTS: Mapping[Verdict, str] = {"ok": N_("OK"), "warn": N_("WARN"), "no": N_("NO")}


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the matrix with what of it is on this disk. ``words``: what a filter looks through."""

    row: Row
    on_disk: Presence
    download_gib: float
    words: str


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate as a line of the table: the best of its model, or, ``inset`` below that, another variant.

    ``others`` counts the variants of the model that stand on no line of their own.
    """

    candidate: Candidate
    others: int = 0
    inset: bool = False


def candidates(journey: Journey, there: Mapping[str, Presence] | None = None) -> tuple[Candidate, ...]:
    """The rows of a journey, best first; before them a checkpoint outside the catalogue that was chosen.

    ``there`` is what ``weights_on_disk`` says; before it is known, nothing is taken to be on disk.
    """
    known = {} if there is None else there
    chosen = journey.choice
    rows = journey.rows
    if chosen is not None and all(row.model != chosen.model for row in rows):
        rows = (_outside(chosen), *rows)
    return tuple(_candidate(row, known.get(row.checkpoint, Presence(state="absent"))) for row in rows)


def missing_gib(weights_gib: float, found: Presence) -> float:
    """What is still to be downloaded of weights of this size, GiB."""
    return 0.0 if found.state == "whole" else max(0.0, weights_gib - found.bytes / (1 << 30))


def matching(offered: Iterable[Candidate], text: str) -> tuple[Candidate, ...]:
    """Those in which every word of a text occurs, upper and lower case alike.

    Words are looked for in names, makers, formats, parsers and "on disk"; one that is a verdict means that.
    """
    words = text.lower().split()
    verdicts = {name.lower(): verdict for verdict, name in _VERDICTS.items()}
    verdicts |= {_(name).lower(): verdict for verdict, name in _VERDICTS.items()}
    return tuple(
        candidate
        for candidate in offered
        if all(
            verdicts[word] == candidate.row.verdict if word in verdicts else word in candidate.words
            for word in words
        )
    )


def model_lines(
    offered: Sequence[Candidate], text: str = "", everything: bool = False, opened: Container[str] = ()
) -> tuple[Line, ...]:
    """The best matching variant of every model, and all variants of the models that are ``opened``.

    What cannot run is left out, unless ``everything`` is wanted or nothing else matches.
    """
    found = matching(offered, text)
    possible = tuple(candidate for candidate in found if candidate.row.verdict != "no")
    variants: dict[str, list[Candidate]] = {}
    for candidate in offered:
        variants.setdefault(candidate.row.model, []).append(candidate)
    lines: dict[str, list[Line]] = {}
    for candidate in found if everything or not possible else possible:
        name = candidate.row.model
        if name in lines:
            continue
        others = [other for other in variants[name] if other is not candidate]
        if name in opened:
            inset = [Line(candidate=other, inset=True) for other in others]
            lines[name] = [Line(candidate=candidate), *inset]
        else:
            lines[name] = [Line(candidate=candidate, others=len(others))]
    return tuple(line for own in lines.values() for line in own)


def is_chosen(candidate: Candidate, choice: Choice | None) -> bool:
    """Whether this is what was chosen, from wherever its files are loaded."""
    row = candidate.row
    return choice is not None and (row.model, row.variant) == (choice.model, choice.variant)


def take_row(journey: Journey, row: Row) -> Journey:
    """The answers with a row for an answer; the choice is yet to be made, unless it is this one already."""
    choice = journey.choice
    if choice is not None and (row.model, row.variant) == (choice.model, choice.variant):
        return journey
    wanted = journey.answers.model
    if (wanted.id or wanted.path) and wanted.id != row.model:
        # A parser that was named for another model does not read this one.
        wanted = msgspec.structs.replace(wanted, parser="auto", reasoning_parser="auto")
    wanted = msgspec.structs.replace(wanted, id=row.model, variant=row.variant, path=None)
    return msgspec.structs.replace(answer(journey, Step.MODEL, model=wanted), rows=journey.rows)


def name_model(journey: Journey, text: str, parser: str = "auto") -> Journey:
    """The answers with a model that was typed: a folder, an id of the hub, or a name of the catalogue."""
    folder = text.startswith(("/", "~", ".")) or os.path.isdir(text)  # noqa: PTH112 - pathlib raises for long names
    wanted = msgspec.structs.replace(
        journey.answers.model,
        id=None if folder else text,
        path=text if folder else None,
        variant=None,
        parser=parser,
        reasoning_parser="auto",
    )
    return msgspec.structs.replace(answer(journey, Step.MODEL, model=wanted), rows=journey.rows)


def _candidate(row: Row, found: Presence) -> Candidate:
    words = [row.name, row.model, row.checkpoint, row.variant, row.quantization]
    words += [row.parser or "", row.reasoning_parser or ""]
    if found.state == "whole":
        words.append(_("on disk"))
    return Candidate(
        row=row,
        on_disk=found,
        download_gib=missing_gib(row.files_gib, found) if is_hub_id(row.checkpoint) else 0.0,
        words=" ".join(words).lower(),
    )


def _outside(choice: Choice) -> Row:
    """A choice from outside the catalogue as a row; a size that is not known is 0."""
    refused = any(reason.refuses for reason in choice.reasons)
    return Row(
        model=choice.model,
        variant=choice.variant,
        name=choice.model,
        checkpoint=choice.checkpoint,
        quantization=choice.quantization,
        weights_gib=choice.weights_gib or 0.0,
        download_gib=choice.download_gib,
        fits=not refused,
        max_context=None,
        parser=choice.parser,
        reasoning_parser=choice.reasoning_parser,
        gpus=choice.gpus,
        tensor_parallel_size=choice.tensor_parallel_size,
        pipeline_parallel_size=choice.pipeline_parallel_size,
        verdict="no" if refused else "warn",
        reasons=choice.reasons,
    )
