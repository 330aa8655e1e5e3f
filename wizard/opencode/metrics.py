"""Two counters of a running vLLM: how much it was asked, and how often its tool-call parser found a call."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from wizard.http import client, server_root

_SAMPLE = re.compile(
    r"^vllm:(?P<name>request_success_total|tool_call_parser_invocations_total)"
    r"(?:\{(?P<labels>[^}]*)\})? +(?P<value>[0-9.eE+]+)",
    re.MULTILINE,
)


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """What ``/metrics`` says at one moment; None where the server does not count it.

    ``requests`` are the answered ones. ``tool_calls`` (vLLM 0.24 and later) grows once an answer, and once a
    piece of a streamed one. The parsers of some families (gpt-oss in vLLM 0.32) never touch it, so that it
    stands still proves nothing.
    """

    requests: int | None = None
    tool_calls: int | None = None

    def since(self, earlier: Counters, name: Literal["requests", "tool_calls"]) -> int | None:
        """By how much a counter grew, or None when it is not known."""
        now, then = getattr(self, name), getattr(earlier, name)
        return None if now is None or then is None else max(0, int(now) - int(then))


def read_counters(base_url: str, timeout_s: float = 5.0) -> Counters:
    """The counters of the server now. A server that cannot be asked has none: that is no error here."""
    import httpx

    try:
        with client(server_root(base_url), timeout_s=timeout_s) as server:
            answer = server.get("/metrics")
            text = answer.text if answer.status_code == httpx.codes.OK else ""
    except httpx.HTTPError:
        text = ""
    return counters_in(text)


def counters_in(page: str) -> Counters:
    """The counters in a page of metrics."""
    requests: int | None = None
    tool_calls: int | None = None
    for sample in _SAMPLE.finditer(page):
        value = int(float(sample["value"]))
        if sample["name"] == "request_success_total":
            requests = (requests or 0) + value
        elif 'outcome="tool_call"' in (sample["labels"] or ""):
            tool_calls = (tool_calls or 0) + value
    return Counters(requests=requests, tool_calls=tool_calls)
