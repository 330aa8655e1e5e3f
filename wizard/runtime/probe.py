"""Asks an installed vLLM about itself: which version, which parsers, which options."""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import msgspec

from wizard.child import Outcome, run_child
from wizard.i18n import _
from wizard.runtime.inside import MARK
from wizard.runtime.types import Runtime, RuntimeKind
from wizard.text import inert, one_line

_VERSION = re.compile(r"\b\d+\.\d+[\w.+-]*")
_PYTHON = re.compile(r"python[\d.]*$")
_REHEARSAL = "wizard.rehearsal"
_SHEBANG_LIMIT = 4096


class _Answer(msgspec.Struct):
    """A line of ``inside.py``."""

    version: str | None = None
    torch: str | None = None
    cuda: str | None = None
    cpu_build: bool = False
    tool_parsers: tuple[str, ...] = ()
    reasoning_parsers: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    problem: str = ""


def probe(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    deadline_s: float = 90.0,
    cancel: threading.Event | None = None,
) -> Runtime:
    """The vLLM that ``command`` starts, asked in its own Python with ``env`` added to the environment.

    A command that is no Python program, such as a wrapper script, is only asked for ``--version``. Never
    raises: what went wrong is the ``problem`` of the result, with whatever was learnt before. Takes
    ``deadline_s`` seconds at most and leaves nothing running.
    """
    added = dict(env or {})
    variables = {**os.environ, "NO_COLOR": "1", "PYTHONSAFEPATH": "1", **added}
    program = shutil.which(command[0], path=variables.get("PATH")) if command else None
    if program is None:
        name = one_line(command[0], 200) if command else "vllm"
        problem = _("There is no program {program}.").format(program=name)
        return Runtime(kind="command", path=name, command=tuple(command), env=added, problem=problem)
    whole = (program, *command[1:])
    python = interpreter_of(whole, variables)
    if python is None:
        outcome = run_child((*whole, "--version"), variables, deadline_s, cancel)
        answer = _answer_of_wrapper(outcome)
    else:
        source = (resources.files("wizard.runtime") / "inside.py").read_text(encoding="utf-8")
        outcome = run_child((str(python), "-c", source), variables, deadline_s, cancel)
        answer = _answer_of_python(outcome)
    kind, path = _place(whole, python)
    return Runtime(
        kind=kind,
        path=path,
        command=whole,
        env=added,
        version=answer.version,
        torch=answer.torch,
        cuda=answer.cuda,
        cpu_build=answer.cpu_build,
        tool_parsers=answer.tool_parsers,
        reasoning_parsers=answer.reasoning_parsers,
        flags=answer.flags,
        problem=one_line(answer.problem),
    )


def interpreter_of(command: Sequence[str], variables: Mapping[str, str]) -> Path | None:
    """The Python that runs this command's vLLM; None when the command is something else that hides it."""
    program = Path(command[0])
    if _PYTHON.match(program.name):
        runs_vllm = len(command) > 2 and command[1] == "-m" and command[2].split(".")[0] == "vllm"
        return program if runs_vllm else None
    if len(command) > 1:
        return None
    with program.open("rb") as file:
        head = file.read(_SHEBANG_LIMIT)
    if not head.startswith(b"#!"):
        return _sibling(program)
    return _from_shebang(head.decode("utf-8", errors="replace"), variables)


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


def _place(command: tuple[str, ...], python: Path | None) -> tuple[RuntimeKind, str]:
    if _REHEARSAL in command:
        return "rehearsal", command[0]
    if python is not None and (python.parent.parent / "pyvenv.cfg").exists():
        return "venv", str(python.parent.parent)
    return "command", command[0]


def _answer_of_python(outcome: Outcome) -> _Answer:
    told = [line.removeprefix(MARK) for line in outcome.output.splitlines() if line.startswith(MARK)]
    try:
        answer = msgspec.json.decode(told[-1], type=_Answer) if told else _Answer()
    except msgspec.DecodeError:
        answer = _Answer()
    if outcome.cut_short:
        return msgspec.structs.replace(answer, problem=outcome.cut_short)
    if answer.problem:
        return answer
    if not told or outcome.code != 0:
        return msgspec.structs.replace(answer, problem=_last_word(outcome))
    if answer.version is None:
        return msgspec.structs.replace(answer, problem=_("vLLM is not installed in this Python."))
    return answer


def _answer_of_wrapper(outcome: Outcome) -> _Answer:
    if outcome.cut_short:
        return _Answer(problem=outcome.cut_short)
    found = _VERSION.findall(inert(outcome.output))
    if outcome.code != 0 or not found:
        return _Answer(problem=_last_word(outcome))
    return _Answer(version=found[-1])


def _last_word(outcome: Outcome) -> str:
    lines = [line for line in inert(f"{outcome.output}\n{outcome.errors}").splitlines() if line.strip()]
    if lines:
        return lines[-1].strip()
    return _("It ended with exit code {code} and said nothing.").format(code=outcome.code)
