"""Windows over a step: what they ask, which keys count meanwhile, and that they leave no trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import journeys
import msgspec
import pytest

from screens.base import StepScreen
from screens.diagnose import DiagnoseScreen
from screens.launch import LaunchScreen
from screens.machine import MachineScreen
from screens.start import StartScreen
from screens.widgets.keybar import KeyButton
from screens.widgets.modals import (
    AskModal,
    DecideModal,
    ErrorModal,
    MachineModal,
    Modal,
    ReadModal,
    WaitModal,
)
from screens.widgets.trouble import TroubleModal
from screens.wording import NAME_WIDTH
from wizard import flow
from wizard.diagnosis import diagnose_file
from wizard.errors import RefusedError, UsageError
from wizard.flow import Journey, Step
from wizard.machine import machine_names

QUESTIONS = (("Address", "http://spark"), ("Key", ""))
WINDOWS: dict[str, Any] = {
    "ask": lambda: AskModal("Where?", QUESTIONS, problem="Nobody answers there."),
    "decide": lambda: DecideModal("Quit?", "Now?", {"yes": "Yes"}),
    "error": lambda: ErrorModal(UsageError("Wrong.", "Do it right.")),
    "log": lambda: TroubleModal("vllm.log"),
    "machine": lambda: MachineModal(None),
    "read": lambda: ReadModal("Why", ["Because."]),
    "wait": lambda: WaitModal("Stopping…"),
}


def drawn(pilot: Any) -> list[list[tuple[str, str]]]:
    """Every character on the screen with its style."""
    strips = pilot.app.screen._compositor.render_strips()
    return [[(segment.text, str(segment.style)) for segment in strip.simplify()] for strip in strips]


@pytest.mark.parametrize("name", WINDOWS)
async def test_no_window_changes_how_a_step_looks(
    opened: Any, until: Any, still: pytest.MonkeyPatch, name: str
) -> None:
    async with opened(journeys.at(Step.BUDGET)) as pilot:
        before = drawn(pilot)
        window = WINDOWS[name]()
        pilot.app.push_screen(window)
        await until(pilot, lambda: pilot.app.screen is window and window.is_mounted)
        await pilot.pause()
        assert drawn(pilot) != before
        window.dismiss(None)
        await until(pilot, lambda: isinstance(pilot.app.screen, StepScreen))
        await pilot.pause()
        assert drawn(pilot) == before


@pytest.mark.parametrize("name", WINDOWS)
async def test_under_a_window_no_key_of_the_step_is_shown(
    opened: Any, until: Any, shown: Any, still: pytest.MonkeyPatch, name: str
) -> None:
    async with opened(journeys.at(Step.BUDGET)) as pilot:
        assert "[b] back" in shown(pilot)
        window = WINDOWS[name]()
        pilot.app.push_screen(window)
        await until(pilot, lambda: window.is_mounted and "[b] back" not in shown(pilot))
        assert isinstance(window, Modal)
        window.dismiss(None)
        await until(pilot, lambda: "[b] back" in shown(pilot))


class TestKeys:
    """Only what works is offered, at the foot and in the help."""

    @pytest.mark.parametrize(
        ("journey", "dead"),
        [
            (Journey(), ["[b] back", "[?] why", "[g] go on"]),
            (journeys.at(Step.RUNTIME), ["[?] why"]),
            (journeys.at(Step.OPENCODE), ["[?] why", "[w] write", "[s] skip"]),
            (journeys.at(Step.MODEL, rows=journeys.ROWS[:3]), ["[a] show", "[a] hide"]),
            (journeys.diagnosing(), ["[?] why"]),
        ],
        ids=["start", "runtime", "opencode", "model", "diagnose"],
    )
    async def test_the_help_names_what_the_foot_names(
        self,
        opened: Any,
        see: Any,
        shown: Any,
        still: pytest.MonkeyPatch,
        journey: Journey,
        dead: list[str],
    ) -> None:
        async with opened(journey, size=(120, 50)) as pilot:
            shown_keys = {
                str(button.label)
                for button in pilot.app.screen.query(KeyButton)
                if button.display and not button.disabled
            }
            await pilot.press("f1")
            await see(pilot, "Help: ", "[F1] help")
            text = shown(pilot)
            assert [key for key in shown_keys if key not in text] == []
            assert [key for key in dead if key in text] == []

    async def test_the_help_names_the_steps(self, opened: Any, see: Any, still: pytest.MonkeyPatch) -> None:
        async with opened(journeys.at(Step.RUNTIME), size=(120, 40)) as pilot:
            await pilot.press("f1")
            await see(pilot, "Steps: 1 Start · 2 Machine · [3 Runtime] · 4 Model", "9 Done")

    async def test_going_on_is_a_key_where_there_is_something_to_go_on_with(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch
    ) -> None:
        still.setattr(flow, "resume", lambda: (journeys.at(Step.MACHINE), ""))
        async with opened(Journey()) as pilot:
            await see(pilot, "[g] go on")
            assert all(button.region.right <= 80 for button in pilot.app.screen.query(KeyButton))

    async def test_what_cannot_run_is_shown_and_hidden(
        self, opened: Any, see: Any, shown: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(journeys.at(Step.MODEL)) as pilot:
            await see(pilot, "[a] show what cannot run")
            await pilot.press("a")
            await see(pilot, "[a] hide what cannot run", "Qwen2.5-Coder-32B")
            await pilot.press("a")
            await see(pilot, "[a] show what cannot run")
            assert "Qwen2.5-Coder-32B" not in shown(pilot)


class TestRecordedMachines:
    async def test_each_is_named_with_what_it_is(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(Journey()) as pilot:
            await pilot.press("p")
            await see(pilot, "gb10         NVIDIA GB10 121.7 GiB · MSI EdgeXpert")
            await see(pilot, "a100x4       4 x NVIDIA A100-SXM4-40GB 40.0 GiB")

    def test_a_name_keeps_its_column(self) -> None:
        assert max(map(len, machine_names())) < NAME_WIDTH


class TestLog:
    """The file to diagnose."""

    async def test_nothing_typed_says_what_is_missing(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(Journey()) as pilot:
            await pilot.press("d", "enter")
            await see(pilot, "Nothing was typed here yet: File, docker logs")
            assert isinstance(pilot.app.screen, TroubleModal)

    async def test_a_file_that_cannot_be_read_is_asked_for_again(
        self, opened: Any, see: Any, until: Any, shown: Any, still: pytest.MonkeyPatch
    ) -> None:
        still.setattr(flow, "examine_trouble", _only("good.log"))
        async with opened(Journey()) as pilot:
            await pilot.press("d", *"bad.log", "enter")
            await see(pilot, "Cannot read bad.log")
            assert isinstance(pilot.app.screen, TroubleModal)
            assert isinstance(pilot.app.screen_stack[-2], StartScreen)
            assert "standard input" not in shown(pilot)
            await pilot.press("ctrl+u", *"good.log", "enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, DiagnoseScreen))
            await see(pilot, "TRITON-PERM")
            await pilot.press("o", "ctrl+u", *"bad.log", "enter")
            await see(pilot, "Cannot read bad.log")
            await pilot.press("escape")
            await see(pilot, "TRITON-PERM")
            assert pilot.app.screen.journey.answers.start.log == "good.log"

    async def test_a_dash_is_a_file_not_the_terminal(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch
    ) -> None:
        still.setattr(flow, "examine_trouble", _only("good.log"))
        async with opened(Journey()) as pilot:
            await pilot.press("d", "minus", "enter")
            await see(pilot, "Cannot read ./-")

    async def test_a_text_can_be_pasted(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(Journey()) as pilot:
            still.setattr(flow, "examine_trouble", lambda journey, cancel: _read_for_real(journey))
            await pilot.press("d", "tab", "end", "enter")
            await see(pilot, "[F2] read it")
            await pilot.press(*"Error", "enter", *"more", "f2")
            await until(pilot, lambda: isinstance(pilot.app.screen, DiagnoseScreen))
            await see(pilot, "2 lines read")

    async def test_a_complaint_is_enough(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        still.setattr(flow, "examine_trouble", _only("symptom:never-acts"))
        async with opened(Journey()) as pilot:
            await pilot.press("d", "tab", "down", "enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, DiagnoseScreen))
            await see(pilot, "TRITON-PERM")


def _read_for_real(journey: Journey) -> Journey:
    return msgspec.structs.replace(journey, diagnosis=diagnose_file(Path(journey.answers.start.log or "")))


def _only(good: str) -> Any:
    def examine(journey: Journey, cancel: object) -> Journey:
        file = journey.answers.start.log
        if file == good:
            return msgspec.structs.replace(journey, diagnosis=journeys.DIAGNOSIS)
        raise UsageError(f"Cannot read {file}: No such file.", "Name the log, or - for standard input.")

    return examine


@pytest.mark.parametrize(("tabs", "step"), [(0, "rehearse"), (1, "install"), (2, "close")])
async def test_where_nothing_can_be_chosen_a_rehearsal_is_offered(
    opened: Any, see: Any, until: Any, shown: Any, still: pytest.MonkeyPatch, tabs: int, step: str
) -> None:
    def choose(journey: Journey, emit: object) -> Journey:
        raise RefusedError("No usable GPU was found on this machine.", "vllm-opencode --simulate gb10")

    still.setattr(flow, "choose_for_me", choose)
    still.setattr(
        flow, "look_at_machine", lambda journey: msgspec.structs.replace(journey, machine=journeys.spark())
    )
    after = {"rehearse": MachineModal, "install": MachineScreen, "close": StartScreen}
    async with opened(Journey()) as pilot:
        await pilot.press("e")
        await see(pilot, "No usable GPU was found", "Practise: rehearse")
        assert "--simulate" not in shown(pilot)
        await pilot.press(*["tab"] * tabs, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, after[step]))


async def test_a_rehearsal_downloads_nothing(opened: Any, see: Any, still: pytest.MonkeyPatch) -> None:
    rehearsed = journeys.at(Step.LAUNCH, worked=False, answers=journeys.SIMULATED)
    async with opened(rehearsed) as pilot:
        await see(pilot, "Download  none")


async def test_what_is_not_on_disk_is_downloaded(opened: Any, see: Any, still: pytest.MonkeyPatch) -> None:
    async with opened(journeys.at(Step.LAUNCH, worked=False)) as pilot:
        assert isinstance(pilot.app.screen, LaunchScreen)
        await see(pilot, "Download  75.0 GiB before the first start")
