"""The command line, read as ``vllm serve`` would be: what is not needed is accepted and ignored."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass

from wizard.rehearsal.faults import Fault, read_data, table

_TOKENS_PER_SECOND = 60.0
"""The pace of answers when none is asked for and the start has one."""
_EAGER_SHARE = 0.82
"""What is left of the pace with --enforce-eager: it costs 15 to 20 %."""
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True)
class Options:
    """One start of the stand-in. ``window`` is in tokens, ``pace_s`` the seconds of the whole start."""

    model: str
    served_names: tuple[str, ...]
    host: str
    port: int
    window: int
    tool_parser: str | None
    auto_tools: bool
    api_keys: tuple[str, ...]
    fault: Fault | None
    pace_s: float
    tokens_per_second: float
    """Of each answer, however many there are at once; 0: as fast as can be."""
    with_parent: bool
    """End when the process that started it is gone."""
    arguments: dict[str, object]
    """What was given, keys hidden, as vLLM prints it."""


def parse(argv: list[str]) -> Options:
    """The options in ``argv``; a call that makes no sense ends the process with code 2, as vLLM's does."""
    known, _ignored = _parser().parse_known_args(argv)
    model = known.model_tag or known.model
    fault = table().get(known.rehearsal_fault)
    if fault is not None and fault.cure_flag in argv:
        fault = None
    given = {
        "model": model,
        "host": known.host,
        "port": known.port,
        "served_model_name": known.served_model_name,
        "max_model_len": known.max_model_len,
        "tool_call_parser": known.tool_call_parser,
        "enable_auto_tool_choice": known.enable_auto_tool_choice,
        "api_key": "***" if known.api_key else None,
    }
    environment_key = os.environ.get("VLLM_API_KEY")
    return Options(
        model=model,
        served_names=tuple(known.served_model_name or [model]),
        host=known.host,
        port=known.port,
        window=max(1, known.max_model_len or known.rehearsal_window),
        tool_parser=known.tool_call_parser,
        auto_tools=known.enable_auto_tool_choice,
        api_keys=tuple(known.api_key or ([environment_key] if environment_key else [])),
        fault=fault,
        pace_s=max(0.0, known.rehearsal_pace),
        tokens_per_second=_pace(known.rehearsal_tokens_per_second, known.rehearsal_pace, known.enforce_eager),
        with_parent=known.rehearsal_with_parent,
        arguments={name: value for name, value in given.items() if value},
    )


def _pace(wished: float | None, start_s: float, eager: bool) -> float:
    """How fast answers are written; without CUDA graphs more slowly, as on a GPU."""
    usual = _TOKENS_PER_SECOND if start_s > 0 else 0.0
    return max(0.0, usual if wished is None else wished) * (_EAGER_SHARE if eager else 1.0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m wizard.rehearsal",
        description="A stand-in for vLLM: same calls, same answers, no model.",
        allow_abbrev=False,
    )
    version = read_data("start.toml")["version"]
    parser.add_argument("--version", action="version", version=f"{version}+rehearsal")
    parser.add_argument("action", choices=["serve"])
    parser.add_argument("model_tag", nargs="?", metavar="MODEL")
    parser.add_argument("--model", default="rehearsal")
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--max-model-len", type=_window, help="tokens, with k or K as vLLM reads them, or auto"
    )
    parser.add_argument("--tool-call-parser")
    parser.add_argument("--enable-auto-tool-choice", action="store_true")
    parser.add_argument("--api-key", nargs="+")
    parser.add_argument("--enforce-eager", action="store_true")
    parser.add_argument("--rehearsal-fault", choices=sorted(table()), help="what shall go wrong")
    parser.add_argument("--rehearsal-pace", type=float, default=2.0, help="seconds the start takes")
    parser.add_argument("--rehearsal-tokens-per-second", type=float, help="how fast answers are written")
    parser.add_argument("--rehearsal-with-parent", action="store_true", help="end with the starter")
    parser.add_argument("--rehearsal-window", type=int, default=65536, help="what auto finds, tokens")
    return parser


def _window(text: str) -> int:
    """A token count as vLLM reads it (65k is 65,000, 64K is 65,536); 0 stands for ``auto``."""
    if text in ("auto", "-1"):
        return 0
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgKMG]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"invalid value: {text!r}")
    return int(float(match[1]) * _UNITS[match[2]])
