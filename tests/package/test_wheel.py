"""The wheel: exactly our three packages with all their data, and it works where nothing else of ours is.

Not part of a plain `pytest`: it builds and installs, which takes a minute and the package index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("wizard", "screens", "assets")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (built,) = folder.glob("*.whl")
    return built


def tracked_files() -> set[str]:
    """What git tracks of the three packages."""
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, check=True, capture_output=True, text=True, timeout=30
    )
    return set(listed.stdout.splitlines())


def test_it_holds_exactly_the_tracked_files_of_the_three_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == tracked_files()
    assert {name.partition("/")[0] for name in names} == set(PACKAGES)


def test_it_is_named_as_published(wheel: Path) -> None:
    assert wheel.name.startswith("vllm_opencode_wizard-")


def test_the_installed_command_goes_the_whole_rehearsed_way(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    program = environment / "bin"
    install = [str(program / "pip"), "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run(install, check=True, timeout=600)
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        [str(program / "vllm-opencode"), "--simulate", "gb10", "setup", "--yes"],
        cwd=tmp_path,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "qwen3-coder-next-fp8" in done.stdout
    assert list(tmp_path.glob("vllm-opencode-rehearsal-*/opencode/opencode.json"))
