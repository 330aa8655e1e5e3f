"""opencode's limits against windows and loops that the released opencode was run with."""

from __future__ import annotations

import pytest

from wizard import i18n
from wizard.budget import BudgetWarning, ToolOutputCap, explain, limits, would_loop
from wizard.catalog import opencode_facts

WHOLE, TRIMMED = 7100, 4930
"""First prompt of opencode 1.18.33 with all its tools, and with six of them denied (Qwen's tokenizer)."""


def codes(warnings: tuple[BudgetWarning, ...]) -> set[str]:
    return {warning.code for warning in warnings}


# Runs of opencode 1.18.33: window, first prompt, output, input, reserved, tool output cap.
@pytest.mark.parametrize(
    ("window", "base", "output", "input", "cap"),
    [
        (131072, WHOLE, 16384, 114688, None),
        (65536, WHOLE, 8192, 57344, (32768, 1200)),
        (32768, WHOLE, 4096, 28672, (16384, 600)),
        (16384, WHOLE, 2048, 14336, (8192, 300)),
        (12288, TRIMMED, 1024, 11264, (4096, 150)),
        (8192, TRIMMED, 1024, 7680, (2048, 80)),
    ],
)
def test_proven_limits_come_out(
    window: int, base: int, output: int, input: int, cap: tuple[int, int] | None
) -> None:
    found = limits(window, base_prompt_tokens=base)
    assert (found.context, found.input, found.output, found.reserved) == (window, input, output, output)
    assert found.tool_output == (cap and ToolOutputCap(max_bytes=cap[0], max_lines=cap[1]))
    assert found.refused == (window < 12288)
    assert found.room_tokens == input - output - base
    assert would_loop(window, found.input, found.output, found.reserved, base) is None


# context, input, output, reserved, first prompt: ran into an endless loop.
LOOPS = [
    (32768, None, 32000, None, WHOLE),
    (32768, None, 0, None, WHOLE),
    (16384, None, 65536, None, WHOLE),
    (16384, None, 16384, None, WHOLE),
    (16384, None, 9000, None, WHOLE),
    (8192, None, 2048, None, WHOLE),
    (8192, 7680, 512, None, WHOLE),
    (8192, 7680, 1024, 1024, WHOLE),
]
# Ran to the end, some with refused requests in between.
WORKS = [
    (16384, None, 8192, None, WHOLE),
    (16384, 14336, 2048, 2048, WHOLE),
    (131072, None, 16384, None, WHOLE),
    (32768, None, 4096, None, WHOLE),
    (131072, 114688, 16384, 16384, WHOLE),
    (65536, 57344, 8192, 8192, WHOLE),
    (32768, 28672, 4096, 4096, WHOLE),
    (12288, 11264, 1024, 1024, TRIMMED),
    (8192, 7680, 1024, 1024, TRIMMED),
]


@pytest.mark.parametrize("case", LOOPS, ids=str)
def test_recorded_loops_are_seen(case: tuple[int, int | None, int, int | None, int]) -> None:
    warning = would_loop(*case)
    assert warning is not None
    assert warning.refuses
    assert warning.code in {"compaction-loop", "output-zero", "output-fills-context"}


@pytest.mark.parametrize("case", WORKS, ids=str)
def test_recorded_successes_are_not_called_loops(case: tuple[int, int | None, int, int | None, int]) -> None:
    assert would_loop(*case) is None


def test_the_reported_gb10_installation() -> None:
    """The first try (no limits on a window of 32768) looped, the cure (65536, told 32768 and 4096) worked."""
    first = would_loop(0, None, 0, None, WHOLE, window=32768)
    assert first is not None
    assert first.code == "request-refused"
    assert would_loop(32768, None, 32000, None, WHOLE, window=32768) is not None
    assert would_loop(32768, None, 4096, None, WHOLE, window=65536) is None


@pytest.mark.parametrize(
    ("window", "loops"),
    [(16384, True), (32768, True), (40960, False)],
)
def test_no_limits_at_all_depend_on_the_server(window: int, loops: bool) -> None:
    assert (would_loop(0, None, 0, None, WHOLE, window=window) is not None) == loops
    assert would_loop(0, None, 0, None, WHOLE) is None, "without limits nothing is tidied up beforehand"


def test_a_small_declared_window_on_a_small_server() -> None:
    """Window 8192, output 2048: the first request is refused, the summary is not, 250 rounds in 25 s."""
    assert would_loop(0, None, 2048, None, WHOLE, window=8192) is not None


@pytest.mark.parametrize(
    ("window", "base", "expected"),
    [
        (8191, WHOLE, {"window-too-small", "compaction-loop"}),
        (16383, WHOLE, {"window-too-small", "little-room"}),
        (16384, WHOLE, {"window-small", "little-room"}),
        (12288, TRIMMED, {"window-small"}),
        (12287, TRIMMED, {"window-too-small"}),
        (32767, WHOLE, {"window-small"}),
        (32768, WHOLE, set()),
    ],
)
def test_floors_and_room(window: int, base: int, expected: set[str]) -> None:
    found = limits(window, base_prompt_tokens=base)
    assert codes(found.warnings) - {"little-room"} == expected - {"little-room"}
    assert ("little-room" in codes(found.warnings)) == (
        "compaction-loop" not in expected and found.tidies_up_at < 2 * base
    )
    assert found.refused == ("window-too-small" in expected)


def test_between_proven_windows_everything_keeps_its_proportion() -> None:
    found = limits(98304, base_prompt_tokens=WHOLE)
    assert (found.output, found.input, found.tool_output) == (
        12288,
        86016,
        ToolOutputCap(max_bytes=49152, max_lines=1800),
    )
    # opencode's own cap is no larger there.
    assert limits(110_000).tool_output is None


def test_above_the_largest_proven_window_answers_stop_growing() -> None:
    found = limits(262144, base_prompt_tokens=WHOLE)
    assert (found.output, found.input, found.tool_output) == (16384, 245760, None)


@pytest.mark.parametrize(
    ("window", "output"), [(131072, 16384), (65536, 8192), (32768, 8192), (262144, 16384)]
)
def test_thinking_gets_room_where_there_is_some(window: int, output: int) -> None:
    found = limits(window, base_prompt_tokens=WHOLE, thinks=True)
    assert found.output == found.reserved == output
    assert not found.warnings


def test_thinking_in_a_small_window_is_warned_about() -> None:
    found = limits(16384, base_prompt_tokens=WHOLE, thinks=True)
    assert found.output == 2048
    assert "thinking-output-small" in codes(found.warnings)
    assert not found.refused


def test_a_wish_for_longer_answers_is_followed_up_to_what_opencode_asks_for() -> None:
    found = limits(131072, output=65536, base_prompt_tokens=WHOLE)
    assert found.output == found.reserved == 32000
    assert codes(found.warnings) == {"output-capped"}
    assert limits(32768, output=1000, base_prompt_tokens=WHOLE).output == 1000


def test_a_wish_that_would_loop_is_refused() -> None:
    found = limits(32768, output=32000, base_prompt_tokens=WHOLE)
    assert found.refused
    assert "reserve-fills-input" in codes(found.warnings)


@pytest.mark.parametrize(
    ("version", "at_least", "at_most"),
    [("1.1.65", 10600, 13000), ("1.14.41", 10100, 12500), ("1.18.33", 7100, 9000), (None, 7100, 9000)],
)
def test_the_first_prompt_follows_the_version(version: str | None, at_least: int, at_most: int) -> None:
    found = limits(65536, opencode_version=version)
    assert at_least <= found.base_prompt_tokens <= at_most
    assert found.base_prompt_origin == "assumed"
    assert limits(65536, base_prompt_tokens=8093).base_prompt_origin == "measured"


def test_an_opencode_without_the_setting_gets_no_tool_output_cap() -> None:
    assert limits(32768, opencode_version="1.2.27").tool_output is None
    assert limits(32768, opencode_version="1.14.41").tool_output is not None


def test_the_explanation_counts_files() -> None:
    i18n.use("en")
    found = limits(65536, base_prompt_tokens=WHOLE)
    lines = 500 * opencode_facts().tokens_per_line
    assert found.room_tokens == 57344 - 8192 - WHOLE
    assert explain(found) == (
        "opencode needs 7,100 tokens before you type; 42,052 are yours, "
        f"about {42052 // lines} files of 500 lines. It tidies up at 49,152 tokens. "
        "Of what a command prints it sees 1,200 lines."
    )
