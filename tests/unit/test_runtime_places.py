"""Finding an installed vLLM: real environments laid out as venv, conda, uv, pipx and pip lay them out."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from environments import Environment

from wizard import catalog
from wizard.runtime import find_runtimes
from wizard.runtime.places import installed_commands

NO_ENVIRONMENT = ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_EXE", "CONDA_ENVS_PATH", "CONDA_ENVS_DIRS")
MOVED = ("MAMBA_ROOT_PREFIX", "UV_TOOL_DIR", "PIPX_HOME", "PIPX_GLOBAL_HOME")


@pytest.fixture(autouse=True)
def home(own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is switched on, and nothing outside of the home is looked at."""
    for name in (*NO_ENVIRONMENT, *MOVED):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.chdir(own_home)
    facts = catalog.runtime_facts()
    inside = [place for place in facts.places if not place.startswith("/")]
    roots = [place for place in facts.conda_roots if not place.startswith("/")]
    tools = [tool for tool in facts.tools if not tool.folder.startswith("/")]
    changed = msgspec.structs.replace(
        facts, places=tuple(inside), conda_roots=tuple(roots), tools=tuple(tools)
    )
    monkeypatch.setattr("wizard.runtime.places.runtime_facts", lambda: changed)
    return own_home


def found() -> list[str]:
    return [" ".join(command) for command in installed_commands()]


@pytest.mark.parametrize(
    "place",
    [
        ".venv",
        "venv",
        "vllm",
        "vllm/.venv",
        "projects/venv",
        ".virtualenvs/serving",
        "venvs/serving",
        "miniconda3",
        "miniforge3/envs/serving",
        "micromamba/envs/serving",
        ".local/share/uv/tools/vllm",
        ".local/share/pipx/venvs/vllm",
        ".local/pipx/venvs/vllm",
    ],
)
def test_an_environment_in_a_usual_place(home: Path, place: str) -> None:
    environment = Environment(home / place)
    assert found() == [str(environment.program)]


def test_a_home_that_holds_none(home: Path) -> None:
    (home / ".hidden" / "bin").mkdir(parents=True)
    (home / "vllm" / "bin").mkdir(parents=True)
    (home / "vllm" / "bin" / "vllm").write_text("no program")
    assert found() == []


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_the_environment_switched_on_comes_first(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    other, active = Environment(home / "venv"), Environment(tmp_path / "active")
    monkeypatch.setenv(variable, str(active.home))
    assert found() == [str(active.program), str(other.program)]


@pytest.mark.parametrize(
    ("variable", "value", "place"),
    [
        ("UV_TOOL_DIR", "tools", "tools/vllm"),
        ("PIPX_HOME", "pipx", "pipx/venvs/vllm"),
        ("XDG_DATA_HOME", "data", "data/uv/tools/vllm"),
        ("CONDA_ENVS_PATH", "envs", "envs/serving"),
        ("CONDA_ENVS_DIRS", "none:{tmp}/envs", "envs/serving"),
        ("MAMBA_ROOT_PREFIX", "mamba", "mamba/envs/serving"),
        ("CONDA_EXE", "conda/bin/conda", "conda/envs/serving"),
    ],
)
def test_a_folder_that_a_variable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, place: str
) -> None:
    environment = Environment(tmp_path / place)
    monkeypatch.setenv(variable, f"{tmp_path}/{value.format(tmp=tmp_path)}")
    assert found() == [str(environment.program)]


def test_an_environment_conda_remembers(home: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "far" / "away", conda=True)
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text(f"/no/longer/there\n\n{environment.home}\nrelative\n")
    environment.distribution("vllm", "0.33.0")
    assert found() == [str(environment.program)]
    (runtime,) = find_runtimes()
    assert (runtime.kind, runtime.path, runtime.version) == ("conda", str(environment.home), "0.33.0")


def test_one_environment_reached_in_many_ways_is_one(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = Environment(home / "vllm")
    (home / "venv").symlink_to(environment.home)
    (home / "scripts").mkdir()
    (home / "scripts" / "vllm").symlink_to(environment.program)
    monkeypatch.setenv("VIRTUAL_ENV", str(environment.home))
    monkeypatch.setenv("PATH", f"{home}/scripts{os.pathsep}{environment.home}/bin")
    assert found() == [str(environment.program)]


def test_a_package_without_its_program_is_called_by_its_module(home: Path) -> None:
    environment = Environment(home / "venv")
    environment.program.unlink()
    assert found() == []
    environment.module("vllm", "")
    assert found() == [f"{environment.python} -m vllm.entrypoints.cli.main"]


def test_a_vllm_that_pip_put_into_the_users_own_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = Path(sys.executable).resolve()
    site = (
        home / ".local" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    )
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to(python)
    (folder / "python3-config").symlink_to(python)
    shim = folder / "python3.11"
    shim.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    assert found() == []
    (site / "vllm").mkdir(parents=True)
    (site / "vllm" / "__init__.py").write_text("")
    called = f"{folder}/python3 -m vllm.entrypoints.cli.main"
    assert found() == [called]
    (home / ".local" / "bin").mkdir()
    program = home / ".local" / "bin" / "vllm"
    program.write_text(f"#!{folder}/python3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{program.parent}")
    assert found() == [str(program)]
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    program.unlink()
    assert found() == []


def test_a_cancel_ends_the_search_of_pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    slow = folder / "python3"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.defpath}")
    cancel = threading.Event()
    cancel.set()
    assert str(slow) not in {command[0] for command in installed_commands(cancel)}
