"""The whole road with nothing replaced: a recorded machine, the stand-in server, both front ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from screens.base import StepScreen
from screens.plain import PlainWizard
from wizard.flow import Answers, Journey, MachineAnswers, ServeAnswers, Step, free_port


@pytest.fixture
def simulated() -> Answers:
    """A DGX Spark, on a port that nobody else uses."""
    return Answers(machine=MachineAnswers(simulate="gb10"), serve=ServeAnswers(port=free_port()))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in server comes up in a moment."""
    monkeypatch.setattr("wizard.flow.serving.REHEARSAL_PACE_S", 0.2)
    monkeypatch.setattr("wizard.flow.serving.rehearsed_pace", lambda journey: 4000.0)


def check_scratch(journey: Journey) -> None:
    """What a finished rehearsal leaves: a configuration for the served name, and no process."""
    assert journey.scratch is not None
    assert journey.run is not None
    written = json.loads((Path(journey.scratch) / "opencode" / "opencode.json").read_bytes())
    assert list(written["provider"]["vllm"]["models"]) == ["qwen3-coder-next-fp8"]
    assert not psutil.pid_exists(journey.run.pid)


async def test_from_start_to_done_at_80x24(
    opened: Any, see: Any, until: Any, shown: Any, simulated: Answers
) -> None:
    def stands_at(step: Step) -> bool:
        screen = pilot.app.screen
        return isinstance(screen, StepScreen) and screen.STEP is step and screen.ready() and not screen.busy

    async with opened(Journey(answers=simulated)) as pilot:
        await pilot.press("i")
        for step in (Step.MACHINE, Step.RUNTIME, Step.MODEL, Step.BUDGET):
            await until(pilot, lambda: stands_at(step))  # noqa: B023 - awaited at once
            await see(pilot, "REHEARSAL on gb10")
            await pilot.press("enter")
        await see(pilot, "--tool-call-parser qwen3_coder")
        await pilot.press("enter")
        await until(pilot, lambda: stands_at(Step.LAUNCH))
        await pilot.press("enter")
        await see(pilot, "PASS: tool calls work")
        await pilot.press("enter")
        await see(pilot, "[Enter] write and prove")
        await pilot.press("enter")
        await until(pilot, lambda: stands_at(Step.OPENCODE) and "SKIPPED" in shown(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: stands_at(Step.DONE))
        await see(pilot, "opencode -m vllm/qwen3-coder-next-fp8")
        journey = pilot.app.screen.journey
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.return_value == 0)
    check_scratch(journey)


async def test_quitting_while_it_starts_leaves_nothing_running(
    opened: Any, see: Any, until: Any, simulated: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wizard.flow.serving.REHEARSAL_PACE_S", 10.0)
    async with opened(Journey(answers=simulated)) as pilot:
        await pilot.press("e")
        await see(pilot, "[Enter] start vLLM")
        await pilot.press("enter")
        await see(pilot, "Model recognised")
        children = psutil.Process().children(recursive=True)
        assert children
        await pilot.press("ctrl+c")
        await see(pilot, "Quitting now stops it")
        await pilot.press("tab", "enter")
        await until(pilot, lambda: pilot.app.return_value == 130)
    _gone, alive = psutil.wait_procs(children, timeout=5)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def test_the_plain_questions_go_the_same_road(simulated: Answers) -> None:
    written: list[str] = []
    asked: list[str] = []

    def read(question: str) -> str:
        asked.append(question)
        return ""

    wizard = PlainWizard(Journey(answers=simulated), read, written.append)
    assert wizard.run() == 0
    text = "\n".join(written)
    assert "REHEARSAL on gb10" in text
    assert "OK  tool call, streaming" in text
    assert "cd project; opencode -m vllm/qwen3-coder-next-fp8" in text
    assert written[-1] == "The stand-in for vLLM is stopped."
    assert all("\r" not in line and "\x1b" not in line and "\n" not in line for line in written)
    # The express road asks what to do, whether to start, after the smoke test, and before writing.
    assert len(asked) == 4
    check_scratch(wizard.journey)
