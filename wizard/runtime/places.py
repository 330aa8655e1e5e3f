"""Where an installed vLLM may be: environments, tools, PATH, and Pythons outside of any environment."""

from __future__ import annotations

import glob
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

from wizard.catalog import runtime_facts
from wizard.child import run_child
from wizard.runtime.interpreter import environment_of, interpreter_of

_PYTHON = re.compile(r"python3(\.\d+)?$")
_WHERE = (
    "import sys; sys.path[:] = [place for place in sys.path if place]\n"
    "from importlib.util import find_spec; print(getattr(find_spec('vllm'), 'origin', None) or '')"
)
_DEADLINE_S = 10.0
_PACKAGE = "lib/python3*/site-packages/vllm/__init__.py"


def installed_commands(cancel: threading.Event | None = None) -> Iterator[tuple[str, ...]]:
    """How each vLLM that seems installed is called, the active environment and PATH first, none twice."""
    seen: set[Path] = set()
    outside = _Outside(cancel)
    for command in (*_switched_on(), *_on_path("vllm"), *_elsewhere()):
        place = _home_of(command, outside)
        if place not in seen:
            seen.add(place)
            yield command
    for (python,) in _on_path("python3", "python3.*"):
        if not _PYTHON.match(Path(python).name) or environment_of(Path(python)) is not None:
            continue
        package = outside.package_of(Path(python))
        if package is not None and package not in seen:
            seen.add(package)
            yield (python, "-m", runtime_facts().command.module)


class _Outside:
    """Asks Pythons outside of any environment where their vLLM lies, each one once: several may share it."""

    def __init__(self, cancel: threading.Event | None) -> None:
        self._cancel = cancel
        self._told: dict[Path, Path | None] = {}

    def package_of(self, python: Path) -> Path | None:
        """The file vLLM is imported from; None where it is not installed."""
        known = python.resolve()
        if known not in self._told:
            asked = run_child((str(python), "-c", _WHERE), os.environ, _DEADLINE_S, self._cancel)
            lines = asked.output.split("\n")
            self._told[known] = Path(lines[0]).resolve() if asked.code == 0 and lines[0] else None
        return self._told[known]


def _home_of(command: tuple[str, ...], outside: _Outside) -> Path:
    """What makes two calls the same vLLM: the environment, outside of one the package, else the program."""
    python = interpreter_of(command, os.environ)
    if python is None:
        return Path(command[0]).resolve()
    environment = environment_of(python)
    if environment is not None:
        return environment.resolve()
    return outside.package_of(python) or Path(command[0]).resolve()


def _on_path(*patterns: str) -> Iterator[tuple[str, ...]]:
    """The programs of PATH with such a name, in its order."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for pattern in patterns if folder else ():
            for program in sorted(_matches(f"{glob.escape(folder)}/{pattern}")):
                if _can_run(Path(program)):
                    yield (str(Path(program).absolute()),)


def _switched_on() -> Iterator[tuple[str, ...]]:
    """The environment that is switched on in this shell."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if folder := os.environ.get(name):
            yield from _in_environment(Path(folder))


def _elsewhere() -> Iterator[tuple[str, ...]]:
    facts = runtime_facts()
    for place in facts.places:
        yield from _below(place)
    yield from _of_conda()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    for tools in facts.tools:
        moved = os.environ.get(tools.variable)
        folder = f"{moved}/{tools.inside}" if moved else tools.folder.format(data=data)
        yield from _below(f"{folder}/*")


def _of_conda() -> Iterator[tuple[str, ...]]:
    """The environments conda, mamba and micromamba made, as far as they say where."""
    facts = runtime_facts()
    try:
        listed = Path(_at_home(facts.conda_list)).read_text(encoding="utf-8", errors="replace")
    except OSError:
        listed = ""
    for line in listed.splitlines():
        if line.startswith("/"):
            yield from _in_environment(Path(line.strip()))
    for name in ("CONDA_ENVS_PATH", "CONDA_ENVS_DIRS"):
        for folder in os.environ.get(name, "").split(os.pathsep):
            yield from _below(f"{folder}/*") if folder else ()
    roots = [*facts.conda_roots, os.environ.get("MAMBA_ROOT_PREFIX", "")]
    if program := os.environ.get("CONDA_EXE"):
        roots.append(str(Path(program).parent.parent))
    for root in filter(None, roots):
        yield from _below(root)
        yield from _below(f"{root}/envs/*")


def _below(pattern: str) -> Iterator[tuple[str, ...]]:
    """Those of the environments whose folder has such a name; hidden ones only where the name says so."""
    for folder in sorted(_matches(_at_home(pattern))):
        yield from _in_environment(Path(folder))


def _in_environment(folder: Path) -> Iterator[tuple[str, ...]]:
    """The vLLM of an environment: its program, else its Python where the package lies beside it."""
    program, python = folder / "bin" / "vllm", folder / "bin" / "python"
    if _can_run(program):
        yield (str(program.absolute()),)
    elif _can_run(python) and _matches(f"{glob.escape(str(folder))}/{_PACKAGE}"):
        yield (str(python.absolute()), "-m", runtime_facts().command.module)


def _can_run(program: Path) -> bool:
    return os.access(program, os.X_OK) and program.is_file()


def _matches(pattern: str) -> list[str]:
    return glob.glob(pattern)  # noqa: PTH207 - pathlib's takes hidden names for any name


def _at_home(place: str) -> str:
    return os.path.expanduser(place)  # noqa: PTH111 - pathlib's raises where there is no home
