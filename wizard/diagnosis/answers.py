"""Answers of a server, their streams, and smoke reports, put into lines that signatures can be about.

Such a text says what is wrong by its shape: markup in the content beside an empty list of tool calls, an
answer cut by its limit, a check that failed. The lines are ours: ``answer calls=none content: …``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from wizard.logtext import Record
from wizard.text import one_line

_DATA = b"data:"
_TEXT_LIMIT = 2000


class _Answer(msgspec.Struct):
    content: str = ""
    reasoning: str = ""
    finish: str = ""
    calls: int = 0
    seen: bool = False


def answer_lines(text: bytes) -> Iterator[Record]:
    """The lines for one text; none when it is neither an answer, nor a stream, nor a report."""
    stripped = text.strip()
    if stripped.startswith(_DATA) or b"\n" + _DATA in stripped:
        yield from _lines(_streamed(stripped.splitlines()))
    elif stripped.startswith(b"{") and isinstance(document := _decoded(stripped), dict):
        if isinstance(checks := document.get("checks"), list):
            yield from _failed_checks(checks)
        elif isinstance(choices := document.get("choices", [document]), list):
            yield from _lines(_plain(choices))


def verdict_in(text: bytes) -> str | None:
    """What a smoke report says as a whole, such as "pass"; None for any other text.

    The rest of a report quotes errors that the test provokes on purpose.
    """
    stripped = text.strip()
    document = _decoded(stripped) if stripped.startswith(b"{") else None
    if not isinstance(document, dict) or not isinstance(document.get("checks"), list):
        return None
    return _text(document.get("verdict"))


def _decoded(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _streamed(lines: Iterable[bytes]) -> _Answer:
    answer = _Answer()
    for line in lines:
        chunk = _decoded(line[len(_DATA) :].strip()) if line.startswith(_DATA) else None
        if isinstance(chunk, dict) and isinstance(choices := chunk.get("choices"), list):
            for choice in choices:
                _add(answer, choice, "delta")
    return answer


def _plain(choices: list[Any]) -> _Answer:
    answer = _Answer()
    for choice in choices:
        _add(answer, choice, "message")
    return answer


def _add(answer: _Answer, choice: object, key: str) -> None:
    """Add what a choice says; ``message`` may also be the document itself, cut out of an answer."""
    if not isinstance(choice, dict):
        return
    part = choice.get(key, choice)
    if not isinstance(part, dict) or not part.keys() & {
        "content",
        "tool_calls",
        "reasoning",
        "reasoning_content",
    }:
        return
    answer.seen = True
    answer.content += _text(part.get("content"))
    answer.reasoning += _text(part.get("reasoning")) or _text(part.get("reasoning_content"))
    answer.calls += len(part.get("tool_calls") or ())
    answer.finish = _text(choice.get("finish_reason")) or answer.finish


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _lines(answer: _Answer) -> Iterator[Record]:
    if not answer.seen:
        return
    calls = "some" if answer.calls else "none"
    length = "some" if answer.content.strip() else "empty"
    yield _record(f"answer calls={calls} content={length} finish={answer.finish or 'none'}")
    for name, text in (("content", answer.content), ("reasoning", answer.reasoning)):
        if text.strip():
            yield _record(f"answer calls={calls} {name}: {text}")


def _failed_checks(checks: list[Any]) -> Iterator[Record]:
    for check in checks:
        if isinstance(check, dict) and check.get("status") in ("fail", "warn"):
            provoked = check.get("status") == "warn" and not check.get("required")
            told = ("detail", "hint") if provoked else ("detail", "evidence", "hint")
            said = " ".join(_text(check.get(name)) for name in told)
            yield _record(f"check {check.get('status')}ed {check.get('id')}: {said}")


def _record(text: str) -> Record:
    return Record(1, "", "", one_line(text, _TEXT_LIMIT))
