"""Tries every parser of an installed vLLM over a text, in that vLLM's own Python."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import resources

import msgspec

from wizard.catalog import ParserKind, leak_markers
from wizard.child import Outcome
from wizard.i18n import _
from wizard.runtime import Runtime, run_inside
from wizard.smoke.finder.inside import MARK
from wizard.smoke.finder.types import RawText, Trial, Trials
from wizard.smoke.material import Tool, material
from wizard.text import inert, one_line

PARSER_S = 10.0
"""How long one parser may take for both readings."""
_QUIET = {
    # Parsers log whole tracebacks about text they cannot read.
    "VLLM_LOGGING_LEVEL": "CRITICAL",
    # Nothing is asked of the network: not a tokenizer, not a statistic.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What parsers find in the server: its tokenizer, a plugin, what every chat template is handed."""

    checkpoint: str = ""
    trust_remote_code: bool = False
    plugin: str = ""
    template_kwargs: Mapping[str, object] = {}
    """Some reasoning parsers look at it."""


class _Line(msgspec.Struct):
    """A line of ``inside.py``."""

    tokenizer: str = ""
    began: str = ""
    kind: ParserKind = "tool"
    parser: str = ""
    done: bool = False


def try_parsers(
    runtime: Runtime,
    texts: Mapping[ParserKind, RawText],
    tools: Sequence[Tool],
    setting: Setting,
    *,
    deadline_s: float = 180.0,
    cancel: threading.Event | None = None,
) -> Trials:
    """Every parser of the runtime over the text of its kind, whole and streamed, with ``tools`` on offer.

    One child process does it all. One that ends in the middle of a parser, which it does by itself when that
    parser hangs, is started again for the rest. Never raises; takes ``deadline_s`` seconds at most.
    """
    ends = time.monotonic() + deadline_s
    done: dict[tuple[ParserKind, str], Trial] = {}
    tokenizer = ""
    while True:
        job = _job(texts, tools, setting, list(done))
        source = (resources.files("wizard.smoke.finder") / "inside.py").read_text(encoding="utf-8")
        left = max(0.1, ends - time.monotonic())
        outcome = run_inside(runtime, source, (job,), {**os.environ, **_QUIET}, left, cancel)
        if outcome is None:
            return Trials(problem=_("The Python of this vLLM cannot be told: its parsers were not tried."))
        lines = _lines(outcome)
        began = _collect(lines, done)
        tokenizer = next((line.tokenizer for line, _raw in lines if line.tokenizer), tokenizer)
        if any(line.done for line, _raw in lines):
            return Trials(trials=tuple(done.values()), tokenizer=one_line(tokenizer))
        if began is None or outcome.cut_short or began in done:
            return Trials(trials=tuple(done.values()), tokenizer=one_line(tokenizer), problem=_why(outcome))
        done[began] = Trial(kind=began[0], parser=began[1], hung=True)


def _job(
    texts: Mapping[ParserKind, RawText],
    tools: Sequence[Tool],
    setting: Setting,
    skip: Sequence[tuple[ParserKind, str]],
) -> str:
    job = {
        **msgspec.to_builtins(setting),
        "prompt": material().find_task("tool-call").prompt,
        "tools": [{"type": "function", "function": msgspec.to_builtins(tool)} for tool in tools],
        "texts": {kind: {"text": raw.text, "prompt_ids": raw.prompt_ids} for kind, raw in texts.items()},
        "marks": [entry.marker for entry in leak_markers()],
        "seconds": PARSER_S,
        "skip": skip,
    }
    return json.dumps(job, ensure_ascii=False)


def _lines(outcome: Outcome) -> list[tuple[_Line, str]]:
    found = []
    for line in outcome.output.splitlines():
        if line.startswith(MARK):
            raw = line.removeprefix(MARK)
            found.append((msgspec.json.decode(raw, type=_Line), raw))
    return found


def _collect(
    lines: Sequence[tuple[_Line, str]], done: dict[tuple[ParserKind, str], Trial]
) -> tuple[ParserKind, str] | None:
    """Add the trials that came to an end; returns the parser that was begun last and did not."""
    began: tuple[ParserKind, str] | None = None
    for line, raw in lines:
        if line.began:
            began = (line.kind, line.began)
        if line.parser:
            done[line.kind, line.parser] = msgspec.json.decode(raw, type=Trial)
            began = None
    return began


def _why(outcome: Outcome) -> str:
    if outcome.cut_short:
        return outcome.cut_short
    said = [line for line in inert(f"{outcome.output}\n{outcome.errors}").splitlines() if line.strip()]
    words = [line for line in said if not line.startswith(MARK)]
    reason = one_line(words[-1], 200) if words else _("it said nothing")
    return _("Its parsers could not be tried: {reason}").format(reason=reason)
