"""Pictures of every step, in both sizes a person is likely to have."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import journeys
import pytest
from textual.pilot import Pilot

from screens.app import WizardApp
from screens.widgets.modals import ErrorModal
from wizard import flow, i18n
from wizard.errors import LaunchError, UsageError
from wizard.flow import Journey, Step
from wizard.serve import Event

SIZES = [(80, 24), (120, 40)]
LANGUAGES = ["en"]
VARIANTS = (
    "machine-rehearsed",
    "machine-many",
    "machine-no-gpu",
    "budget-refused",
    "launch-ready",
    "opencode-proved",
)
"""Drawn in the small size only: at the large one they show nothing new."""

STEPS: dict[str, Journey] = {
    "start": Journey(),
    "machine": journeys.at(Step.MACHINE),
    "machine-rehearsed": journeys.at(
        Step.MACHINE, answers=journeys.SIMULATED, machine=journeys.spark(simulated="gb10")
    ),
    "machine-many": journeys.at(Step.MACHINE, machine=journeys.ten_voltas()),
    "machine-no-gpu": journeys.at(Step.MACHINE, machine=journeys.spark(gpus=(), driver=None, cuda=None)),
    "runtime": journeys.at(Step.RUNTIME),
    "model": journeys.at(Step.MODEL),
    "budget": journeys.at(Step.BUDGET),
    "budget-refused": journeys.at(Step.BUDGET, plan=journeys.REFUSED),
    "launch-review": journeys.at(Step.LAUNCH, worked=False),
    "launch-ready": journeys.at(Step.LAUNCH),
    "smoke": journeys.at(Step.SMOKE),
    "smoke-failed": journeys.at(Step.SMOKE, smoke=journeys.FAILED),
    "opencode": journeys.at(Step.OPENCODE, change=journeys.CHANGE, proof=None),
    "opencode-proved": journeys.at(Step.OPENCODE),
    "done": journeys.at(Step.DONE),
    "diagnose": journeys.diagnosing(),
}

Drawn = Callable[..., bool]
sized = pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
spoken = pytest.mark.parametrize("language", LANGUAGES)


async def calm(pilot: Pilot[Any]) -> None:
    """Wait until nothing on the screen changes any more."""
    seen: list[str] = []
    while len(seen) < 3 or len(set(seen[-3:])) > 1:
        await pilot.pause(0.02)
        seen.append(pilot.app.export_screenshot())


@pytest.fixture
def drawn(still: pytest.MonkeyPatch, snap_compare: Callable[..., bool]) -> Drawn:
    """Compare the screen of a journey, in a language and a size, after something was done there."""
    # The one path on the screens that is not the journey's.
    still.setenv("XDG_STATE_HOME", "/home/operator/.local/state")

    def compare(
        journey: Journey,
        language: str,
        size: tuple[int, int],
        then: Callable[[Pilot[Any]], Awaitable[None]] | None = None,
    ) -> bool:
        i18n.use(language)

        async def settle(pilot: Pilot[Any]) -> None:
            await pilot.app.workers.wait_for_complete(
                worker for worker in pilot.app.workers if worker.name == "_sum_up"
            )
            await calm(pilot)
            if then is not None:
                await then(pilot)
                await calm(pilot)

        return snap_compare(WizardApp(journey), terminal_size=size, run_before=settle)

    return compare


@sized
@spoken
@pytest.mark.parametrize("name", [name for name in STEPS if name not in VARIANTS])
def test_a_step(drawn: Drawn, name: str, language: str, size: tuple[int, int]) -> None:
    assert drawn(STEPS[name], language, size)


@spoken
@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant(drawn: Drawn, name: str, language: str) -> None:
    assert drawn(STEPS[name], language, (80, 24))


@sized
@spoken
def test_a_start_under_way(
    drawn: Drawn, until: Any, shown: Any, still: pytest.MonkeyPatch, language: str, size: tuple[int, int]
) -> None:
    def launch(journey: Journey, emit: Callable[[Event], None], cancel: threading.Event) -> Journey:
        for event in journeys.EVENTS:
            emit(event)
        cancel.wait()
        return journey

    async def start(pilot: Pilot[Any]) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: "31/40" in shown(pilot))

    still.setattr(flow, "launch", launch)
    assert drawn(journeys.at(Step.LAUNCH, worked=False), language, size, start)


@sized
@spoken
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_a_failed_start(
    drawn: Drawn,
    until: Any,
    shown: Any,
    still: pytest.MonkeyPatch,
    language: str,
    size: tuple[int, int],
    known: bool,
) -> None:
    said = ("vLLM did not come up: RuntimeError", "The whole log: /runs/1/vllm.log", journeys.EVIDENCE)
    error = flow.StartFailed(*said, found=journeys.DIAGNOSIS, log="/runs/1/vllm.log")

    def launch(journey: Journey, emit: Callable[[Event], None], cancel: threading.Event) -> Journey:
        for event in journeys.EVENTS:
            emit(event)
        raise error if known else LaunchError(*said)

    async def start(pilot: Pilot[Any]) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: "Triton Error" in shown(pilot))

    still.setattr(flow, "launch", launch)
    assert drawn(journeys.at(Step.LAUNCH, worked=False), language, size, start)


@spoken
def test_what_is_broken(drawn: Drawn, language: str) -> None:
    async def ask(pilot: Pilot[Any]) -> None:
        await pilot.press("d")

    assert drawn(Journey(), language, (80, 24), ask)


@spoken
def test_the_help(drawn: Drawn, language: str) -> None:
    async def ask(pilot: Pilot[Any]) -> None:
        await pilot.press("f1")

    assert drawn(journeys.at(Step.BUDGET), language, (80, 24), ask)


@spoken
def test_the_reasons(drawn: Drawn, language: str) -> None:
    async def ask(pilot: Pilot[Any]) -> None:
        await pilot.press("question_mark")

    assert drawn(journeys.at(Step.MODEL), language, (80, 24), ask)


@spoken
def test_an_error(drawn: Drawn, language: str) -> None:
    """The window alone, over a step at rest: a failing work would race with its last refresh."""

    async def fail(pilot: Pilot[Any]) -> None:
        error = UsageError("There is no machine file /tmp/nowhere.json.", "Give a path to a file.")
        await pilot.app.push_screen(ErrorModal(error))

    assert drawn(journeys.at(Step.MACHINE), language, (80, 24), fail)


@spoken
def test_what_to_do_with_the_server(drawn: Drawn, language: str) -> None:
    async def leave(pilot: Pilot[Any]) -> None:
        await pilot.press("ctrl+q")

    assert drawn(journeys.at(Step.SMOKE), language, (80, 24), leave)


@spoken
def test_an_address_to_type(drawn: Drawn, language: str) -> None:
    async def connect(pilot: Pilot[Any]) -> None:
        await pilot.press("c")

    assert drawn(Journey(), language, (80, 24), connect)


@pytest.mark.parametrize("size", [(59, 24), (80, 17), (40, 10)], ids=str)
def test_too_small(drawn: Drawn, size: tuple[int, int]) -> None:
    assert drawn(journeys.at(Step.MODEL), "en", size)


@pytest.mark.parametrize("step", [Step.MACHINE, Step.MODEL])
def test_without_colours(drawn: Drawn, still: pytest.MonkeyPatch, step: Step) -> None:
    still.setenv("NO_COLOR", "1")
    assert drawn(journeys.at(step), "en", (80, 24))
