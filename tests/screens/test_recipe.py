"""The roads to a vLLM, on the screen and as questions: rehearsed, carried out, failed, stopped, left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import journeys
import pytest
from textual.widgets import OptionList

from screens.dialogue import Dialogue
from screens.plain_recipe import install
from screens.recipe import RecipeScreen
from screens.runtime import RuntimeScreen
from wizard import flow
from wizard.catalog import StepCheck
from wizard.errors import InstallError
from wizard.flow import Journey, Step
from wizard.recipe import Offer, Recipe, RecipeStep, running_step, steps_done, stop_step


def step(id: str, *commands: str, check: str, sudo: bool = False) -> RecipeStep:
    return RecipeStep(
        id=id,
        title=f"Step {id}",
        why=f"Because of {id}.",
        commands=commands,
        check=StepCheck(command=check),
        help="Mend it.",
        sudo=sudo,
        network=False,
        long=False,
        deadline_s=30.0,
        env={},
        result_env={},
    )


def road(*steps: RecipeStep) -> Recipe:
    return Recipe(
        route="wheel",
        id="small",
        title="A small road",
        version="0.33.0",
        why="For tests.",
        steps=steps,
        command=("/opt/made/bin/vllm",),
    )


@pytest.fixture
def offering(still: pytest.MonkeyPatch) -> Any:
    """This machine's only road is this one."""

    def offer(recipe: Recipe) -> None:
        found = Offer(kind="test", recipes=(recipe,), advice=(), source="test")
        still.setattr(flow, "find_recipes", lambda journey: found)

    return offer


class TestOnTheScreen:
    async def test_a_recorded_machine_shows_its_roads_and_runs_nothing(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        journey = journeys.at(
            Step.RUNTIME, answers=journeys.SIMULATED, machine=journeys.spark(simulated="gb10")
        )
        async with opened(journey) as pilot:
            await pilot.press("i")
            await see(pilot, "vLLM 0.33.0 ready-made", "OPEN  1 An environment of its own", "-m venv")
            await pilot.press("t", "down", "down", "down", "enter")
            await see(pilot, "OPEN  1 Compilers and headers (sudo, network)")
            await pilot.press("enter")
            await see(pilot, "SEEN  1 Compilers and headers", "nothing was run")
            await pilot.press("b")
            await until(pilot, lambda: isinstance(pilot.app.screen, RuntimeScreen))
        assert not (tmp_path / "xdg_state_home").exists()

    async def test_step_by_step_to_a_vllm_that_is_taken(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch, offering: Any, tmp_path: Path
    ) -> None:
        first = step("one", "echo working", f"touch {tmp_path}/one", check=f"ls {tmp_path}/one")
        second = step("two", f"touch {tmp_path}/two", check=f"ls {tmp_path}/two")
        recipe = road(first, second)
        offering(recipe)
        looked: list[Journey] = []

        def find(journey: Journey) -> Journey:
            looked.append(journey)
            return journeys.at(Step.RUNTIME, answers=journey.answers)

        still.setattr(flow, "find_runtime", find)
        async with opened(journeys.at(Step.RUNTIME)) as pilot:
            await pilot.press("i")
            await see(pilot, "OPEN  1 Step one", "Because of one.", "$ touch")
            assert not (tmp_path / "one").exists()
            await pilot.press("enter")
            await see(pilot, "DONE  1 Step one", "OPEN  2 Step two", "proved:")
            await pilot.press("enter")
            await until(pilot, lambda: looked)
        assert looked[0].answers.runtime.command == ("/opt/made/bin/vllm",)

    async def test_a_failure_shows_the_last_lines_and_what_to_do(
        self, opened: Any, see: Any, offering: Any
    ) -> None:
        offering(road(step("bad", "echo the reason", "false", check="false")))
        async with opened(journeys.at(Step.RUNTIME)) as pilot:
            await pilot.press("i")
            await see(pilot, "OPEN  1 Step bad")
            await pilot.press("enter")
            await see(pilot, "This did not work", "ended with exit code 1", "the reason", "Mend it.")

    async def test_x_stops_it(self, opened: Any, see: Any, offering: Any, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "gate")
        recipe = road(step("slow", "echo working", f"read -r word <{tmp_path}/gate", check="false"))
        offering(recipe)
        async with opened(journeys.at(Step.RUNTIME)) as pilot:
            await pilot.press("i")
            await see(pilot, "OPEN  1 Step slow")
            await pilot.press("enter")
            await see(pilot, "working", "[x] stop")
            await pilot.press("x")
            await see(pilot, "The step was stopped")
        assert running_step(recipe) is None

    async def test_left_it_goes_on_and_is_found_again(
        self, opened: Any, see: Any, until: Any, offering: Any, tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        door = os.open(gate, os.O_RDWR)
        recipe = road(
            step(
                "slow",
                "echo working",
                f"read -r word <{gate}",
                f"touch {tmp_path}/a",
                check=f"ls {tmp_path}/a",
            ),
            step("later", check="false"),
        )
        offering(recipe)
        try:
            async with opened(journeys.at(Step.RUNTIME)) as pilot:
                await pilot.press("i")
                await see(pilot, "OPEN  1 Step slow")
                await pilot.press("enter")
                await see(pilot, "working")
                await pilot.press("b")
                await until(pilot, lambda: isinstance(pilot.app.screen, RuntimeScreen))
                assert running_step(recipe) == 0
                await pilot.press("i")
                await see(pilot, "working", "[x] stop")
                os.write(door, b"go\n")
                await until(pilot, lambda: steps_done(recipe) == ("slow",))
                await see(pilot, "DONE  1 Step slow")
        finally:
            stop_step(recipe, 0)
            os.close(door)

    async def test_a_step_with_sudo_is_refused_where_the_terminal_cannot_be_handed_over(
        self, opened: Any, see: Any, offering: Any, still: pytest.MonkeyPatch
    ) -> None:
        still.setattr(os, "geteuid", lambda: 1000)
        offering(road(step("root", "sudo true", check="false", sudo=True)))
        async with opened(journeys.at(Step.RUNTIME)) as pilot:
            await pilot.press("i")
            await see(pilot, "OPEN  1 Step root (sudo)")
            await pilot.press("enter")
            await see(pilot, "vllm-opencode runtime --install")

    async def test_no_key_is_cut(self, opened: Any, see: Any, offering: Any) -> None:
        offering(road(step("one", check="true")))
        async with opened(journeys.at(Step.RUNTIME)) as pilot:
            await pilot.press("i")
            await see(pilot, "[Enter] do this step", "[e] write a script", "[ctrl+q] quit")
            assert isinstance(pilot.app.screen, RecipeScreen)
            assert pilot.app.screen.query_one(OptionList).has_focus


class Person:
    """Answers questions one after the other, and keeps what was written."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.lines: list[str] = []
        self.dialogue = Dialogue(lambda _question: self._answers.pop(0), self.lines.append)


class TestAsQuestions:
    def test_step_by_step(self, offering: Any, tmp_path: Path) -> None:
        offering(road(step("one", f"touch {tmp_path}/one", check=f"ls {tmp_path}/one")))
        person = Person("1", "yes")
        after = install(person.dialogue, journeys.at(Step.RUNTIME))
        assert f"proved: {tmp_path}/one" in person.lines
        assert after.answers.runtime.command == ("/opt/made/bin/vllm",)
        assert after.runtime is None

    def test_a_no_does_nothing(self, offering: Any, tmp_path: Path) -> None:
        offering(road(step("one", f"touch {tmp_path}/one", check=f"ls {tmp_path}/one")))
        before = journeys.at(Step.RUNTIME)
        assert install(Person("1", "no").dialogue, before) == before
        assert not (tmp_path / "one").exists()

    def test_a_failure(self, offering: Any) -> None:
        offering(road(step("bad", "true", check="echo not yet; false")))
        person = Person("1", "yes")
        with pytest.raises(InstallError):
            install(person.dialogue, journeys.at(Step.RUNTIME))
        assert person.lines[-1] == "  not yet"

    def test_a_script(self, offering: Any, tmp_path: Path) -> None:
        offering(road(step("one", check="true")))
        file = tmp_path / "install.sh"
        install(Person("2", str(file)).dialogue, journeys.at(Step.RUNTIME))
        assert "check" in file.read_text()

    def test_a_rehearsal_asks_for_the_road_and_runs_nothing(self, tmp_path: Path) -> None:
        journey = journeys.at(
            Step.RUNTIME, answers=journeys.SIMULATED, machine=journeys.spark(simulated="gb10")
        )
        person = Person("4", "1", *["yes"] * 8)
        assert install(person.dialogue, journey) == journey
        assert person.lines.count("Rehearsal: the step was shown, and nothing was run.") == 8
        assert not (tmp_path / "xdg_state_home").exists()
