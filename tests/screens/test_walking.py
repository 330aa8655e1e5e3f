"""The way through the steps with the keyboard: forward, back, sideways, and out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import journeys
import msgspec
import pytest
from textual.widgets import OptionList

from screens.base import StepScreen
from screens.budget import BudgetScreen
from screens.diagnose import DiagnoseScreen
from screens.launch import LaunchScreen
from screens.machine import MachineScreen
from screens.widgets.fields import NumberField
from screens.widgets.modals import AskModal, DecideModal, ErrorModal, MachineModal, ReadModal
from wizard import flow
from wizard.errors import ServerError, UsageError
from wizard.flow import Answers, Cancelled, Journey, MachineAnswers, StartAnswers, Step

Emit = Callable[[object], None]


def step_of(pilot: Any) -> Step | None:
    """The step whose screen is on top; None for a window, and between two screens."""
    screen = pilot.app.screen
    return screen.STEP if isinstance(screen, StepScreen) else None


async def test_forward_to_the_plan_and_back_to_the_start(
    opened: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    chosen = {"rows": journeys.ROWS, "choice": journeys.CHOICE}
    planned = {"budget": journeys.BUDGET, "plan": journeys.PLAN}
    still.setattr(flow, "rate_models", lambda journey: journey)
    still.setattr(flow, "choose_model", lambda journey: msgspec.structs.replace(journey, **chosen))
    still.setattr(flow, "make_plan", lambda journey: msgspec.structs.replace(journey, **planned))
    async with opened(_planned(Step.MACHINE)) as pilot:
        for step in (Step.MACHINE, Step.RUNTIME, Step.MODEL, Step.BUDGET, Step.LAUNCH):
            assert step_of(pilot) is step
            await until(pilot, lambda: pilot.app.screen.ready() or pilot.app.screen.STEP is Step.LAUNCH)
            if step is not Step.LAUNCH:
                await pilot.press("enter")
                await until(pilot, lambda: step_of(pilot) is not step)  # noqa: B023 - awaited at once
        for step in (Step.BUDGET, Step.MODEL, Step.RUNTIME, Step.MACHINE, Step.START):
            await pilot.press("b")
            await pilot.pause()
            assert step_of(pilot) is step
        await pilot.press("b")
        assert step_of(pilot) is Step.START


def _planned(step: Step) -> Journey:
    """A journey that stands at an early step and has everything up to the plan."""
    return msgspec.structs.replace(journeys.at(Step.BUDGET), step=step)


async def test_figures_typed_are_kept_on_the_way_back(
    opened: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def make_plan(journey: Journey) -> Journey:
        asked.append(journey.answers.budget.max_model_len)
        return msgspec.structs.replace(journey, budget=journeys.BUDGET, plan=journeys.PLAN)

    still.setattr(flow, "make_plan", make_plan)
    async with opened(journeys.at(Step.BUDGET)) as pilot:
        await pilot.press(*"32768", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, LaunchScreen))
        await pilot.press("b")
        await until(pilot, lambda: isinstance(pilot.app.screen, BudgetScreen))
        assert pilot.app.screen.query_one("#window", NumberField).value == "32768"
        assert pilot.app.screen.journey.plan == journeys.PLAN
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, LaunchScreen))
    assert asked == [32768]


async def test_letters_work_inside_a_number_field(opened: Any, still: pytest.MonkeyPatch) -> None:
    async with opened(journeys.at(Step.BUDGET)) as pilot:
        field = pilot.app.screen.query_one("#people", NumberField)
        field.focus()
        await pilot.press("plus", "plus", "minus", "x")
        assert field.value == "2"
        await pilot.press("b")
        await pilot.pause()
        assert step_of(pilot) is Step.MODEL


async def test_every_key_has_a_button_that_tab_reaches(opened: Any, still: pytest.MonkeyPatch) -> None:
    async with opened(journeys.at(Step.RUNTIME)) as pilot:
        assert isinstance(pilot.app.focused, OptionList)
        for _number in range(12):
            if pilot.app.focused is not None and pilot.app.focused.id == "key-back":
                break
            await pilot.press("tab")
        assert pilot.app.focused.id == "key-back"
        await pilot.press("enter")
        await pilot.pause()
        assert step_of(pilot) is Step.MACHINE


async def test_a_skipped_step_is_passed_over_on_the_way_back(
    opened: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    still.setattr(flow, "plan_configuration", _planning([]))
    async with opened(journeys.at(Step.SMOKE, smoke=journeys.FAILED)) as pilot:
        await pilot.press("enter")
        assert step_of(pilot) is Step.SMOKE
        await pilot.press("s")
        await until(pilot, lambda: step_of(pilot) is Step.OPENCODE)
        await pilot.press("b")
        await until(pilot, lambda: step_of(pilot) is Step.LAUNCH)


def _planning(seen: list[tuple[Journey, bool]]) -> Callable[..., Journey]:
    def plan(journey: Journey, *, unproven: bool = False) -> Journey:
        seen.append((journey, unproven))
        return msgspec.structs.replace(journey, change=journeys.CHANGE, proof=None)

    return plan


async def test_progress_is_kept_after_every_step_but_the_first(
    opened: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    kept: list[Step] = []
    still.setattr(flow, "save_progress", lambda journey: kept.append(journey.step))
    still.setattr(
        flow, "look_at_machine", lambda journey: msgspec.structs.replace(journey, machine=journeys.spark())
    )
    still.setattr(flow, "find_runtime", lambda journey: journeys.at(Step.RUNTIME))
    async with opened(Journey()) as pilot:
        await pilot.press("i")
        await until(pilot, lambda: step_of(pilot) is Step.MACHINE and pilot.app.screen.ready())
        assert kept == []
        await pilot.press("enter")
        await until(pilot, lambda: kept == [Step.RUNTIME])


async def test_a_receipt_that_cannot_be_written_is_told_and_no_more(
    opened: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    def save(journey: Journey) -> None:
        raise UsageError("Cannot write receipt.toml: No space left on device.", "Free some space.")

    still.setattr(flow, "save_progress", save)
    async with opened(_planned(Step.MACHINE)) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ErrorModal))
        await pilot.press("enter")
        await until(pilot, lambda: step_of(pilot) is Step.RUNTIME)


async def test_going_on_where_somebody_was(
    opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    earlier = journeys.at(Step.MACHINE)
    still.setattr(flow, "resume", lambda: (earlier, ""))
    async with opened(Journey()) as pilot:
        await see(pilot, "Go on where you were")
        await pilot.press("enter")
        await until(pilot, lambda: step_of(pilot) is Step.MACHINE)
        assert pilot.app.screen.journey.machine == earlier.machine


async def test_an_unreadable_receipt_is_told(
    opened: Any, see: Any, shown: Any, still: pytest.MonkeyPatch
) -> None:
    still.setattr(flow, "resume", lambda: (None, "It was moved to receipt.toml.unreadable."))
    async with opened(Journey()) as pilot:
        await see(pilot, "receipt.toml.unreadable")
        assert "Go on where" not in shown(pilot)


async def test_the_express_road_ends_at_the_plan(
    opened: Any, see: Any, until: Any, shown: Any, still: pytest.MonkeyPatch
) -> None:
    go = threading.Event()

    def choose(journey: Journey, emit: Emit) -> Journey:
        emit(flow.StepEvent(step="model", title="Model"))
        assert go.wait(10)
        return journeys.at(Step.LAUNCH, worked=False)

    still.setattr(flow, "choose_for_me", choose)
    async with opened(Journey()) as pilot:
        await pilot.press("e")
        await see(pilot, "Choosing for you: Model")
        go.set()
        await until(pilot, lambda: step_of(pilot) is Step.LAUNCH and "about 6 min" in shown(pilot))
        await see(pilot, "412 GiB are free")
        await pilot.press("b")
        await until(pilot, lambda: step_of(pilot) is Step.BUDGET)


async def test_a_window_does_not_hold_up_the_road(opened: Any, until: Any, still: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def choose(journey: Journey, emit: Emit) -> Journey:
        assert go.wait(10)
        return journeys.at(Step.LAUNCH, worked=False)

    still.setattr(flow, "choose_for_me", choose)
    async with opened(Journey()) as pilot:
        await pilot.press("e", "f1")
        await until(pilot, lambda: isinstance(pilot.app.screen, ReadModal))
        start = pilot.app.screen_stack[-2]
        go.set()
        await until(pilot, lambda: not start.busy)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, LaunchScreen))


async def test_connecting_asks_for_the_address(opened: Any, until: Any, still: pytest.MonkeyPatch) -> None:
    def connect(journey: Journey) -> Journey:
        if journey.answers.start.base_url == "http://spark":
            return msgspec.structs.replace(journey, server=journeys.SERVER)
        raise ServerError("Nobody answers there.", "Is vLLM running?")

    still.setattr(flow, "connect", connect)
    still.setattr(
        flow,
        "smoke_test",
        lambda journey, tell, cancel: msgspec.structs.replace(journey, smoke=journeys.PASSED),
    )
    async with opened(Journey()) as pilot:
        await pilot.press("c")
        await until(pilot, lambda: isinstance(pilot.app.screen, AskModal))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ErrorModal))
        await pilot.press("escape", "c")
        await until(pilot, lambda: isinstance(pilot.app.screen, AskModal))
        await pilot.press("ctrl+u", *"http://spark", "enter")
        await until(pilot, lambda: step_of(pilot) is Step.SMOKE)
        assert pilot.app.screen.journey.road == (Step.START, Step.SMOKE, Step.OPENCODE, Step.DONE)


async def test_diagnosing_asks_for_the_file(
    opened: Any, until: Any, shown: Any, still: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def examine(journey: Journey, cancel: object) -> Journey:
        read.append(journey.answers.start.log or "")
        return msgspec.structs.replace(journey, diagnosis=journeys.DIAGNOSIS)

    still.setattr(flow, "examine_trouble", examine)
    async with opened(Journey()) as pilot:
        await pilot.press("d")
        await until(pilot, lambda: isinstance(pilot.app.screen, AskModal))
        await pilot.press(*"vllm.log", "enter")
        await until(
            pilot, lambda: isinstance(pilot.app.screen, DiagnoseScreen) and "TRITON-PERM" in shown(pilot)
        )
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.return_value == 0)
    assert read == ["vllm.log"]


async def test_without_a_gpu_a_rehearsal_is_offered(
    opened: Any, see: Any, until: Any, shown: Any, still: pytest.MonkeyPatch
) -> None:
    looked: list[str | None] = []

    def look(journey: Journey) -> Journey:
        looked.append(journey.answers.machine.simulate)
        return msgspec.structs.replace(
            journey, machine=journeys.spark(simulated="gb10"), checks=journeys.CHECKS
        )

    still.setattr(flow, "look_at_machine", look)
    async with opened(journeys.at(Step.MACHINE, machine=journeys.spark(gpus=()))) as pilot:
        await see(pilot, "There is no NVIDIA GPU here")
        assert "REHEARSAL" not in shown(pilot)
        await pilot.press("p")
        await until(pilot, lambda: isinstance(pilot.app.screen, MachineModal))
        await pilot.press("enter")
        await until(pilot, lambda: looked == ["gb10"] and "REHEARSAL on gb10" in shown(pilot))


async def test_leaving_a_rehearsal_for_the_real_thing(
    opened: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    seen: list[Journey] = []

    def look(journey: Journey) -> Journey:
        seen.append(journey)
        return msgspec.structs.replace(journey, machine=journeys.spark())

    still.setattr(flow, "look_at_machine", look)
    answers = Answers(start=StartAnswers(mode="rehearse"), machine=MachineAnswers(simulate="gb10"))
    async with opened(Journey(answers=answers, scratch="/tmp/scratch")) as pilot:
        await pilot.press("i")
        await until(pilot, lambda: seen)
    assert not seen[0].simulated
    assert seen[0].scratch is None


@pytest.mark.parametrize("error", [UsageError("Wrong.", "Do it right."), ZeroDivisionError("oops")])
async def test_no_error_ends_the_application(
    opened: Any, until: Any, shown: Any, still: pytest.MonkeyPatch, error: Exception
) -> None:
    def look(journey: Journey) -> Journey:
        raise error

    still.setattr(flow, "look_at_machine", look)
    async with opened(journeys.at(Step.MACHINE)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: isinstance(pilot.app.screen, ErrorModal))
        assert ("Do it right." in shown(pilot)) is isinstance(error, UsageError)
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MachineScreen)


async def test_help_and_reasons_open_and_close(
    opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    async with opened(journeys.at(Step.MODEL)) as pilot:
        for key, word in (("f1", "Help: Model"), ("question_mark", "source: computed")):
            await pilot.press(key)
            await until(pilot, lambda: isinstance(pilot.app.screen, ReadModal))
            await see(pilot, word)
            await pilot.press("enter")
            assert step_of(pilot) is Step.MODEL


async def test_too_small_and_large_again(
    opened: Any, see: Any, shown: Any, still: pytest.MonkeyPatch
) -> None:
    async with opened(journeys.at(Step.MODEL)) as pilot:
        await pilot.resize_terminal(50, 15)
        await see(pilot, "too small")
        assert "gpt-oss" not in shown(pilot)
        await pilot.resize_terminal(80, 24)
        await see(pilot, "gpt-oss")


class TestLeaving:
    """Quitting, with and without something that would go on."""

    @pytest.mark.parametrize(("key", "code"), [("ctrl+q", 0), ("ctrl+c", 130)])
    async def test_with_nothing_running_nothing_is_asked(
        self, opened: Any, until: Any, still: pytest.MonkeyPatch, key: str, code: int
    ) -> None:
        async with opened(journeys.at(Step.MODEL)) as pilot:
            await pilot.press(key)
            await until(pilot, lambda: pilot.app.return_value == code)

    async def test_asking_twice_asks_once(self, opened: Any, until: Any, still: pytest.MonkeyPatch) -> None:
        async with opened(journeys.at(Step.SMOKE)) as pilot:
            await pilot.press("ctrl+q", "ctrl+c")
            await until(pilot, lambda: isinstance(pilot.app.screen, DecideModal))
            await pilot.press("enter")
            await until(pilot, lambda: pilot.app.return_value == 0)

    async def test_a_server_of_an_earlier_choice_is_not_forgotten(
        self, opened: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(journeys.at(Step.MODEL, run=journeys.RUN)) as pilot:
            await pilot.press("ctrl+q")
            await until(pilot, lambda: isinstance(pilot.app.screen, DecideModal))
            await pilot.press("escape", "ctrl+q")
            await until(pilot, lambda: isinstance(pilot.app.screen, DecideModal))

    async def test_from_within_a_window(self, opened: Any, until: Any, still: pytest.MonkeyPatch) -> None:
        async with opened(journeys.at(Step.MODEL)) as pilot:
            await pilot.press("f1", "ctrl+q")
            await until(pilot, lambda: pilot.app.return_value == 0)

    @pytest.mark.parametrize(("tabs", "stopped", "code"), [(0, 0, 0), (1, 1, 0), (2, 0, None)])
    async def test_a_running_server_is_left_stopped_or_stayed_with(
        self, opened: Any, until: Any, still: pytest.MonkeyPatch, tabs: int, stopped: int, code: int | None
    ) -> None:
        calls: list[Journey] = []
        still.setattr(flow, "stop_server", _stopping(calls))
        async with opened(journeys.at(Step.SMOKE)) as pilot:
            await pilot.press("ctrl+q")
            await until(pilot, lambda: isinstance(pilot.app.screen, DecideModal))
            await pilot.press(*["tab"] * tabs, "enter")
            await until(
                pilot,
                lambda: pilot.app.return_value == code and not isinstance(pilot.app.screen, DecideModal),
            )
        assert len(calls) == stopped

    async def test_a_rehearsal_stops_its_server_unasked(
        self, opened: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        calls: list[Journey] = []
        still.setattr(flow, "stop_server", _stopping(calls))
        async with opened(journeys.at(Step.SMOKE, answers=journeys.SIMULATED)) as pilot:
            await pilot.press("ctrl+q")
            await until(pilot, lambda: pilot.app.return_value == 0)
        assert len(calls) == 1

    async def test_the_end_of_the_road_keeps_the_server(
        self, opened: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(journeys.at(Step.DONE)) as pilot:
            await until(pilot, lambda: pilot.app.screen.ready() and not pilot.app.screen.busy)
            await pilot.press("enter")
            await until(pilot, lambda: pilot.app.return_value == 0)

    @pytest.mark.parametrize(("key", "code"), [("ctrl+q", 0), ("ctrl+c", 130)])
    async def test_a_start_under_way_is_stopped_first(
        self, opened: Any, until: Any, still: pytest.MonkeyPatch, key: str, code: int
    ) -> None:
        ended = threading.Event()

        def launch(journey: Journey, emit: Emit, cancel: threading.Event) -> Journey:
            assert cancel.wait(10)
            ended.set()
            raise Cancelled("The start was stopped.")

        still.setattr(flow, "launch", launch)
        async with opened(journeys.at(Step.LAUNCH, worked=False)) as pilot:
            await pilot.press("enter")
            await until(pilot, lambda: pilot.app.screen.half_done)
            await pilot.press(key)
            await until(pilot, lambda: isinstance(pilot.app.screen, DecideModal))
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, LaunchScreen))
            assert not ended.is_set()
            await pilot.press(key)
            await until(pilot, lambda: isinstance(pilot.app.screen, DecideModal))
            await pilot.press("tab", "enter")
            await until(pilot, lambda: pilot.app.return_value == code)
        assert ended.is_set()


def _stopping(calls: list[Journey]) -> Callable[[Journey], Journey]:
    def stop(journey: Journey) -> Journey:
        calls.append(journey)
        return msgspec.structs.replace(journey, run=None, server=None)

    return stop


async def test_work_is_cancelled_when_its_screen_goes(
    opened: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    seen: list[threading.Event] = []

    def smoke(journey: Journey, tell: Emit, cancel: threading.Event) -> Journey:
        seen.append(cancel)
        cancel.wait(10)
        raise Cancelled("The smoke test was stopped.")

    still.setattr(flow, "smoke_test", smoke)
    async with opened(journeys.at(Step.SMOKE, worked=False)) as pilot:
        await until(pilot, lambda: seen)
        await pilot.press("b")
        await until(pilot, lambda: seen[0].is_set() and isinstance(pilot.app.screen, LaunchScreen))
