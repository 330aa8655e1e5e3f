"""Speed, verdict, refusals and leaks, each by itself, against calculations by hand and vLLM's texts."""

from __future__ import annotations

import re
from typing import Literal

import pytest

from wizard.smoke import SmokeCheck
from wizard.smoke.answer import Answer, ToolCall
from wizard.smoke.leaks import find_leak
from wizard.smoke.material import material
from wizard.smoke.run import speed_of, verdict_of
from wizard.smoke.trouble import refused


def spoken(tokens: int | None = 11, ms: float | None = 100.0, calls: tuple[ToolCall, ...] = ()) -> Answer:
    return Answer(
        content="It is 42.",
        reasoning="",
        calls=calls,
        finish_reason="stop",
        completion_tokens=tokens,
        streamed=True,
        first_piece_ms=250.0,
        streamed_ms=ms,
    )


def test_ten_tokens_after_the_first_in_a_tenth_of_a_second_are_a_hundred_a_second() -> None:
    speed = speed_of(spoken())
    assert (speed.ttft_ms, speed.decode_tps) == (250.0, 100.0)


@pytest.mark.parametrize("answer", [spoken(tokens=None), spoken(tokens=1), spoken(ms=0.0)])
def test_no_rate_is_made_up(answer: Answer) -> None:
    assert speed_of(answer).decode_tps is None


def test_a_call_tells_no_speed() -> None:
    call = ToolCall(id="x", name="add", arguments="{}")
    assert speed_of(spoken(calls=(call,))).ttft_ms is None
    assert speed_of(None).ttft_ms is None


def check(status: Literal["ok", "warn", "fail", "skip"], *, required: bool) -> SmokeCheck:
    return SmokeCheck(id="x", title="x", required=required, status=status, detail="", ms=1)


@pytest.mark.parametrize(
    ("required", "informative", "verdict"),
    [
        (("ok", "ok"), "fail", "pass"),
        (("ok", "warn"), "ok", "inconclusive"),
        (("ok", "skip"), "ok", "inconclusive"),
        (("warn", "fail"), "ok", "fail"),
    ],
)
def test_only_required_checks_decide(required: tuple[str, str], informative: str, verdict: str) -> None:
    checks = [check(status, required=True) for status in required]  # type: ignore[arg-type]
    checks.append(check(informative, required=False))  # type: ignore[arg-type]
    assert verdict_of(tuple(checks)) == verdict


def test_every_known_refusal_can_be_explained_and_every_pattern_compiles() -> None:
    for known in material().error:
        trouble = refused(known.status[0] if known.status else 500, re.sub(r"\|.*", "", known.pattern))
        assert trouble.code == known.code
        assert trouble.message
        assert trouble.hint
    for shape in material().shape:
        re.compile(shape.pattern.replace("$tool", "add"))


def test_a_prompt_too_long_for_an_old_or_a_new_vllm_is_recognised() -> None:
    # vLLM 0.6 to 0.11, and 0.32.
    old = (
        "This model's maximum context length is 32768 tokens. However, you requested 32000 output tokens and "
        "your prompt contains at least 769 input tokens, for a total of at least 32769 tokens."
    )
    new = (
        "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 "
        "input tokens, which exceeds this limit even without any output tokens."
    )
    assert refused(400, old).code == refused(400, new).code == "prompt-over-window"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The sum is 42.",
        "I would use add(17, 25) here.",
        'Names: {"name": "Bob"}',
        "Use the <b>add</b> tool.",
    ],
)
def test_words_about_a_tool_are_no_leak(text: str) -> None:
    assert find_leak(text, "add") is None
