"""The speed that is measured from outside agrees with what the real vLLM counts of itself."""

from __future__ import annotations

import threading
import time

import httpx
import pytest
from serving import HERMES, RunningServer

from wizard.serve import probe_server
from wizard.smoke import measure_speed
from wizard.smoke.pace import decode_rate, follow_stream

TOKENS = 1500
"""Enough for what passes between the first token and its arrival not to count."""
ATTEMPTS = 3
"""A machine that is busy with another test may hold an answer back, which is told and then not measured."""
LONG = "the " * 10_000
"""A prompt that takes much longer to read than the way to the server and back."""

pytestmark = pytest.mark.parametrize("pairing", [HERMES], indirect=True, ids=str)


def counters(running: RunningServer) -> dict[str, float]:
    """vLLM's own sums by their names without labels."""
    root = running.base_url.removesuffix("/v1")
    page = httpx.get(f"{root}/metrics", trust_env=False, timeout=10).text
    found: dict[str, float] = {}
    for line in page.splitlines():
        if line.startswith("vllm:"):
            name, _, value = line.rpartition(" ")
            name = name.partition("{")[0]
            found[name] = found.get(name, 0.0) + float(value)
    return found


def difference(after: dict[str, float], before: dict[str, float], name: str) -> float:
    return after[name] - before.get(name, 0.0)


def test_one_stream_agrees_with_vllms_own_counters(running: RunningServer) -> None:
    request: dict[str, object] = {
        "model": "tiny",
        "messages": [{"role": "user", "content": f"{time.time_ns()} {LONG} Say something long."}],
        "max_tokens": TOKENS,
        "min_tokens": TOKENS,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    before = counters(running)
    with httpx.Client(base_url=running.base_url.removesuffix("/v1"), trust_env=False) as http:
        trace = follow_stream(http, request, time.monotonic() + 60)
    after = counters(running)
    generated = difference(after, before, "vllm:generation_tokens_total")
    assert trace.marks[-1][1] == generated == TOKENS
    between = "vllm:inter_token_latency_seconds"
    seconds = difference(after, before, f"{between}_sum")
    counted = difference(after, before, f"{between}_count")
    assert decode_rate([trace], 8) == pytest.approx(counted / seconds, rel=0.3)
    first = difference(after, before, "vllm:time_to_first_token_seconds_sum")
    assert trace.ttft_ms / 1000 == pytest.approx(first, rel=0.5, abs=0.05)


def test_the_whole_measurement_is_counted_right_and_ends_in_time(running: RunningServer) -> None:
    probed = probe_server(running.base_url)
    for _attempt in range(ATTEMPTS):
        before, began = counters(running), time.monotonic()
        speed = measure_speed(probed, cancel=threading.Event()).speed
        assert time.monotonic() - began < 22
        after = counters(running)
        if not speed.note:
            break
    assert speed.note == ""
    assert speed.decode_tps is not None
    assert speed.prefill_tps is not None
    assert speed.prompt_tokens is not None
    assert difference(after, before, "vllm:prompt_tokens_total") > speed.prompt_tokens > 2000
    # Nothing of the long prompt came from the cache: what all prompts have in common is a few blocks.
    hits = difference(after, before, "vllm:prefix_cache_hits_total")
    assert hits < 0.2 * speed.prompt_tokens
    one, four = speed.streams
    assert one.decode_tps == speed.decode_tps
    assert four.decode_tps is not None
    assert four.decode_tps > one.decode_tps  # type: ignore[operator]
