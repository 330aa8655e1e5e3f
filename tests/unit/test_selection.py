"""Looking through the matrix: what is found, what stands on a line, what an answer makes of it."""

from __future__ import annotations

import msgspec
import pytest

from wizard.compat import Choice, Reason, Row
from wizard.fetch import Presence
from wizard.flow import (
    Answers,
    Journey,
    ModelAnswers,
    Step,
    candidates,
    is_chosen,
    matching,
    model_lines,
    name_model,
    take_row,
)

REFUSES = Reason(code="does-not-fit", text="Does not fit.", source="computed", refuses=True)


def row(model: str, variant: str, verdict: str = "ok") -> Row:
    """A row of the matrix."""
    return Row(
        model=model,
        variant=variant,
        name=model,
        checkpoint=f"Maker/{model}-{variant}",
        quantization=variant,
        weights_gib=10.0,
        fits=True,
        max_context=None,
        parser="hermes",
        reasoning_parser=None,
        gpus=(0,),
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        verdict=verdict,  # type: ignore[arg-type]
        reasons=(REFUSES,) if verdict == "no" else (),
    )


ROWS = (row("nano", "fp8"), row("big", "fp8", "warn"), row("nano", "bf16"), row("big", "bf16", "no"))


def journey(**answers: object) -> Journey:
    """At step Model, with rows."""
    wanted = msgspec.structs.replace(ModelAnswers(), **answers)
    return Journey(step=Step.MODEL, answers=Answers(model=wanted), rows=ROWS)


def test_each_model_stands_on_one_line_by_its_best_variant() -> None:
    lines = model_lines(candidates(journey()))
    assert [(line.candidate.row.model, line.candidate.row.variant, line.others) for line in lines] == [
        ("nano", "fp8", 1),
        ("big", "fp8", 1),
    ]


def test_opened_models_show_their_variants_below_them() -> None:
    lines = model_lines(candidates(journey()), opened={"big"})
    told = [(line.candidate.row.model, line.candidate.row.variant, line.inset) for line in lines]
    assert told == [("nano", "fp8", False), ("big", "fp8", False), ("big", "bf16", True)]


def test_the_best_matching_variant_leads_its_model() -> None:
    assert [line.candidate.row.variant for line in model_lines(candidates(journey()), "bf16")] == ["bf16"]
    everything = model_lines(candidates(journey()), "bf16", everything=True)
    assert [line.candidate.row.model for line in everything] == ["nano", "big"]


def test_what_cannot_run_is_shown_where_nothing_else_matches() -> None:
    (line,) = model_lines(candidates(journey()), "big bf16")
    assert line.candidate.row.verdict == "no"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", 4),
        ("  ", 4),
        ("nano", 2),
        ("NO", 1),
        ("ok nano", 2),
        ("maker FP8", 2),
        ("hermes", 4),
        ("on disk", 1),
        ("fp8 bf16", 0),
    ],
)
def test_every_word_must_be_found_and_a_verdict_means_itself(text: str, found: int) -> None:
    """``NO`` is not the beginning of nano."""
    there = {"Maker/nano-bf16": Presence(state="whole", bytes=10 << 30)}
    assert len(matching(candidates(journey(), there), text)) == found


def test_what_is_there_already_is_not_downloaded_again() -> None:
    there = {
        "Maker/nano-fp8": Presence(state="partial", bytes=4 << 30),
        "Maker/nano-bf16": Presence(state="whole", bytes=9 << 30),
    }
    assert [each.download_gib for each in candidates(journey(), there)] == [6.0, 10.0, 0.0, 10.0]


def test_a_row_is_answered_with_its_model_and_variant() -> None:
    taken = take_row(journey(id="nano", parser="qwen3_coder"), ROWS[2])
    wanted = taken.answers.model
    assert (wanted.id, wanted.variant, wanted.parser) == ("nano", "bf16", "qwen3_coder")
    assert taken.rows == ROWS


@pytest.mark.parametrize("earlier", [{"id": "me/other"}, {"path": "/models/other"}])
def test_a_parser_named_for_another_model_is_forgotten(earlier: dict[str, str]) -> None:
    taken = take_row(journey(parser="qwen3_coder", **earlier), ROWS[0])
    wanted = taken.answers.model
    assert (wanted.id, wanted.path, wanted.parser) == ("nano", None, "auto")


@pytest.mark.parametrize("text", ["/models/x", "~/x", "./x", "../x"])
def test_a_folder_is_told_from_a_name_of_the_hub(text: str) -> None:
    assert name_model(journey(), text).answers.model.path == text
    named = name_model(journey(path="/old"), "owner/name").answers.model
    assert (named.id, named.path) == ("owner/name", None)


def test_a_choice_from_outside_leads_and_is_kept() -> None:
    choice = Choice(
        model="me/mine",
        variant="",
        checkpoint="me/mine",
        served_model_name="mine",
        quantization="fp8",
        parser="hermes",
        reasoning_parser=None,
        thinks=False,
        weights_gib=None,
        config={},
        context=None,
        gpus=(0,),
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        args=(),
        reasons=(),
    )
    chosen = msgspec.structs.replace(journey(id="me/mine"), choice=choice)
    first = candidates(chosen)[0]
    assert is_chosen(first, choice)
    assert first.row.verdict == "warn"
    assert take_row(chosen, first.row) is chosen
