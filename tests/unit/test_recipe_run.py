"""Steps that are really run: proved, failing, cut off, found again, cancelled, with sudo."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from recipes import a_recipe, a_step, at_once, fake, run, written

from wizard.errors import InstallError, RefusedError
from wizard.machine import detect
from wizard.recipe import (
    Recipe,
    RecipeEvent,
    StepDone,
    StepOutput,
    StepStarted,
    Tools,
    installed,
    next_step,
    offer,
    run_step,
    running_step,
    steps_done,
)

DEADLINE_S = 20.0


def until(holds: Callable[[], object]) -> None:
    ends = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < ends, "it did not come to that"
        time.sleep(0.01)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """A pipe that a step reads: it waits there until somebody writes, or the test ends."""
    pipe = tmp_path / "gate"
    os.mkfifo(pipe)
    yield pipe
    with contextlib.suppress(OSError):
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


def waits_for(gate: Path, result: Path) -> Recipe:
    """A step that says hello, waits at the gate and leaves a file."""
    step = a_step(
        "wait",
        "echo hello",
        f"read -r word <{gate}",
        f"echo $word >{result}",
        check=f"cat {result}",
        long=True,
    )
    return a_recipe(step)


class TestOneStep:
    def test_commands_then_check(self, tmp_path: Path) -> None:
        file = tmp_path / "made"
        step = a_step("make", "echo one", f"echo two >{file}", check=f"cat {file}", expect="^two$")
        events = run(a_recipe(step))
        assert isinstance(events[0], StepStarted)
        assert written(events) == ["one"]
        assert events[-1] == StepDone(id="make", evidence="two", before=False)
        assert steps_done(a_recipe(step)) == ("make",)

    def test_what_is_so_already_is_not_done(self, tmp_path: Path) -> None:
        file = tmp_path / "made"
        file.write_text("there\n")
        events = run(a_recipe(a_step("make", f"echo again >{file}", check=f"cat {file}")))
        assert events[-1] == StepDone(id="make", evidence="there", before=True)
        assert file.read_text() == "there\n"

    def test_the_first_command_that_fails_ends_it(self, tmp_path: Path) -> None:
        file = tmp_path / "never"
        recipe = a_recipe(a_step("bad", "echo reason", "(exit 7)", f"touch {file}", check=f"test -e {file}"))
        with pytest.raises(InstallError, match="exit code 7") as failed:
            run(recipe)
        assert failed.value.evidence == ("reason",)
        assert failed.value.hint == "What to do."
        assert not file.exists()
        assert steps_done(recipe) == ()

    def test_a_half_of_a_pipe_that_fails_ends_it(self, tmp_path: Path) -> None:
        recipe = a_recipe(a_step("pipe", "false | cat", check=f"test -e {tmp_path / 'never'}"))
        with pytest.raises(InstallError, match="exit code 1"):
            run(recipe)

    def test_a_check_that_fails_shows_its_last_lines(self) -> None:
        recipe = a_recipe(a_step("odd", "true", check="seq 1 40; echo 12.6", expect=r"^13\."))
        with pytest.raises(InstallError, match="the check did not pass") as failed:
            run(recipe)
        assert failed.value.evidence[-1] == "12.6"
        assert len(failed.value.evidence) == 12
        assert steps_done(recipe) == ()

    @pytest.mark.parametrize(
        ("output", "passes"), [("new", True), ("new and old", False), ("neither", False), ("", False)]
    )
    def test_wanted_and_unwanted(self, output: str, passes: bool) -> None:
        recipe = a_recipe(a_step("look", check=f"echo {output}", expect="new", reject="old"))
        if passes:
            run(recipe)
        else:
            with pytest.raises(InstallError):
                run(recipe)

    def test_its_environment(self, tmp_path: Path) -> None:
        file = tmp_path / "seen"
        step = a_step(
            "env",
            f'echo "$BEFORE/${{AFTER-none}}" >{file}',
            check=f'test -e {file} && echo "$(cat {file})/$AFTER"',
            expect="^it's/none/later$",
            env={"BEFORE": "it's"},
            result_env={"BEFORE": "it's", "AFTER": "later"},
        )
        run(a_recipe(step))

    def test_what_it_writes_is_inert(self, tmp_path: Path) -> None:
        file = tmp_path / "made"
        step = a_step(
            "loud", r"printf '\033[31mred\033[0m\n10%%\r99%%\n'", f"touch {file}", check=f"test -e {file}"
        )
        assert written(run(a_recipe(step))) == ["red", "99%"]

    def test_one_that_takes_too_long_is_stopped(self, gate: Path, tmp_path: Path) -> None:
        step = a_step("slow", f"read -r word <{gate}", check=f"test -e {tmp_path / 'never'}", deadline_s=0.3)
        recipe = a_recipe(step)
        with pytest.raises(InstallError, match="not done after"):
            run(recipe)
        assert running_step(recipe) is None

    def test_one_after_the_other(self, tmp_path: Path) -> None:
        first = a_step("first", f"touch {tmp_path}/1", check=f"test -e {tmp_path}/1")
        second = a_step("second", f"touch {tmp_path}/2", check=f"test -e {tmp_path}/2", env={"KEPT": "1"})
        recipe = a_recipe(first, second, command=("/opt/vllm/bin/vllm",))
        assert next_step(recipe) == 0
        run(recipe, 0)
        assert next_step(recipe) == 1
        assert installed() == ()
        run(recipe, 1)
        assert next_step(recipe) is None
        (put,) = installed()
        assert (put.command, put.env, put.version) == (("/opt/vllm/bin/vllm",), {"KEPT": "1"}, "0.33.0")

    def test_nothing_of_a_recorded_machine_is_run(self, tmp_path: Path) -> None:
        step = a_step("make", f"touch {tmp_path}/made", check=f"touch {tmp_path}/looked")
        with pytest.raises(RefusedError, match="gb10"):
            run(a_recipe(step, machine="gb10"))
        assert list(tmp_path.iterdir()) == []

    def test_offline(self, tmp_path: Path) -> None:
        file = tmp_path / "made"
        recipe = a_recipe(a_step("get", f"touch {file}", check=f"test -e {file}", network=True))
        with pytest.raises(RefusedError, match="network"):
            run(recipe, offline=True)
        assert not file.exists()
        file.touch()
        run(recipe, offline=True)


class TestCutOff:
    def test_cancelled_nothing_is_left(self, gate: Path, tmp_path: Path) -> None:
        recipe = waits_for(gate, tmp_path / "result")
        cancel = threading.Event()

        def tell(event: RecipeEvent) -> None:
            if isinstance(event, StepOutput):
                cancel.set()

        assert run_step(recipe, 0, tell, cancel, at_once) is False
        assert running_step(recipe) is None
        assert not (tmp_path / "result").exists()
        assert steps_done(recipe) == ()

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
    def test_the_wizard_is_gone_and_the_step_goes_on(self, gate: Path, tmp_path: Path, number: int) -> None:
        recipe = waits_for(gate, tmp_path / "result")
        wizard = _wizard_running(recipe)
        wizard.send_signal(number)
        wizard.wait(DEADLINE_S)
        assert running_step(recipe) == 0
        events: list[RecipeEvent] = []
        done = threading.Event()

        def come_back() -> None:
            assert run_step(recipe, 0, events.append, threading.Event(), at_once)
            done.set()

        back = threading.Thread(target=come_back)
        back.start()
        until(lambda: "hello" in written(events))
        gate.write_text("through\n")
        back.join(DEADLINE_S)
        assert done.is_set()
        assert isinstance(events[0], StepStarted)
        assert events[0].resumed
        assert (tmp_path / "result").read_text() == "through\n"
        # Once, not anew by whoever came back.
        assert written(events) == ["hello"]

    def test_the_step_itself_was_killed(self, gate: Path, tmp_path: Path) -> None:
        result = tmp_path / "result"
        recipe = waits_for(gate, result)

        def tell(event: RecipeEvent) -> None:
            if isinstance(event, StepOutput):
                os.killpg(_leader(), signal.SIGKILL)

        with pytest.raises(InstallError, match="ended from outside"):
            run_step(recipe, 0, tell, threading.Event(), at_once)
        assert running_step(recipe) is None
        opened = threading.Thread(target=gate.write_text, args=("again\n",))
        opened.start()
        run(recipe)
        opened.join(DEADLINE_S)
        assert result.read_text() == "again\n"

    def test_the_number_of_a_process_that_is_another_by_now(self, gate: Path, tmp_path: Path) -> None:
        recipe = waits_for(gate, tmp_path / "result")
        wizard = _wizard_running(recipe)
        wizard.kill()
        wizard.wait(DEADLINE_S)
        record = next((_state() / "recipes").glob("*/*.pid"))
        leader, started, boot = record.read_text().split()
        record.write_text(f"{leader} {int(started) + 1} {boot}\n")
        assert running_step(recipe) is None
        record.write_text(f"{leader} {started} another-boot\n")
        assert running_step(recipe) is None
        os.killpg(int(leader), signal.SIGKILL)


class TestSudo:
    """For somebody who is not root; sudo is a stand-in that notes what it was asked."""

    @pytest.fixture(autouse=True)
    def nobody(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        self.asked = tmp_path / "asked"
        bin = tmp_path / "bin"
        fake(bin, "sudo", f'echo "$@" >>{self.asked}\nexec "$@"')
        monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")

    def test_the_terminal_is_handed_over_and_comes_back(self, tmp_path: Path) -> None:
        handed: list[int | None] = []

        def terminal(work: Callable[[], int | None]) -> int | None:
            handed.append(work())
            return handed[-1]

        file = tmp_path / "made"
        recipe = a_recipe(a_step("root", f"sudo touch {file}", check=f"test -e {file}", sudo=True))
        assert run_step(recipe, 0, lambda _event: None, threading.Event(), terminal)
        assert handed == [0]
        assert self.asked.read_text() == f"touch {file}\n"

    def test_a_long_one_goes_on_in_a_session_of_its_own(self, gate: Path, tmp_path: Path) -> None:
        recipe = a_recipe(
            a_step(
                "long",
                "echo hello",
                f"read -r word <{gate}",
                f"sudo touch {tmp_path}/made",
                check=f"test -e {tmp_path}/made",
                sudo=True,
                long=True,
            )
        )
        opened = threading.Thread(target=gate.write_text, args=("go\n",))
        handed: list[int | None] = []

        def terminal(work: Callable[[], int | None]) -> int | None:
            handed.append(work())
            opened.start()
            return handed[-1]

        events: list[RecipeEvent] = []
        assert run_step(recipe, 0, events.append, threading.Event(), terminal)
        opened.join(DEADLINE_S)
        assert handed == [None]
        assert written(events) == ["hello"]
        assert self.asked.read_text().startswith("setsid --fork bash ")

    def test_a_refusal(self, tmp_path: Path) -> None:
        fake(tmp_path / "bin", "sudo", "exit 1")
        recipe = a_recipe(a_step("long", "true", check="false", sudo=True, long=True))
        with pytest.raises(InstallError, match="sudo did not start it"):
            run(recipe)


def test_the_environment_of_the_wheel_is_really_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe's own commands, with the real venv and pip; what pip installs is a stand-in of that name."""
    wheel = tmp_path / "wheels" / "vllm-0.33.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        info = "vllm-0.33.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: vllm\nVersion: 0.33.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    machine = detect("h200")
    made = offer(machine, Tools(), base=tmp_path / "a folder").recipes[0]
    recipe = a_recipe(*made.steps[:2], command=made.command)
    made_venv = run(recipe, 0)[-1]
    assert isinstance(made_venv, StepDone)
    assert made_venv.evidence.split()[0] == platform.python_version()
    assert run(recipe, 1)[-1] == StepDone(id="vllm", evidence="0.33.0", before=False)
    assert run(recipe, 1)[-1] == StepDone(id="vllm", evidence="0.33.0", before=True)
    assert installed()[0].command == (str(tmp_path / "a folder" / "vllm-0.33.0" / "bin" / "vllm"),)


def _state() -> Path:
    return Path(os.environ["HOME"]) / ".local" / "state" / "vllm-opencode"


def _leader() -> int:
    return int(next((_state() / "recipes").glob("*/*.pid")).read_text().split()[0])


def _wizard_running(recipe: Recipe) -> subprocess.Popen[bytes]:
    """A wizard of its own that carries a recipe out, once its step has said hello."""
    program = textwrap.dedent(
        """
        import sys, threading
        import msgspec
        from wizard.recipe import Recipe, StepOutput, run_step
        recipe = msgspec.json.decode(sys.argv[1], type=Recipe)
        tell = lambda event: print("hello", flush=True) if isinstance(event, StepOutput) else None
        run_step(recipe, 0, tell, threading.Event(), lambda work: work())
        """
    )
    words = [sys.executable, "-c", program, msgspec.json.encode(recipe).decode()]
    wizard = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
    assert wizard.stdout is not None
    assert wizard.stdout.readline() == b"hello\n"
    wizard.stdout.close()
    return wizard
