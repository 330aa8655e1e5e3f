"""Measuring speed: what is counted of a stream, against clocks and counts set here; and what can go wrong."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standin import Reply, scripted, server_at, serving

from wizard import catalog
from wizard.catalog import SpeedFacts
from wizard.http import GivenUpError
from wizard.smoke import measure_speed, pace, speed
from wizard.smoke.pace import Trace, UnmeasuredError, decode_rate, watch


class Clock:
    """A clock that stands until it is set forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(pace.time, "monotonic", lambda: self.now)

    def play(self, *events: tuple[float, dict[str, Any]]) -> Iterator[str]:
        """A stream whose chunks come at these seconds."""
        for second, chunk in events:
            self.now = 1000.0 + second
            yield f"data: {json.dumps(chunk)}"
            yield ""
        yield "data: [DONE]"


def piece(text: str, written: int | None = None, **delta: Any) -> dict[str, Any]:
    chunk: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": text, **delta}}]}
    if written is not None:
        chunk["usage"] = {"prompt_tokens": 50, "completion_tokens": written}
    return chunk


def final(written: int, prompt: int = 50, **more: Any) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": written, **more}}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_tokens_are_counted_by_usage_not_by_pieces(clock: Clock) -> None:
    # Three pieces of very different size: 30 tokens after the first 10, in two seconds.
    lines = clock.play(
        (0.3, piece("", 0)), (0.5, piece("a", 10)), (1.5, piece("b", 35)), (2.5, piece("c", 40))
    )
    trace = watch(lines, 1000.0, 2000.0)
    assert trace.ttft_ms == pytest.approx(500)
    assert decode_rate([trace], 8) == pytest.approx(15.0)
    assert trace.prompt_tokens == 50


def test_usage_at_the_end_alone_gives_the_rate_after_the_first_token(clock: Clock) -> None:
    lines = clock.play((0.2, piece("")), (0.4, piece("a")), (2.4, piece("b")), (2.5, final(41)))
    trace = watch(lines, 1000.0, 2000.0)
    assert trace.ttft_ms == pytest.approx(400)
    assert decode_rate([trace], 8) == pytest.approx(20.0)


def test_thoughts_are_tokens_too(clock: Clock) -> None:
    lines = clock.play((0.4, piece("", reasoning="hm")), (1.4, piece("yes")), (1.4, final(11)))
    assert decode_rate([watch(lines, 1000.0, 2000.0)], 8) == pytest.approx(10.0)


def test_a_stream_is_cut_when_its_time_is_over_and_what_came_counts(clock: Clock) -> None:
    events = [(0.1 * n, piece("x", n)) for n in range(1, 500)]
    trace = watch(clock.play(*events), 1000.0, 1005.0)
    assert trace.marks[-1][1] == 50
    assert decode_rate([trace], 8) == pytest.approx(10.0)


def test_a_cut_stream_without_counts_gives_no_rate(clock: Clock) -> None:
    events = [(0.1 * n, piece("x")) for n in range(1, 500)]
    assert decode_rate([watch(clock.play(*events), 1000.0, 1005.0)], 8) is None


def test_what_the_cache_held_of_the_prompt_is_known(clock: Clock) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 16}}
    lines = clock.play((0.4, piece("a")), (1.4, piece("b")), (1.4, final(11, 500, **details)))
    assert watch(lines, 1000.0, 2000.0).cached_tokens == 16


@pytest.mark.parametrize(
    "line",
    ["data: <html>", 'data: {"error": {"message": "EngineCore encountered an issue."}}', "", "data: []"],
)
def test_a_stream_that_is_none_is_told_and_does_not_raise_anything_else(line: str) -> None:
    with pytest.raises(UnmeasuredError):
        watch([line], time.monotonic(), time.monotonic() + 5)


def test_an_answer_that_came_all_at_once_has_no_rate(clock: Clock) -> None:
    # 200 tokens within four milliseconds, after two seconds of silence: a proxy held them back.
    burst = [(2.0 + n * 2e-5, piece("x", n)) for n in range(1, 201)]
    assert decode_rate([watch(clock.play(*burst), 1000.0, 2000.0)], 8) is None


def test_an_answer_that_came_in_lumps_has_the_rate_of_its_whole_time(clock: Clock) -> None:
    # Lumps of 50 tokens, one a second: 200 tokens in the four seconds after the first.
    lumps = [(0.5 + n // 50 + (n % 50) * 2e-5, piece("x", n + 1)) for n in range(201)]
    rate = decode_rate([watch(clock.play(*lumps), 1000.0, 2000.0)], 8)
    assert rate == pytest.approx(50.0, rel=0.01)


def steady(begin: float, rate: float, tokens: int) -> Trace:
    marks = tuple((begin + n / rate, n + 1) for n in range(tokens))
    return Trace(asked=0.0, first=begin, marks=marks)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(20, 200), st.integers(400, 600)), min_size=1, max_size=6)
)
def test_streams_that_overlap_add_up_to_the_sum_of_their_rates(given: list[tuple[float, float, int]]) -> None:
    traces = [steady(begin, rate, tokens) for begin, rate, tokens in given]
    assert decode_rate(traces, 8) == pytest.approx(sum(rate for _begin, rate, _tokens in given), rel=1e-6)


def test_streams_that_were_written_one_after_the_other_are_no_faster_than_one() -> None:
    traces = [steady(0.0, 50, 101), steady(2.0, 50, 101)]
    assert decode_rate(traces, 8) == pytest.approx(50.0)


@pytest.mark.parametrize("tokens", [1, 2, 8])
def test_a_few_tokens_tell_no_rate(tokens: int) -> None:
    assert decode_rate([steady(0.0, 50, tokens)], 8) is None


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> SpeedFacts:
    """The measurement with a fraction of its time and tokens."""
    facts = catalog.speed_facts()
    short = msgspec.structs.replace(
        facts.rehearsal, decode_s=0.3, prompt_s=0.3, streams_s=0.3, patience_s=0.2, prompt_tokens=400
    )
    changed = msgspec.structs.replace(facts, measure=short, rehearsal=short)
    monkeypatch.setattr(speed, "speed_facts", lambda: changed)
    return changed


def test_the_stand_in_is_as_fast_as_it_was_told_to_be() -> None:
    with serving("--rehearsal-tokens-per-second", "100") as (root, _standin):
        found = measure_speed(server_at(root, window=65536)).speed
    assert found.decode_tps == pytest.approx(100, rel=0.3)
    one, four = found.streams
    assert (one.streams, four.streams) == (1, 4)
    assert four.decode_tps == pytest.approx(200, rel=0.3)
    assert found.prompt_tokens is not None
    assert found.ttft_ms is not None
    assert found.prefill_tps == pytest.approx(1000 * found.prompt_tokens / found.ttft_ms, rel=0.01)
    assert found.short_ttft_ms is not None
    assert found.short_ttft_ms < found.ttft_ms
    assert found.note == ""
    assert set(found.origins.values()) == {"measured"}


def chunks(*texts: str, usage: bool) -> Reply:
    made = [piece(text, 3 * n if usage else None) for n, text in enumerate(texts, 1)]
    made.append(final(3 * len(texts)))
    return Reply(*(f"data: {json.dumps(chunk)}\n\n" for chunk in made), "data: [DONE]\n\n", pace_s=0.005)


def test_every_prompt_is_new_from_its_beginning(hasty: SpeedFacts) -> None:
    with scripted(lambda request: chunks(*"abcdef", usage=True)) as (root, asked):
        measure_speed(server_at(root, window=32768), streams=3)
    texts = [request["messages"][0]["content"] for request in asked]
    assert len(texts) == 5
    assert len({text[:16] for text in texts}) == 5
    assert len(max(texts, key=len)) > 1000
    for request in asked:
        assert request["ignore_eos"] is True
        assert request["min_tokens"] == request["max_tokens"]
        assert request["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_a_server_without_vllms_extras_is_asked_plainly(hasty: SpeedFacts) -> None:
    def answer(request: dict[str, Any]) -> Reply:
        if "ignore_eos" in request:
            return Reply('{"error": "unknown field ignore_eos"}', status=400)
        return chunks(*"abcdef", usage=False)

    with scripted(answer) as (root, asked):
        found = measure_speed(server_at(root)).speed
    assert found.decode_tps is not None
    assert sum("ignore_eos" in request for request in asked) == 1


def test_a_prompt_that_is_too_long_is_shortened(hasty: SpeedFacts) -> None:
    def answer(request: dict[str, Any]) -> Reply:
        if len(request["messages"][0]["content"]) > 900:
            return Reply('{"error": {"message": "maximum context length"}}', status=400)
        return chunks(*"abcdef", usage=True)

    with scripted(answer) as (root, _asked):
        found = measure_speed(server_at(root)).speed
    assert found.ttft_ms is not None
    assert found.note == ""


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply("no", status=503), "HTTP 503"),
        (Reply("<html>gateway</html>"), "No token came"),
        (Reply("data: <html>\n\n"), "not what the OpenAI interface promises"),
        (Reply('data: {"error": {"message": "dead"}}\n\n'), "ended the stream"),
        (Reply(*chunks("a", usage=True).pieces), "Too few tokens"),
        (Reply(forever=": keep-alive\n\n"), "No token came"),
    ],
)
def test_what_cannot_be_measured_is_told(hasty: SpeedFacts, reply: Reply, told: str) -> None:
    began = time.monotonic()
    with scripted(lambda request: reply) as (root, _asked):
        found = measure_speed(server_at(root)).speed
    assert found.decode_tps is None
    assert told in found.note
    assert time.monotonic() - began < 5


def test_a_dead_server_is_told(hasty: SpeedFacts) -> None:
    with scripted(lambda request: Reply()) as (root, _asked):
        pass
    found = measure_speed(server_at(root)).speed
    assert (found.decode_tps, found.ttft_ms) == (None, None)
    assert "connection broke" in found.note


def test_cancelling_ends_it_at_once() -> None:
    stop, hold = threading.Event(), threading.Event()
    threading.Timer(0.2, stop.set).start()
    began = time.monotonic()
    with scripted(lambda request: Reply(": hello\n\n", hold=hold)) as (root, _asked):
        try:
            with pytest.raises(GivenUpError):
                measure_speed(server_at(root), cancel=stop)
            assert time.monotonic() - began < 2
        finally:
            hold.set()


def test_the_requests_are_sized_to_take_less_than_twenty_seconds() -> None:
    wanted = catalog.speed_facts().measure
    parts: Sequence[float] = (wanted.decode_s, wanted.prompt_s, wanted.streams_s)
    assert sum(parts) + wanted.patience_s < 20
