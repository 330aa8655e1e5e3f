"""Which Python runs a vLLM that is called by some command, and which environment it belongs to."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PYTHON = re.compile(r"python[\d.]*$")
_SHEBANG_LIMIT = 4096


def interpreter_of(command: Sequence[str], variables: Mapping[str, str]) -> Path | None:
    """The Python that runs this command's vLLM; None when the command is something else that hides it."""
    program = Path(command[0])
    if _PYTHON.match(program.name):
        runs_vllm = len(command) > 2 and command[1] == "-m" and command[2].split(".")[0] == "vllm"
        return program if runs_vllm else None
    if len(command) > 1:
        return None
    try:
        with program.open("rb") as file:
            head = file.read(_SHEBANG_LIMIT)
    except OSError:
        return None
    if not head.startswith(b"#!"):
        return _sibling(program)
    return _from_shebang(head.decode("utf-8", errors="replace"), variables)


def environment_of(python: Path) -> Path | None:
    """The folder of the virtual or conda environment a Python belongs to; None: it is outside of any."""
    folder = python.parent.parent
    marked = (folder / "pyvenv.cfg").exists() or (folder / "conda-meta").is_dir()
    return folder if marked else None


def _from_shebang(head: str, variables: Mapping[str, str]) -> Path | None:
    """The Python a script names: directly, through ``env``, or in the second line where the path is long."""
    lines = head.splitlines()
    words = lines[0][2:].split()
    if words and Path(words[0]).name == "env":
        name = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
        found = shutil.which(name, path=variables.get("PATH")) if _PYTHON.match(Path(name).name) else None
        return Path(found) if found else None
    long_path = re.match(r"'''exec' \"?(?P<python>[^\"]+?)\"? \"\$0\"", lines[1]) if len(lines) > 1 else None
    python = Path(long_path["python"] if long_path else lines[0][2:].strip().split(" -")[0])
    return python if _PYTHON.match(python.name) and python.exists() else None


def _sibling(program: Path) -> Path | None:
    """The Python beside a program that is no script, as some installers make their launchers."""
    name = "python.exe" if sys.platform == "win32" else "python"
    python = program.with_name(name)
    return python if python.exists() else None
