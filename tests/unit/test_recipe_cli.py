"""The command runtime: the recipe shown, exported, carried out, rehearsed; and what it leaves behind."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import ClassVar

import pytest
from recipes import a_recipe, a_step, fake

from wizard import flow
from wizard.cli import main
from wizard.flow import Answers, Journey, RuntimeAnswers, find_runtime, look_at_machine, take_installed
from wizard.flow.recipes import needs_of
from wizard.recipe import Offer, Recipe, run_step
from wizard.runtime import probe


def called(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(list(words)) == code
    return capsys.readouterr().out


def plan_for(monkeypatch: pytest.MonkeyPatch, recipe: Recipe) -> None:
    """The recipe of this host is a small one."""
    found = Offer(kind="test", recipes=(recipe,), advice=(), source="test")
    monkeypatch.setattr("wizard.cli.runtimes.find_recipes", lambda _journey, _into: found)


class TestShown:
    def test_as_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        told = json.loads(called(capsys, "--simulate", "v100x10", "--json", "runtime", "--recipe", code=1))
        assert set(told) >= {"found", "recipe", "advice", "beside"}
        recipe = told["recipe"]
        assert recipe["route"] == "wheel"
        assert recipe["version"] == "0.19.1"
        for step in recipe["steps"]:
            assert set(step) >= {"title", "commands", "why", "check"}
        assert [other["route"] for other in told["beside"]] == ["container", "source"]
        assert all(other["why"] for other in told["beside"])

    def test_without_a_recipe_it_is_null(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert json.loads(called(capsys, "--simulate", "gb10", "--json", "runtime", code=1))["recipe"] is None

    def test_a_refusal_has_a_route_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        told = json.loads(called(capsys, "--simulate", "no-gpu", "--json", "runtime", "--recipe", code=1))
        assert (told["recipe"]["route"], told["recipe"]["steps"]) == ("refuse", [])
        assert told["advice"]

    def test_for_people(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = called(capsys, "--simulate", "gb10", "runtime", "--recipe", "--route", "source", code=1)
        lines = text.splitlines()
        assert "1. Compilers and headers (sudo, network)" in lines
        assert "   $ sudo apt-get update" in lines
        assert "   must not show: EPKciib|No such file" in lines
        assert any(line.startswith("   from here on: LD_PRELOAD=/usr/local/lib") for line in lines)
        assert [
            line.split()[0] for line in lines[lines.index("Other roads (--route):") + 1 :] if line[2] != " "
        ] == [
            "wheel",
            "container",
            "container",
        ]

    def test_offline_names_the_steps_that_need_the_network(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = called(capsys, "--offline", "--simulate", "h200", "runtime", "--recipe", code=1)
        assert "Offline: these steps need the network: 1, 2, 5." in text

    def test_a_model_that_needs_more(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Qwen3-Coder-Next is in vLLM since 0.15.0: a V100 can have it with its last wheel."""
        words = ("--simulate", "v100x10", "--json", "runtime", "--recipe", "--model", "Qwen/Qwen3-Coder-Next")
        assert json.loads(called(capsys, *words, code=1))["recipe"]["version"] == "0.19.1"

    def test_a_road_there_is_none_of(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--simulate", "h200", "runtime", "--recipe", "--route", "source"]) == 2
        assert "container, wheel" in capsys.readouterr().err

    def test_exported(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        file = tmp_path / "install.sh"
        called(capsys, "--simulate", "gb10", "runtime", "--route", "source", "--export", str(file))
        assert os.access(file, os.X_OK)
        assert "--no-build-isolation" in file.read_text()


class TestCarriedOut:
    def test_step_by_step(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        steps = [a_step(name, f"touch {tmp_path}/{name}", check=f"ls {tmp_path}/{name}") for name in "ab"]
        plan_for(monkeypatch, a_recipe(*steps))
        text = called(capsys, "runtime", "--install", "--yes")
        assert "1/2 Step a" in text
        assert f"OK: {tmp_path}/b" in text
        again = called(capsys, "runtime", "--install", "--yes")
        assert "Step a" not in again
        assert "All steps are done." in again
        anew = called(capsys, "runtime", "--install", "--yes", "--from-step", "2")
        assert f"OK, done already: {tmp_path}/b" in anew

    def test_nothing_without_a_yes(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        plan_for(monkeypatch, a_recipe(a_step("a", f"touch {tmp_path}/a", check=f"touch {tmp_path}/looked")))
        assert main(["runtime", "--install"]) == 2
        assert "--yes" in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []

    def test_a_failure_stops_and_shows_the_last_lines(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        steps = (
            a_step("a", "echo the reason", "false", check="false"),
            a_step("b", f"touch {tmp_path}/b", check="false"),
        )
        plan_for(monkeypatch, a_recipe(*steps))
        assert main(["runtime", "--install", "--yes"]) == 1
        told = capsys.readouterr().err.splitlines()
        assert told == ["Step a: ended with exit code 1. What to do.", "  the reason"]
        assert list(tmp_path.iterdir()) == []

    def test_one_event_a_line(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        plan_for(
            monkeypatch, a_recipe(a_step("a", "echo hi", f"touch {tmp_path}/a", check=f"ls {tmp_path}/a"))
        )
        lines = called(capsys, "--json", "runtime", "--install", "--yes").splitlines()
        assert [json.loads(line)["event"] for line in lines] == ["step", "output", "done"]

    def test_a_recorded_machine_is_only_rehearsed(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, own_home: Path
    ) -> None:
        def never(*_given: object, **_named: object) -> bool:
            raise AssertionError("something was run")

        monkeypatch.setattr("wizard.recipe.run_step", never)
        for route in ("wheel", "container", "source"):
            text = called(capsys, "--simulate", "gb10", "runtime", "--route", route, "--install")
            assert text.count("Recorded machine: this step is only shown.") >= 5
        assert list(own_home.iterdir()) == []


class TestWhatItNeeds:
    """The environment of a vLLM that a recipe installed belongs to every probe and start of it."""

    NEEDS: ClassVar = {"LD_PRELOAD": "", "PYTHONNOUSERSITE": "1"}

    def made(self, tmp_path: Path) -> Recipe:
        # Answers like vLLM, but only in the environment of its recipe.
        words = (
            '[ "$PYTHONNOUSERSITE" = 1 ] && echo "vLLM 0.21.0" || { echo "ImportError: numpy" >&2; exit 1; }'
        )
        program = fake(tmp_path / "built", "vllm", words)
        step = a_step("made", f"touch {tmp_path}/a", check=f"ls {tmp_path}/a", env=self.NEEDS)
        recipe = a_recipe(step, command=(str(program),))
        assert run_step(recipe, 0, lambda _event: None, threading.Event(), lambda work: work())
        return recipe

    def test_a_named_one(self, tmp_path: Path) -> None:
        recipe = self.made(tmp_path)
        answers = Answers(runtime=RuntimeAnswers(command=recipe.command))
        found = find_runtime(look_at_machine(Journey(answers=answers), thorough=False))
        assert flow.need(found.runtime).env == self.NEEDS
        assert flow.need(found.runtime).version == "0.21.0"

    def test_one_that_was_found(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        recipe = self.made(tmp_path)
        monkeypatch.setattr("wizard.flow.prepare.find_runtimes", lambda: (probe(recipe.command),))
        found = find_runtime(look_at_machine(Journey(), thorough=False))
        assert flow.need(found.runtime).problem == ""
        assert flow.need(found.runtime).env == self.NEEDS

    def test_taken_by_the_answers(self, tmp_path: Path) -> None:
        taken = take_installed(Journey(), self.made(tmp_path))
        assert taken.answers.runtime.env == self.NEEDS
        assert taken.answers.runtime.command == (str(tmp_path / "built" / "vllm"),)

    def test_another_vllm_gets_nothing_of_it(self, tmp_path: Path) -> None:
        self.made(tmp_path)
        assert needs_of((sys.executable,)) == {}
