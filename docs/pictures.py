"""Draws the pictures of the README again: a rehearsal on a recorded DGX Spark, at 80x24.

Run it from the repository: ``PYTHONPATH=. python docs/pictures.py``. Nothing real is touched.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from screens.app import WizardApp
from screens.base import StepScreen
from wizard.flow import Answers, Journey, MachineAnswers, Step

FOLDER = Path(__file__).parent
DEADLINE_S = 30.0


async def until(pilot: Pilot[int], condition: Callable[[StepScreen], bool]) -> None:
    """Wait for a step's screen to be as it should."""
    deadline = time.monotonic() + DEADLINE_S
    while not (isinstance(screen := pilot.app.screen, StepScreen) and condition(screen)):
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {DEADLINE_S:.0f} s: {pilot.app.screen}")
        await pilot.pause(0.05)
    await pilot.pause()


def picture(pilot: Pilot[int], name: str) -> None:
    """Write what the screen shows, the same file for the same content."""
    drawn = pilot.app.export_screenshot(title="vllm-opencode")
    (FOLDER / f"{name}.svg").write_text(re.sub(r"terminal-\d+-", "terminal-", drawn), encoding="utf-8")


async def walk(pilot: Pilot[int]) -> None:
    """The whole road, with a picture of the steps worth showing."""
    await until(pilot, lambda screen: screen.STEP is Step.START)
    await pilot.press("i")
    for step in (Step.MACHINE, Step.RUNTIME, Step.MODEL, Step.BUDGET):
        await until(pilot, lambda screen: screen.STEP is step and screen.ready() and not screen.busy)  # noqa: B023
        if step is not Step.RUNTIME:
            picture(pilot, step.value)
        await pilot.press("enter")
    await until(pilot, lambda screen: screen.STEP is Step.LAUNCH)
    await pilot.press("enter")
    await pilot.pause(2.5)
    picture(pilot, "launch")
    await until(pilot, lambda screen: screen.ready() and not screen.busy)
    await pilot.press("enter")
    await until(pilot, lambda screen: screen.STEP is Step.SMOKE and screen.ready() and not screen.busy)
    picture(pilot, "smoke")
    await pilot.press("ctrl+q")
    while pilot.app.return_value is None:
        await pilot.pause(0.05)


async def main() -> None:
    """Rehearse and draw."""
    app = WizardApp(Journey(answers=Answers(machine=MachineAnswers(simulate="gb10"))))
    async with app.run_test(size=(80, 24)) as pilot:
        await walk(pilot)


if __name__ == "__main__":
    asyncio.run(main())
