"""Step Model on the screen and as questions: filter, variants, other models, Back."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import journeys
import msgspec
import pytest
from textual.widgets import DataTable, Input

from screens.budget import BudgetScreen
from screens.model import ModelScreen
from screens.plain import PlainWizard
from screens.runtime import RuntimeScreen
from screens.widgets.derived import DerivedModal
from screens.widgets.modals import AskModal, DecideModal, PickModal
from wizard import flow
from wizard.compat import Row
from wizard.errors import UnknownParserError, UsageError
from wizard.fetch import Presence
from wizard.flow import Cancelled, Journey, Step

FP8, MXFP4, DEVSTRAL, QWEN25 = journeys.ROWS
BF16 = msgspec.structs.replace(
    journeys.row("Qwen3-Coder-Next", "bf16", 148.0, "qwen3_coder", "no", *QWEN25.reasons),
    checkpoint="Org/Qwen3-Coder-Next",
)
ROWS = (FP8, MXFP4, DEVSTRAL, BF16, QWEN25)


def standing(**changes: Any) -> Journey:
    """A journey at the model, where Qwen3-Coder-Next has a variant that cannot run."""
    changes.setdefault("rows", ROWS)
    return journeys.at(Step.MODEL, **changes)


@pytest.fixture
def still(still: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Only gpt-oss is on the disk, and part of Devstral."""

    def on_disk(rows: tuple[Row, ...], journey: Journey) -> dict[str, Presence]:
        found = {row.checkpoint: Presence(state="absent") for row in rows}
        return found | {
            MXFP4.checkpoint: Presence(state="whole", bytes=61 << 30),
            DEVSTRAL.checkpoint: Presence(state="partial", bytes=6 << 30),
        }

    still.setattr(flow, "weights_on_disk", on_disk)
    return still


class TestFilter:
    async def test_it_works_while_one_types_and_escape_takes_it_away(
        self, opened: Any, see: Any, until: Any, shown: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(standing()) as pilot:
            await see(pilot, "3 of 5 variants work here")
            await pilot.press("slash", *"oss")
            await see(pilot, "1 of 5 variants", "gpt-oss-120b", "OK  Org/gpt-oss-120b-MXFP4")
            assert "Devstral" not in shown(pilot)
            await pilot.press("escape")
            await see(pilot, "3 of 5 variants work here", "Devstral")
            assert isinstance(pilot.app.focused, DataTable)
            await see(pilot, "OK  Org/gpt-oss-120b-MXFP4")

    @pytest.mark.parametrize(
        ("typed", "first"),
        [
            ("on disk", "gpt-oss-120b"),
            ("MISTRAL", "Devstral-Small-24B"),
            ("org devstral", "Devstral-Small-24B"),
            ("mxfp4", "gpt-oss-120b"),
            ("warn", "Devstral-Small-24B"),
            ("no", "Qwen3-Coder-Next"),
            ("qwen2.5", "Qwen2.5-Coder-32B"),
        ],
    )
    async def test_any_word_is_found(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch, typed: str, first: str
    ) -> None:
        async with opened(standing()) as pilot:
            await see(pilot, "yes")
            await pilot.press("slash")
            pilot.app.screen.query_one(Input).value = typed
            await pilot.pause()
            table = pilot.app.screen.query_one(DataTable)
            assert str(table.get_row_at(0)[0]).strip() == first

    async def test_what_is_found_is_taken_by_keys(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        asked: list[tuple[str | None, str | None]] = []

        def choose(journey: Journey) -> Journey:
            asked.append((journey.answers.model.id, journey.answers.model.variant))
            return msgspec.structs.replace(journey, choice=journeys.CHOICE)

        still.setattr(flow, "choose_model", choose)
        still.setattr(flow, "make_plan", lambda journey: journeys.at(Step.BUDGET))
        async with opened(standing()) as pilot:
            await pilot.press("slash", *"devs", "enter", "enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, BudgetScreen))
        assert asked == [("devstral-small-24b", "fp8")]

    async def test_what_matches_nothing_says_how_to_go_on(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(standing()) as pilot:
            await pilot.press("slash", *"zzz")
            await see(pilot, "0 of 5 variants", "Nothing matches this filter. [Esc] takes it away.")


class TestVariants:
    async def test_they_open_below_their_model_and_close(
        self, opened: Any, see: Any, shown: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(standing()) as pilot:
            await see(pilot, "fp8 +1")
            await pilot.press("v", "down")
            await see(pilot, "  Org/Qwen3-Coder-Next ", "NO  Org/Qwen3-Coder-Next")
            await pilot.press("enter")
            await see(pilot, "This cannot run here")
            await pilot.press("escape", "v")
            await see(pilot, "fp8 +1", "OK  Org/Qwen3-Coder-Next-FP8")

    async def test_a_chosen_variant_is_in_sight(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch
    ) -> None:
        chosen = msgspec.structs.replace(journeys.CHOICE, variant="bf16", checkpoint=BF16.checkpoint)
        async with opened(standing(choice=chosen)) as pilot:
            await see(pilot, "NO  Org/Qwen3-Coder-Next")


class TestRow:
    async def test_disk_download_and_speed(self, opened: Any, see: Any, still: pytest.MonkeyPatch) -> None:
        fast = msgspec.structs.replace(FP8, tokens_per_second=143.7)
        async with opened(standing(rows=(fast, *ROWS[1:]))) as pilot:
            await see(pilot, "About 140 tokens/s one stream c · to download 75 GiB")
            await pilot.press("down")
            await see(pilot, "OK  Org/gpt-oss-120b-MXFP4\n on disk")
            await pilot.press("down")
            await see(pilot, "to download 18 GiB", "- FP4 runs as stored weights only: half the speed. t")

    async def test_every_reason_has_its_code_and_source(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(standing()) as pilot:
            await pilot.press("question_mark")
            await see(pilot, "Fits with 21 GiB to spare for the KV cache. [fits]", "source: computed")

    async def test_ten_gpus_say_which_are_taken(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch
    ) -> None:
        spread = msgspec.structs.replace(FP8, gpus=(0, 1, 2, 3), tensor_parallel_size=4)
        async with opened(standing(machine=journeys.ten_voltas(), rows=(spread, *ROWS[1:]))) as pilot:
            await see(pilot, "to download 75 GiB · on GPU 0-3")

    @pytest.mark.parametrize("size", [(80, 24), (60, 18)], ids=str)
    async def test_long_names_are_cut_but_neither_parser_nor_verdict(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch, size: tuple[int, int]
    ) -> None:
        long = journeys.row(
            "A-model-with-a-very-long-name-123B", "redhat-nvfp4-reap-25", 640.0, "llama4_pythonic", "warn"
        )
        async with opened(standing(rows=(long, *ROWS)), size=size) as pilot:
            await see(pilot, "A-model-with", "…", "llama4_pythonic WARN", "verdict")


async def test_going_back_and_forth_keeps_the_chosen_row(
    opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    chosen = msgspec.structs.replace(
        journeys.CHOICE, model=DEVSTRAL.model, variant=DEVSTRAL.variant, checkpoint=DEVSTRAL.checkpoint
    )
    still.setattr(flow, "make_plan", lambda journey: journey)
    async with opened(standing(choice=chosen)) as pilot:
        await see(pilot, "WARN  Org/Devstral-Small-24B-FP8")
        await pilot.press("b")
        await until(pilot, lambda: isinstance(pilot.app.screen, RuntimeScreen))
        await pilot.press("n")
        await see(pilot, "WARN  Org/Devstral-Small-24B-FP8")
        await pilot.press("up", "down", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, BudgetScreen))
        assert pilot.app.screen.journey.choice == chosen


class TestOther:
    """A model outside the table."""

    async def test_what_cannot_be_read_is_said_and_nothing_is_lost(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        def choose(journey: Journey, cancel: threading.Event) -> Journey:
            raise UsageError(f"There is no folder {journey.answers.model.path}.", "Check it.")

        still.setattr(flow, "choose_model", choose)
        async with opened(standing()) as pilot:
            await pilot.press("o")
            await until(pilot, lambda: isinstance(pilot.app.screen, AskModal))
            pilot.app.screen.query_one(Input).value = "/models/x"
            await pilot.press("enter")
            await see(pilot, "There is no folder /models/x.", "Check it.")
            assert pilot.app.screen.query_one(Input).value == "/models/x"
            await pilot.press("escape")
            await see(pilot, "gpt-oss-120b", "OK  Org/Qwen3-Coder-Next-FP8")

    async def test_an_unknown_parser_is_chosen_from_those_of_the_runtime(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        asked: list[tuple[str | None, str]] = []
        other = msgspec.structs.replace(journeys.CHOICE, model="me/mine", variant="", checkpoint="me/mine")

        def choose(journey: Journey, cancel: threading.Event) -> Journey:
            wanted = journey.answers.model
            asked.append((wanted.id, wanted.parser))
            if wanted.parser == "auto":
                raise UnknownParserError("The tool-call parser of me/mine is not known.")
            return msgspec.structs.replace(journey, choice=other)

        still.setattr(flow, "choose_model", choose)
        still.setattr(flow, "make_plan", lambda journey: journey)
        async with opened(standing()) as pilot:
            await pilot.press("o")
            await until(pilot, lambda: isinstance(pilot.app.screen, AskModal))
            pilot.app.screen.query_one(Input).value = "me/mine"
            await pilot.press("enter")
            await until(pilot, lambda: type(pilot.app.screen) is DecideModal)
            await see(pilot, "is not known", "the 4 that this vLLM knows", "says whether")
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, PickModal))
            await pilot.press("down", "enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, DerivedModal))
            await see(pilot, "Format fp8, 75.0 GiB of weights", "Fits with 21 GiB")
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, BudgetScreen))
            await pilot.press("b")
            await see(pilot, "me/mine", "WARN  me/mine")
        assert asked == [("me/mine", "auto"), ("me/mine", "mistral")]

    async def test_reading_can_be_stopped(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        def choose(journey: Journey, cancel: threading.Event) -> Journey:
            assert cancel.wait(10)
            raise Cancelled("Reading the model was stopped.")

        still.setattr(flow, "choose_model", choose)
        async with opened(standing()) as pilot:
            await pilot.press("o")
            await until(pilot, lambda: isinstance(pilot.app.screen, AskModal))
            pilot.app.screen.query_one(Input).value = "me/mine"
            await pilot.press("enter")
            await see(pilot, "Reading what this model is", "[x] stop")
            await pilot.press("x")
            await see(pilot, "Reading the model was stopped.", "[o] other model")


def test_a_folder_is_read_without_a_network(tmp_path: Path) -> None:
    """The shape of https://huggingface.co/Qwen/Qwen3-0.6B: a window of 40960 tokens, in bfloat16."""
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16"}
    (tmp_path / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 40960}))
    journey = flow.name_model(journeys.at(Step.MODEL), str(tmp_path), "hermes")
    assert (journey.answers.model.id, journey.answers.model.path) == (None, str(tmp_path))
    choice = flow.choose_model(journey).choice
    assert choice is not None
    assert (choice.checkpoint, choice.parser, choice.context) == (str(tmp_path), "hermes", 40960)


async def test_the_largest_machine_opens_and_filters_at_once(
    opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    """The whole catalogue on ten V100: far under the times a person notices, with room for a busy machine."""
    from wizard.flow.prepare import find_runtime, look_at_machine, rate_models

    answers = msgspec.structs.replace(flow.Answers(), machine=flow.MachineAnswers(simulate="v100x10"))
    began = perf_counter()
    journey = rate_models(
        find_runtime(look_at_machine(Journey(answers=answers, step=Step.MODEL), thorough=False))
    )
    assert perf_counter() - began < 2
    assert len(journey.rows) > 300
    async with opened(journey) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, ModelScreen)
        began = perf_counter()
        for text in ("q", "qw", "qwen", ""):
            screen.query_one(Input).value = text
            await pilot.pause()
        assert perf_counter() - began < 2


class Typist:
    """Answers in order, and what was written."""

    def __init__(self, *answers: str) -> None:
        self._answers: Iterator[str] = iter(answers)
        self.lines: list[str] = []

    def type(self, question: str) -> str:
        """The next answer."""
        answer = next(self._answers, None)
        if answer is None:
            raise EOFError
        self.lines.append(f"> {answer}")
        return answer

    def told(self, answer: str) -> list[str]:
        """What was written after an answer."""
        rest = self.lines[self.lines.index(f"> {answer}") + 1 :]
        return rest[: next((n for n, line in enumerate(rest) if line.startswith(">")), None)]


def walk(journey: Journey, *answers: str) -> tuple[Typist, Journey]:
    """The questions of step Model, and where they lead."""
    typist = Typist(*answers)
    wizard = PlainWizard(journey, typist.type, typist.lines.append)
    wizard.run()
    return typist, wizard.journey


class TestPlain:
    def test_the_list_is_numbered_filtered_and_explained(self, still: pytest.MonkeyPatch) -> None:
        typist, _journey = walk(standing(), "? 3", "? 9", "v 1", "mxfp4", "zzz", "a", "q")
        assert "1. Qwen3-Coder-Next, fp8 +1, 75 GiB, 256k c, qwen3_coder, OK" in typist.lines
        assert "2. gpt-oss-120b, mxfp4, 61 GiB, 256k c, openai, OK, on disk: yes" in typist.lines
        assert typist.told("? 3") == [
            "WARN  Org/Devstral-Small-24B-FP8",
            "to download 18 GiB",
            "Devstral-Small-24B fp8: FP4 runs as stored weights only: half the speed. t",
        ]
        assert typist.told("? 9") == ["Please type a number from 1 to 3."]
        assert typist.told("v 1")[1].startswith("2. Org/Qwen3-Coder-Next, bf16, 148 GiB")
        assert [line[:15] for line in typist.told("mxfp4")] == ["1. gpt-oss-120b"]
        assert typist.told("zzz") == ["Nothing matches: zzz"]
        assert len(typist.told("a")) == 4

    def test_only_ten_are_listed_at_first(self, still: pytest.MonkeyPatch) -> None:
        many = tuple(journeys.row(f"M{number}", "fp8", 9.0, "hermes", "ok") for number in range(14))
        typist, _journey = walk(standing(rows=many, choice=None), "q")
        assert len([line for line in typist.lines if ". M" in line]) == 10
        assert any(line.startswith("4 more models") for line in typist.lines)

    def test_what_cannot_run_is_not_taken(self, still: pytest.MonkeyPatch) -> None:
        typist, journey = walk(standing(), "a", "4", "q")
        assert typist.told("4")[0] == "This cannot run here"
        assert journey.step is Step.MODEL

    def test_another_model_is_named_and_its_parser_chosen(self, still: pytest.MonkeyPatch) -> None:
        def choose(journey: Journey) -> Journey:
            if journey.answers.model.parser == "auto":
                raise UnknownParserError("Its parser is not known.")
            return msgspec.structs.replace(journey, choice=journeys.CHOICE)

        still.setattr(flow, "choose_model", choose)
        _typist, journey = walk(standing(), "o", "me/mine", "", "o", "me/mine", "mistral", "", "q")
        assert (journey.answers.model.id, journey.answers.model.parser) == ("me/mine", "mistral")
        assert journey.step is Step.BUDGET
