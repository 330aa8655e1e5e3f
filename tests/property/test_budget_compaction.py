"""opencode's tidying up, simulated step by step: no limits the wizard writes lead into its loop.

The machine is written down from what opencode 1.18.33 was seen to do, and knows nothing of the wizard's rule:
it looks at the size after each step only, replaces the conversation by a summary above the line, keeps the
newest messages word by word, counts no attempts, and the server refuses what does not fit with the answer.
"""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from wizard.budget import Limits, limits

CAP = 32000
RESERVE = 20000
SUMMARY_REQUEST = 420
SUMMARY = 700
TURN = 300
"""What the user typed, and the words around a step."""
CALL = 150
BYTES_PER_TOKEN = 4
TOOL_OUTPUT = 51200
STEPS = 40


class Looped(Exception):
    """It tidied up again before a single step was made."""


class Refused(Exception):
    """The server would have answered with 400."""


def line(context: int, input: int | None, output: int, reserved: int | None) -> int:
    """The size above which the conversation is replaced."""
    asked = min(output, CAP) or CAP
    if input is None:
        return context - asked
    return input - (min(RESERVE, asked) if reserved is None else reserved)


def job(found: Limits, window: int, base: int) -> int:
    """Forty steps, each with a tool's result of the largest size; how often it was tidied up."""
    asked = min(found.output, CAP) or CAP
    limit = line(found.context, found.input, found.output, found.reserved)
    largest = found.tool_output.max_bytes if found.tool_output else TOOL_OUTPUT
    result = min(largest // BYTES_PER_TOKEN, 12000)
    kept_most = max(2000, min(15000, limit // 4))
    history, tidied = [TURN], 0
    for _step in range(STEPS):
        attempts = 0
        while True:
            prompt = base + sum(history)
            if prompt + asked > window:
                raise Refused(f"{prompt} + {asked} > {window}")
            if prompt + CALL < limit:
                break
            if SUMMARY_REQUEST + sum(history) + asked > window:
                raise Refused("the summary")
            attempts += 1
            if attempts > 1:
                raise Looped(f"{prompt} stays above {limit}")
            history = [SUMMARY, *_newest(history, kept_most), TURN]
            tidied += 1
        history += [CALL, result]
    return tidied


def _newest(history: list[int], most: int) -> list[int]:
    """The last messages that fit together."""
    kept: list[int] = []
    for message in reversed(history):
        if sum(kept) + message > most:
            break
        kept.insert(0, message)
    return kept


def test_the_machine_finds_the_recorded_loops() -> None:
    """Without it the properties below would prove nothing."""
    for context, input, output, reserved in (
        (32768, None, 32000, None),
        (32768, None, 0, None),
        (16384, None, 65536, None),
        (16384, None, 9000, None),
        (8192, 7680, 1024, 1024),
    ):
        assert line(context, input, output, reserved) < 7100 + TURN + CALL
    assert line(16384, None, 8192, None) >= 7100 + TURN + CALL


@given(st.integers(16384, 1_048_576))
@example(16384)
@example(32768)
@example(65536)
@example(131072)
@settings(max_examples=300, deadline=None)
def test_no_window_from_the_floor_to_a_million_loops(window: int) -> None:
    found = limits(window, base_prompt_tokens=7100)
    assert not found.refused
    assert job(found, window, 7100) < STEPS


@given(st.integers(32768, 1_048_576), st.booleans())
@settings(max_examples=200, deadline=None)
def test_nor_with_the_prompt_a_wordy_template_makes_of_it(window: int, thinks: bool) -> None:
    found = limits(window, thinks=thinks)
    assert not found.refused
    assert job(found, window, 9000) < STEPS


@given(st.integers(12288, 16383))
@settings(max_examples=100, deadline=None)
def test_nor_between_the_floors_without_the_tools(window: int) -> None:
    found = limits(window, trim_tools=True)
    assert not found.refused
    assert job(found, window, 4930) < STEPS
    assert limits(window).refused, "with all of them it is too small"


@given(st.integers(1, 12287), st.booleans())
def test_below_the_floor_the_budget_refuses(window: int, trimmed: bool) -> None:
    assert limits(window, trim_tools=trimmed).refused


@given(st.integers(16384, 1_048_576), st.integers(0, 60_000), st.integers(0, 40_000))
@settings(max_examples=200, deadline=None)
def test_what_the_user_adds_or_wishes_is_refused_before_it_loops(
    window: int, extra: int, output: int
) -> None:
    """Whatever is not refused starts its first step, with what was added counted in."""
    found = limits(window, output=output or None, extra_prompt_tokens=extra)
    if not found.refused:
        first = found.base_prompt_tokens + TURN + CALL
        assert first < line(found.context, found.input, found.output, found.reserved)
        assert first + found.output <= window
