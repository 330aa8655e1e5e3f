"""One streamed answer with a clock beside it: when tokens came, and how many by then.

Tokens are counted by the server's own usage, never by pieces: a piece may hold several tokens, or none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from wizard.i18n import _
from wizard.text import one_line

if TYPE_CHECKING:
    import httpx

_PATH = "/v1/chat/completions"
_LONGEST_REFUSAL = 64 * 1024
_AT_ONCE_S = 0.0001
"""Pieces nearer to each other lay ready together; no engine writes a stream of 10,000 tokens a second."""


class UnmeasuredError(Exception):
    """No figure could be had; the message says why. ``refused``: the server did not take the request."""

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """When the tokens of one answer came. ``marks`` are (seconds, tokens by then) from the first token on.

    Seconds are those of the monotonic clock. Without marks the server did not say how many tokens came.
    """

    asked: float
    first: float
    marks: tuple[tuple[float, int], ...]
    prompt_tokens: int | None = None
    cached_tokens: int = 0
    """Of the prompt, what the server had in its cache."""

    @property
    def ttft_ms(self) -> float:
        """From the request to the first token."""
        return (self.first - self.asked) * 1000

    @property
    def held_back(self) -> bool:
        """Whether the answer came all at once after its time: then nobody can tell how fast it was written.

        A proxy that buffers does this, and a machine too busy to read in time.
        """
        if len(self.marks) < 2:
            return False
        gaps = [after[0] - before[0] for before, after in pairwise(self.marks)]
        begin, end = self.marks[0][0], self.marks[-1][0]
        return 2 * sum(gap < _AT_ONCE_S for gap in gaps) > len(gaps) and end - begin < begin - self.asked

    def tokens_at(self, moment: float) -> float:
        """Tokens by a moment, in proportion between two marks."""
        before = self.marks[0]
        for mark in self.marks:
            if mark[0] > moment:
                part = (moment - before[0]) / (mark[0] - before[0]) if moment > before[0] else 0.0
                return before[1] + part * (mark[1] - before[1])
            before = mark
        return before[1]


def decode_rate(traces: Sequence[Trace], least_tokens: int) -> float | None:
    """Tokens a second of all these answers together after their first tokens.

    None where too few came to tell, or one of the answers was held back.

    What counts is the time in which all of them were being written; where there was none, the whole time.
    """
    counted = [trace for trace in traces if trace.marks]
    if len(counted) < len(traces) or not counted or any(trace.held_back for trace in counted):
        return None
    begin, end = max(trace.marks[0][0] for trace in counted), min(trace.marks[-1][0] for trace in counted)
    shared = sum(trace.tokens_at(end) - trace.tokens_at(begin) for trace in counted) if end > begin else 0.0
    if shared < least_tokens * len(counted):
        begin, end = min(trace.marks[0][0] for trace in counted), max(trace.marks[-1][0] for trace in counted)
        shared = sum(trace.marks[-1][1] - trace.marks[0][1] for trace in counted)
    return shared / (end - begin) if end > begin and shared >= least_tokens else None


def follow_stream(http: httpx.Client, request: dict[str, object], ends: float) -> Trace:
    """Send a streamed chat request and watch the answer until its end, or until the clock shows ``ends``.

    What has come by then counts; letting go of the answer ends it in the server, too. Raises UnmeasuredError,
    or what httpx raises.
    """
    asked = time.monotonic()
    left = max(ends - asked, 0.001)
    with http.stream("POST", _PATH, json=request, headers={"Connection": "close"}, timeout=left) as response:
        if response.status_code != 200:
            raise _refused(response)
        return watch(response.iter_lines(), asked, ends)


def watch(lines: Iterable[str], asked: float, ends: float) -> Trace:
    """The trace of the lines of a server-sent stream. Raises UnmeasuredError."""
    marks: list[tuple[float, int]] = []
    first = last = None
    usage = _Usage()
    for line in lines:
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            continue
        now, piece = time.monotonic(), _decoded(data)
        usage = piece.usage or usage
        counted = piece.usage is not None and piece.usage.completion_tokens > 0
        if piece.says_something or (counted and piece.choices):
            first, last = first or now, now
        if counted and piece.choices:
            marks.append((now, usage.completion_tokens))
        if now >= ends:
            break
    if first is None or last is None:
        raise UnmeasuredError(_("No token came in time."))
    if not marks and usage.completion_tokens:
        marks = [(first, 1), (last, usage.completion_tokens)]
    return Trace(
        asked=asked,
        first=first,
        marks=tuple(marks),
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=(usage.prompt_tokens_details or _PromptDetails()).cached_tokens or 0,
    )


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    """vLLM sends it with every piece when asked to, and once more at the end."""

    prompt_tokens: int | None = None
    completion_tokens: int = 0
    prompt_tokens_details: _PromptDetails | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[object] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)


class _Piece(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: object = None

    @property
    def says_something(self) -> bool:
        """Whether it carries text; the first piece of an answer only names the role."""
        deltas = (choice.delta for choice in self.choices)
        return any(
            delta.content or delta.reasoning or delta.reasoning_content or delta.tool_calls
            for delta in deltas
        )


def _decoded(data: str) -> _Piece:
    try:
        piece = msgspec.json.decode(data, type=_Piece)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnmeasuredError(
            _("The stream is not what the OpenAI interface promises: {text}").format(text=one_line(data, 80))
        ) from error
    if piece.error is not None:
        raise UnmeasuredError(_("The server ended the stream: {text}").format(text=one_line(data, 120)))
    return piece


def _refused(response: httpx.Response) -> UnmeasuredError:
    body = b""
    for piece in response.iter_bytes():
        body += piece
        if len(body) > _LONGEST_REFUSAL:
            break
    text = _("The server refused the request (HTTP {status}): {text}").format(
        status=response.status_code, text=one_line(body.decode(errors="replace"), 120)
    )
    return UnmeasuredError(text, refused=response.status_code in (400, 422))
