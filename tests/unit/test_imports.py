"""What may be loaded when, proved in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("textual", "httpx", "huggingface_hub", "jsonschema", "typer", "pynvml", "psutil", "rich")


def loaded_after(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_the_version_is_printed_without_anything_heavy() -> None:
    loaded = loaded_after("from wizard.cli import main; assert main(['--version']) == 0")
    assert loaded.isdisjoint(HEAVY)


def test_the_core_never_loads_a_screen() -> None:
    loaded = loaded_after("import wizard.flow")
    assert loaded.isdisjoint({"textual", "screens"})


@pytest.mark.parametrize("module", ["httpx", "jsonschema", "pynvml", "typer", "textual"])
def test_the_core_loads_libraries_only_when_they_are_needed(module: str) -> None:
    assert module not in loaded_after("import wizard.flow")


def test_the_command_line_loads_no_screen_before_the_wizard_opens() -> None:
    loaded = loaded_after("import wizard.cli.commands")
    assert loaded.isdisjoint({"textual", "httpx", "huggingface_hub"})


def test_the_stand_in_server_uses_nothing_of_the_wizard() -> None:
    program = (
        "import sys, wizard.rehearsal.server\n"
        "print(*(name for name in sys.modules if name.startswith('wizard')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    own = [name for name in done.stdout.split() if not name.startswith("wizard.rehearsal")]
    assert own == ["wizard"]
