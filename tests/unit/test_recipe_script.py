"""The exported script: valid bash, and run from end to end with stand-ins for what it would install with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from recipes import a_recipe, a_step, fake

from wizard.errors import RefusedError, UsageError
from wizard.flow import find_recipes, look_at_machine, save_script
from wizard.flow.answers import Answers, MachineAnswers, ServeAnswers
from wizard.flow.journey import Journey
from wizard.machine import detect
from wizard.recipe import Offer, Recipe, Tools, offer, pick, tools_of, whole_script

MACHINES = ("a100x4", "gb10", "thor", "v100x10", "wsl-rtx4070")
NO_ADVICE = Offer(kind="test", recipes=(), advice=("Mind $HOME and `this`.",), source="")


def script_of(recipe: Recipe, folder: Path, found: Offer = NO_ADVICE) -> Path:
    file = folder / "install.sh"
    file.write_text(whole_script(recipe, found))
    return file


def play(script: Path, bin: Path | None = None) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}"} if bin else dict(os.environ)
    words = ["bash", str(script)]
    return subprocess.run(words, env=variables, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("tools", [None, Tools(uv=True, engine="podman")], ids=["plain", "uv-podman"])
def test_every_script_is_valid_bash(name: str, tools: Tools | None, tmp_path: Path) -> None:
    machine = detect(name)
    found = offer(machine, tools or tools_of(machine), base=tmp_path / "it's a folder")
    for recipe in found.recipes:
        file = script_of(recipe, tmp_path, found)
        parsed = subprocess.run(["bash", "-n", file], capture_output=True, text=True, check=False)
        assert (parsed.returncode, parsed.stderr) == (0, "")
        text = file.read_text()
        for step in recipe.steps:
            assert f"# {step.why.splitlines()[0]}" in text


def test_the_wheel_from_end_to_end(tmp_path: Path) -> None:
    bin = tmp_path / "bin"
    venv = tmp_path / "home" / "vllm-0.33.0"
    python = f"""
case "$*" in
  *sys.version*) echo "3.12.3 (main)" ;;
  *"pip install vllm==0.33.0"*) echo "pip $*" >>{tmp_path}/done; touch {venv}/vllm ;;
  *flashinfer-cubin*) test -e {venv}/kernels && echo 0.7.2 ;;
  *"m.version('vllm')"*) test -e {venv}/vllm && echo 0.33.0 ;;
  *torch.version.cuda*) echo "13.0 ['sm_90', 'sm_100']" ;;
  *torch.ones*) echo 3 ;;
  *) exit 9 ;;
esac"""
    fake(tmp_path / "parts", "python", python)
    fake(tmp_path / "parts", "vllm", f"echo vllm $* >>{tmp_path}/done; touch {venv}/kernels")
    fake(bin, "python3", f"echo $* >>{tmp_path}/done; mkdir -p $3/bin; cp {tmp_path}/parts/* $3/bin/")
    recipe = offer(detect("h200"), Tools(), base=tmp_path / "home").recipes[0]
    script = script_of(recipe, tmp_path)
    first = play(script, bin)
    assert (first.returncode, first.stderr) == (0, "")
    asked = (tmp_path / "done").read_text().splitlines()
    assert asked == [f"-m venv {venv}", "pip -m pip install vllm==0.33.0", "vllm download-kernels"]
    assert first.stdout.splitlines()[-1] == f"Done. Start it with: {venv}/bin/vllm serve MODEL"
    again = play(script, bin)
    assert again.returncode == 0
    assert again.stdout.count("Done already.") == 3
    assert (tmp_path / "done").read_text().splitlines() == asked


def test_the_first_command_that_fails_ends_it(tmp_path: Path) -> None:
    steps = (
        a_step("one", "false", "true", check=f"test -e {tmp_path}/one"),
        a_step("two", f"touch {tmp_path}/two", check="false"),
    )
    done = play(script_of(a_recipe(*steps), tmp_path))
    assert done.returncode == 1
    assert not (tmp_path / "two").exists()


def test_a_check_that_fails_says_what_to_do(tmp_path: Path) -> None:
    step = a_step("one", "true", check="echo 'it is $5'", expect="^other$", help="It's $HOME.")
    done = play(script_of(a_recipe(step), tmp_path))
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["This did not work: Step one", "It's $HOME.", "it is $5"]


@pytest.mark.parametrize(("output", "passes"), [("good", True), ("good bad", False), ("none", False)])
def test_wanted_and_unwanted(output: str, passes: bool, tmp_path: Path) -> None:
    step = a_step("look", check=f"echo {output}", expect="good", reject="bad")
    assert (play(script_of(a_recipe(step), tmp_path)).returncode == 0) is passes


def test_the_environment_holds_from_its_step_on(tmp_path: Path) -> None:
    steps = (
        a_step("one", "true", check='echo "[$FIRST]"', expect=r"^\[it's\]$", env={"FIRST": "it's"}),
        a_step(
            "two",
            f'cd {tmp_path} && echo "$SECOND" >seen',
            check=f"test -e {tmp_path}/seen",
            env={"FIRST": "it's"},
            result_env={"FIRST": "it's", "SECOND": "2"},
        ),
        a_step("three", check="echo $SECOND", expect="^2$", env={"FIRST": "it's", "SECOND": "2"}),
    )
    done = play(script_of(a_recipe(*steps, command=("/opt/vllm",)), tmp_path))
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == (
        "Done. Start it with: env 'FIRST=it'\"'\"'s' SECOND=2 /opt/vllm serve MODEL"
    )


def test_only_the_two_wrong_lines_are_mended(tmp_path: Path) -> None:
    """The fix of vLLM #36008 on lines of the shape of fused_moe.py: the other uses of the width stay."""
    recipe = pick(offer(detect("v100x10"), Tools(), base=tmp_path), "source")
    file = tmp_path / "vllm-0.21.0-source" / "vllm/model_executor/layers/fused_moe/fused_moe.py"
    file.parent.mkdir(parents=True)
    wrong = "            size_n=B.size(1),\n            num_experts=B.size(1),\n"
    file.write_text(wrong + wrong + "            num_experts=B.size(0),\n    N = B.size(1)\n")
    moe = next(step for step in recipe.steps if step.id == "moe")
    done = play(script_of(a_recipe(moe), tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    right = wrong.replace("num_experts=B.size(1)", "num_experts=B.size(0)")
    assert file.read_text() == right + right + "            num_experts=B.size(0),\n    N = B.size(1)\n"
    assert "Done already." in play(tmp_path / "install.sh").stdout


class TestSaving:
    def at(self, machine: str) -> Journey:
        answers = Answers(machine=MachineAnswers(simulate=machine), serve=ServeAnswers())
        return look_at_machine(Journey(answers=answers), thorough=False)

    def test_it_can_be_run_and_replaced(self, tmp_path: Path) -> None:
        found = find_recipes(self.at("v100x10"))
        file = tmp_path / "install.sh"
        save_script(found.recipes[0], found, file)
        assert file.stat().st_mode & 0o777 == 0o755
        save_script(found.recipes[-1], found, file)
        assert "TORCH_CUDA_ARCH_LIST=7.0" in file.read_text()

    def test_a_file_of_somebody_else_is_left_alone(self, tmp_path: Path) -> None:
        found = find_recipes(self.at("v100x10"))
        file = tmp_path / "mine.sh"
        file.write_text("#!/bin/sh\necho mine\n")
        with pytest.raises(UsageError, match="not a script of this program"):
            save_script(found.recipes[0], found, file)
        assert file.read_text() == "#!/bin/sh\necho mine\n"

    def test_a_refusal_has_no_script(self, tmp_path: Path) -> None:
        found = find_recipes(self.at("no-gpu"))
        with pytest.raises(RefusedError):
            save_script(found.recipes[0], found, tmp_path / "none.sh")
        assert list(tmp_path.iterdir()) == []
