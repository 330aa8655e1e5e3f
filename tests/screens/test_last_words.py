"""How the application ends: exit codes, the last line, and what nobody expected."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import journeys
import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import OptionList

import screens
from screens.app import WizardApp
from screens.base import StepScreen
from screens.machine import MachineScreen
from screens.widgets.modals import DecideModal
from wizard import flow
from wizard.errors import UsageError
from wizard.flow import Journey, Step

Actions = Callable[[Pilot[int]], Awaitable[None]]


@pytest.fixture
def headless(still: pytest.MonkeyPatch) -> Callable[[Actions | None], None]:
    """Let ``run_app`` run without a terminal, with somebody at the keys."""

    def use(actions: Actions | None) -> None:
        def run(app: WizardApp) -> int | None:
            return App.run(app, headless=True, size=(80, 24), auto_pilot=actions)

        still.setattr(WizardApp, "run", run)

    return use


@pytest.mark.parametrize("where", ["drawing", "message", "worker", "key"])
def test_what_nobody_expected_is_raised_without_a_traceback(
    headless: Any, still: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], where: str
) -> None:
    def fail(*given: object) -> None:
        raise ZeroDivisionError("oops")

    async def fail_later(*given: object) -> None:
        raise ZeroDivisionError("oops")

    async def press(pilot: Pilot[int]) -> None:
        await pilot.press("n")
        await pilot.pause()
        pilot.app.exit(99)

    match where:
        case "drawing":
            still.setattr(MachineScreen, "show", fail)
        case "message":
            still.setattr("screens.machine.item_at", fail)
        case "worker":
            still.setattr(WizardApp, "_keep", fail_later)
        case "key":
            still.setattr(MachineScreen, "action_next", fail)
    headless(press)
    told: list[str] = []
    with pytest.raises(ZeroDivisionError, match="oops"):
        screens.run_app(journeys.at(Step.MACHINE), told.append)
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    assert "ZeroDivisionError" not in out + err
    assert told == []


@pytest.mark.parametrize(
    ("journey", "words"),
    [
        (Journey(), []),
        (journeys.at(Step.MODEL), ["Your answers are kept: the next start offers to go on."]),
        (
            journeys.at(Step.MODEL, answers=journeys.SIMULATED, scratch="/tmp/scratch"),
            ["The rehearsal is over, nothing real was touched. What it wrote lies in /tmp/scratch"],
        ),
    ],
    ids=["start", "half-way", "rehearsal"],
)
@pytest.mark.parametrize(("key", "code"), [("ctrl+q", 0), ("ctrl+c", 130)])
def test_leaving_says_what_is_kept(
    headless: Any, journey: Journey, words: list[str], key: str, code: int
) -> None:
    async def press(pilot: Pilot[int]) -> None:
        await pilot.pause()
        await pilot.press(key)

    headless(press)
    told: list[str] = []
    assert screens.run_app(journey, told.append) == code
    assert told == words


def test_answers_that_could_not_be_written_are_not_said_to_be_kept(
    headless: Any, still: pytest.MonkeyPatch
) -> None:
    def save(journey: Journey) -> None:
        raise UsageError("Cannot write receipt.toml.", "Free some space.")

    async def press(pilot: Pilot[int]) -> None:
        await pilot.pause()
        await pilot.press("ctrl+q")
        while isinstance(pilot.app.screen, StepScreen):
            await pilot.pause(0.01)
        await pilot.press("enter")

    still.setattr(flow, "save_progress", save)
    headless(press)
    told: list[str] = []
    assert screens.run_app(journeys.at(Step.MODEL), told.append) == 0
    assert told == []


@pytest.mark.parametrize(("key", "code"), [("ctrl+q", 0), ("ctrl+c", 130)])
@pytest.mark.parametrize(
    ("tabs", "words"),
    [
        (
            0,
            "vLLM goes on at http://127.0.0.1:8000/v1. Stop it with: vllm-opencode stop. "
            f"Its log: {journeys.RUN.log}",
        ),
        (1, "vLLM is stopped."),
    ],
    ids=["left", "stopped"],
)
def test_leaving_says_what_became_of_the_server(
    headless: Any, still: pytest.MonkeyPatch, key: str, code: int, tabs: int, words: str
) -> None:
    async def press(pilot: Pilot[int]) -> None:
        await pilot.pause()
        await pilot.press(key)
        while not isinstance(pilot.app.screen, DecideModal):
            await pilot.pause(0.01)
        await pilot.press(*["tab"] * tabs, "enter")

    still.setattr(flow, "stop_server", lambda journey: journeys.at(Step.SMOKE, run=None, server=None))
    headless(press)
    told: list[str] = []
    assert screens.run_app(journeys.at(Step.SMOKE), told.append) == code
    assert told == [words]


async def test_a_program_that_is_not_vllm_is_told_and_the_list_still_works(
    opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    def find(journey: Journey) -> Journey:
        if journey.answers.runtime.path is not None:
            raise UsageError("/nope/bin/vllm does not answer as a vLLM.", "Check [runtime] in the answers.")
        return journeys.at(Step.RUNTIME)

    looked = threading.Event()
    still.setattr(flow, "find_runtime", find)
    still.setattr(flow, "rate_models", lambda journey: looked.set() or journeys.at(Step.MODEL))
    async with opened(journeys.at(Step.RUNTIME, worked=False)) as pilot:
        await until(pilot, lambda: pilot.app.screen.ready())
        await pilot.press("o", *"/nope/bin/vllm", "enter")
        await see(pilot, "does not answer as a vLLM", "Name another one with [o]")
        await pilot.press("enter", "enter")
        await until(pilot, looked.is_set)
        assert pilot.app.screen.journey.answers.runtime.path is None


async def test_lists_outlive_late_messages_about_them(opened: Any, still: pytest.MonkeyPatch) -> None:
    """A highlighted line can be gone when the message about it arrives."""
    for step in (Step.MACHINE, Step.RUNTIME, Step.SMOKE):
        async with opened(journeys.at(step)) as pilot:
            options = pilot.app.screen.query(OptionList).first()
            gone = OptionList.OptionHighlighted(options, options.get_option_at_index(0), 99)
            pilot.app.screen.post_message(gone)
            await pilot.pause()
            assert pilot.app.failure is None
