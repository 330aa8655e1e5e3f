"""Asks an installed vLLM about itself: which version, which parsers, which options."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path

import msgspec
from packaging.version import Version

from wizard.catalog import reached, vllm_facts
from wizard.child import Outcome, run_child
from wizard.i18n import _
from wizard.runtime.containers import ask_image, image_of, named_image, version_of
from wizard.runtime.inside import MARK
from wizard.runtime.interpreter import environment_of, interpreter_of
from wizard.runtime.types import Runtime, RuntimeKind
from wizard.text import inert, one_line

_VERSION = re.compile(r"\b\d+\.\d+[\w.+-]*")
_REHEARSAL = "wizard.rehearsal"


class _Answer(msgspec.Struct):
    """A line of ``inside.py``."""

    version: str | None = None
    torch: str | None = None
    cuda: str | None = None
    cpu_build: bool = False
    arch_list: tuple[str, ...] = ()
    tool_parsers: tuple[str, ...] = ()
    reasoning_parsers: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    choices: Mapping[str, tuple[str, ...]] = {}
    variables: tuple[str, ...] = ()
    attention_backends: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    shadowed_by: str = ""
    problem: str = ""


def probe(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    deadline_s: float = 90.0,
    cancel: threading.Event | None = None,
) -> Runtime:
    """The vLLM that ``command`` starts, asked in its own Python with ``env`` added to the environment.

    A command that is no Python program, such as a wrapper script, is only asked for ``--version``; an image
    that docker or podman has here is asked inside a container of its own. Never raises: what went wrong is
    the ``problem`` of the result, with whatever was learnt before. Takes ``deadline_s`` seconds at most and
    leaves nothing running.
    """
    added = dict(env or {})
    variables = {**os.environ, "NO_COLOR": "1", "PYTHONSAFEPATH": "1", **added}
    whole = _whole(command, variables, cancel)
    if whole is None:
        name = one_line(command[0], 200) if command else "vllm"
        problem = _("There is no program or container image {name}.").format(name=name)
        return Runtime(kind="command", path=name, command=tuple(command), env=added, problem=problem)
    python = interpreter_of(whole, variables)
    source = (resources.files("wizard.runtime") / "inside.py").read_text(encoding="utf-8")
    if image_of(whole) is not None:
        answer = _answer_of_python(ask_image(whole, source, variables, added, deadline_s, cancel))
    elif python is not None:
        answer = _answer_of_python(run_child((str(python), "-c", source), variables, deadline_s, cancel))
    else:
        answer = _answer_of_wrapper(run_child((*whole, "--version"), variables, deadline_s, cancel))
    return _runtime(answer, whole, python, added)


def _whole(
    command: Sequence[str], variables: Mapping[str, str], cancel: threading.Event | None
) -> tuple[str, ...] | None:
    """The call with its program in full; a lone name that is no program may be one of a container image."""
    program = shutil.which(command[0], path=variables.get("PATH")) if command else None
    if program is not None:
        return (program, *command[1:])
    return named_image(command[0], cancel) if len(command) == 1 else None


def _runtime(
    answer: _Answer, command: tuple[str, ...], python: Path | None, env: Mapping[str, str]
) -> Runtime:
    """The answer as a runtime. Whatever an installation says about itself is made inert."""
    kind, path = _place(command, python)
    version = one_line(answer.version, 60) if answer.version else None
    if version is None and kind == "container":
        version = version_of(path)
    return Runtime(
        kind=kind,
        path=path,
        command=command,
        env=env,
        version=version,
        torch=one_line(answer.torch, 60) if answer.torch else None,
        cuda=one_line(answer.cuda, 60) if answer.cuda else None,
        cpu_build=answer.cpu_build,
        arch_list=_plain(answer.arch_list),
        tool_parsers=_plain(answer.tool_parsers),
        reasoning_parsers=_plain(answer.reasoning_parsers),
        flags=_plain(answer.flags),
        choices={one_line(name): _plain(values) for name, values in answer.choices.items()},
        variables=_plain(answer.variables),
        attention_backends=_plain(answer.attention_backends),
        plugins=_plain(answer.plugins),
        notes=tuple(_notes(answer)),
        problem=_too_old(version) or one_line(answer.problem),
    )


def _plain(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(one_line(name) for name in names)


def _notes(answer: _Answer) -> Iterator[str]:
    if answer.shadowed_by:
        yield _("Another package hides the installed vLLM: Python imports the one in {folder}.").format(
            folder=one_line(answer.shadowed_by)
        )
    if answer.tool_parsers and not answer.flags:
        yield _("It did not tell its options: a plan's options are checked against the tables.")


def _too_old(version: str | None) -> str:
    """Why this version cannot be taken; empty when it can. A build from source may carry no real version."""
    floor = vllm_facts().support_floor
    if version is None or reached(version, floor) or Version(version).is_devrelease:
        return ""
    return _("vLLM {version} is too old: {floor} is the oldest one that can be set up here.").format(
        version=version, floor=floor
    )


def _place(command: tuple[str, ...], python: Path | None) -> tuple[RuntimeKind, str]:
    if _REHEARSAL in command:
        return "rehearsal", command[0]
    if (image := image_of(command)) is not None:
        return "container", one_line(image)
    if python is None:
        return "command", command[0]
    folder = environment_of(python)
    if folder is None:
        return "system", str(python)
    return "conda" if (folder / "conda-meta").is_dir() else "venv", str(folder)


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
