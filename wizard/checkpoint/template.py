"""What a chat template makes of a tool call and of a thought: it is rendered, not read."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from importlib import resources
from itertools import takewhile
from pathlib import Path

import msgspec

from wizard.checkpoint.sandbox import MARK
from wizard.child import run_child
from wizard.i18n import _
from wizard.text import one_line

_NAME, _ARGUMENT, _VALUE, _THOUGHT, _PLAIN = (
    "probe_tool",
    "probe_argument",
    "probe_value",
    "probe_thought",
    "~probe answer~",
)
_ARGUMENTS = {_ARGUMENT: _VALUE, "probe_count": 7}
_CALL_ID = "probecall"
"""Nine letters: some templates refuse other lengths."""

_TOOL = {
    "type": "function",
    "function": {
        "name": _NAME,
        "description": "Reads a note.",
        "parameters": {
            "type": "object",
            "properties": {
                _ARGUMENT: {"type": "string", "description": "The note."},
                "probe_count": {"type": "integer", "description": "How many lines."},
            },
            "required": [_ARGUMENT],
        },
    },
}
_USER = {"role": "user", "content": "Please read the note."}
_RESULT = {"role": "tool", "tool_call_id": _CALL_ID, "name": _NAME, "content": "It is empty."}


class RenderedCall(msgspec.Struct, frozen=True):
    """A conversation with a tool call: the whole of it, and the model's turn alone."""

    whole: str
    turn: str


class Rendering(msgspec.Struct, frozen=True, kw_only=True):
    """What a template made of the conversations. All texts are as the template wrote them: not inert."""

    prompt: str = ""
    """Up to where the model goes on, with a tool on offer."""
    calls: tuple[RenderedCall, ...] = ()
    """With the arguments as vLLM hands them over first."""
    thoughts: tuple[str, ...] = ()
    """Whole conversations with a thought before the call."""
    problem: str = ""
    """Why there is nothing, or no call; a whole sentence."""


class _Rendered(msgspec.Struct):
    text: str = ""
    error: str = ""


def render(
    template: str,
    tokens: Mapping[str, str],
    *,
    deadline_s: float = 10.0,
    cancel: threading.Event | None = None,
) -> Rendering:
    """Render the probing conversations in a process of its own, which may take ``deadline_s`` seconds.

    Never raises: a template that fails, loops or grows without end gives a ``problem``.
    """
    calls = tuple(_with_calls())
    thoughts = tuple(_with_thoughts())
    prompt = _conversation(_USER, more=True)
    plain = _conversation(_USER, {"role": "assistant", "content": _PLAIN})
    outcome = _run(template, tokens, (prompt, plain, *calls, *thoughts), deadline_s, cancel)
    if isinstance(outcome, str):
        return Rendering(problem=outcome)
    asked, answered, *rest = outcome
    called, thought = rest[: len(calls)], rest[len(calls) :]
    problem = ""
    if all(one.error for one in called):
        reason = one_line(called[0].error, 200).rstrip(".")
        problem = _("Its chat template cannot write a tool call: {reason}.").format(reason=reason)
    before = answered.text.partition(_PLAIN)[0]
    return Rendering(
        prompt=asked.text,
        calls=tuple(
            RenderedCall(one.text, _turn(one.text, asked.text, before))
            for one in called
            if _VALUE in one.text
        ),
        thoughts=tuple(one.text for one in thought if _THOUGHT in one.text),
        problem=problem,
    )


def fill(signature: str) -> re.Pattern[str]:
    """A signature of the tables as a pattern for what ``render`` returns."""
    arguments = rf'\{{\s*"{_ARGUMENT}"\s*:\s*"{_VALUE}"\s*,\s*"probe_count"\s*:\s*7\s*\}}'
    name, given = rf'"name"\s*:\s*"{_NAME}"', rf'"arguments"\s*:\s*{arguments}'
    # The two in either order, and whatever a format adds, such as the id of the call.
    call = rf"\{{\s*(?:{name}\s*,\s*{given}|{given}\s*,\s*{name})[^}}]*\}}"
    words = {
        "CALL": call,
        "ARGUMENTS": arguments,
        "ARGUMENT": _ARGUMENT,
        "NAME": _NAME,
        "VALUE": _VALUE,
        "THOUGHT": _THOUGHT,
    }
    return re.compile(re.sub(r"\b[A-Z]+\b", lambda word: words.get(word[0], word[0]), signature))


def _with_calls() -> Iterator[dict[str, object]]:
    """vLLM hands templates the arguments as an object; some templates know them only as text."""
    for arguments in (_ARGUMENTS, json.dumps(_ARGUMENTS)):
        for content in ("", None):
            turn = {"role": "assistant", "content": content, "tool_calls": [_call(arguments)]}
            yield _conversation(_USER, turn, _RESULT)
            yield _conversation(_USER, turn)


def _with_thoughts() -> Iterator[dict[str, object]]:
    thought = {"reasoning_content": _THOUGHT, "reasoning": _THOUGHT, "thinking": _THOUGHT}
    called = {"role": "assistant", "content": "", "tool_calls": [_call(_ARGUMENTS)], **thought}
    answered = {"role": "assistant", "content": _PLAIN, **thought}
    yield _conversation(_USER, called, _RESULT)
    yield _conversation(_USER, answered)


def _call(arguments: object) -> dict[str, object]:
    return {"id": _CALL_ID, "type": "function", "function": {"name": _NAME, "arguments": arguments}}


def _conversation(*messages: Mapping[str, object], more: bool = False) -> dict[str, object]:
    return {"messages": messages, "tools": [_TOOL], "add_generation_prompt": more}


def _turn(text: str, prompt: str, before: str) -> str:
    """What the model wrote: what follows the prompt, or where the text parts from a plain answer."""
    if prompt and text.startswith(prompt):
        return text[len(prompt) :]
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(before, text, strict=False))
    return text[sum(1 for _pair in shared) :]


def _run(
    template: str,
    tokens: Mapping[str, str],
    conversations: tuple[dict[str, object], ...],
    deadline_s: float,
    cancel: threading.Event | None,
) -> list[_Rendered] | str:
    """One answer for each conversation, or why there are none."""
    source = (resources.files("wizard.checkpoint") / "sandbox.py").read_text(encoding="utf-8")
    # Templates add these to other text without asking whether there are any.
    variables = {"bos_token": "", "eos_token": "", **tokens}
    job = {"template": template, "variables": variables, "conversations": conversations}
    with tempfile.TemporaryDirectory(prefix="vllm-opencode-") as scratch:
        file = Path(scratch) / "job.json"
        file.write_text(json.dumps(job), encoding="utf-8")
        environ = {**os.environ, "PYTHONSAFEPATH": "1"}
        argv = (sys.executable, "-c", source, str(file), str(max(1, int(deadline_s))))
        outcome = run_child(argv, environ, deadline_s, cancel)
    line = outcome.output.rpartition(MARK)[2]
    try:
        return msgspec.json.decode(line, type=list[_Rendered])
    except msgspec.DecodeError:
        last = one_line(outcome.errors.strip().rpartition("\n")[2], 200)
        reason = outcome.cut_short or last or _("it took too much time or memory")
        return _("Its chat template cannot be rendered: {reason}").format(reason=reason)
