"""Every way to run in circles that opencode was seen to take, told in its own words."""

from __future__ import annotations

from typing import Any

import pytest

from wizard import i18n
from wizard.budget import Limits, explain, limits, needs_trimming, output_cap, would_loop

WHOLE = 7100
"""First prompt of opencode 1.18.33, counted with Qwen's tokenizer."""


@pytest.fixture(autouse=True)
def english() -> None:
    i18n.use("en")


def told(*case: Any, **known: Any) -> tuple[str, str]:
    warning = would_loop(*case, **known)
    assert warning is not None
    assert warning.refuses
    return warning.code, warning.text


class TestTheReportedInstallation:
    """A GB10 with 32,768 tokens and no limits: 32,000 asked for, at least 769 in, 32,769 in all."""

    def test_no_limits(self) -> None:
        code, text = told(0, None, 0, None, WHOLE, window=32768)
        assert code == "request-refused"
        assert text == (
            "No limit is set: opencode asks for 32,000 tokens after a prompt of about 7,100. "
            "vLLM refuses that: 32,000 + 769 > 32,768. "
            "opencode then tidies up and asks the same again, without end."
        )

    def test_the_window_declared_with_its_default_output(self) -> None:
        code, text = told(32768, None, 32000, None, WHOLE, window=32768)
        assert code == "compaction-loop"
        assert text == (
            "opencode would tidy up for ever: it does so above 768 tokens, and its first prompt alone has "
            "about 7,100. vLLM refuses that: 32,000 + 769 > 32,768."
        )

    def test_the_cure_works(self) -> None:
        assert would_loop(32768, None, 4096, None, WHOLE, window=65536) is None

    def test_a_newer_vllm_shortens_the_answer_but_opencode_loops_all_the_same(self) -> None:
        _code, text = told(32768, None, 32000, None, WHOLE, window=32768, vllm_version="0.33.0")
        assert text.endswith("Versions of vLLM before 0.32.0 also refuse the request: 32,000 + 769 > 32,768.")
        assert would_loop(0, None, 0, None, WHOLE, window=32768, vllm_version="0.32.0") is None


@pytest.mark.parametrize(
    ("case", "known", "code", "words"),
    [
        ((32768, None, 0, None), {}, "output-zero", "limit.output is 0"),
        ((16384, None, 65536, None), {}, "output-fills-context", "limit.output of 65,536"),
        ((16384, None, 16384, None), {}, "output-fills-context", "fill the whole context of 16,384"),
        ((16384, None, 9000, None), {}, "compaction-loop", "above 7,384 tokens"),
        ((8192, 7680, 1024, 1024), {}, "compaction-loop", "above 6,656 tokens"),
        ((32768, 28672, 32000, 32000), {}, "reserve-fills-input", "compaction.reserved of 32,000"),
        # The first request is refused, the one for a summary is not: 250 rounds in 25 seconds.
        ((0, None, 2048, None), {"window": 8192}, "request-refused", "2,048 + 6,145 > 8,192"),
        # Nothing fits: it ends with an error.
        ((0, None, 0, None), {"window": 16384}, "request-too-large", "answers of 32,000 tokens"),
        (
            (0, None, 0, None),
            {"window": 16384, "vllm_version": "0.32.0"},
            "request-too-large",
            "in a window of 16,384",
        ),
        # opencode 2 keeps 20,000 free wherever nobody says less: 12,768 of a window of 32,768.
        ((26000, None, 4096, None), {"opencode_version": "2.0.12"}, "version-2-reserve", "20,000"),
        # The variable lifts the cap: the whole window is asked for.
        ((0, None, 65536, None), {"window": 65536, "cap": 65536}, "request-too-large", "65,536"),
    ],
)
def test_each_has_its_own_words(case: tuple[Any, ...], known: dict[str, Any], code: str, words: str) -> None:
    found, text = told(*case, WHOLE, **known)
    assert found == code
    assert words in text


@pytest.mark.parametrize(
    ("case", "known"),
    [
        ((26000, None, 4096, None), {"opencode_version": "1.18.33"}),
        ((26000, None, 4096, 4096), {"opencode_version": "2.0.12"}),
        ((32768, 28672, 4096, 4096), {"opencode_version": "2.0.12", "window": 32768}),
        ((65536, None, 65536, None), {"cap": 2048, "window": 65536}),
        ((0, None, 0, None), {"window": 40960}),
    ],
)
def test_what_works_is_not_called_a_loop(case: tuple[Any, ...], known: dict[str, Any]) -> None:
    assert would_loop(*case, WHOLE, **known) is None


@pytest.mark.parametrize(
    ("value", "cap"), [(None, 32000), ("65536", 65536), ("2048", 2048), ("0", 32000), ("many", 32000)]
)
def test_the_cap_follows_the_variable(value: str | None, cap: int) -> None:
    name = "OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX"
    assert output_cap({} if value is None else {name: value}) == cap


def codes(found: Limits) -> set[str]:
    return {warning.code for warning in found.warnings}


def test_a_raised_cap_allows_longer_answers_and_a_lowered_one_is_told() -> None:
    assert limits(262144, output=65536, cap=65536, base_prompt_tokens=WHOLE).output == 65536
    low = limits(131072, cap=2048, base_prompt_tokens=WHOLE)
    assert low.output == low.reserved == 2048
    assert codes(low) == {"output-capped"}


class TestPromptsOfTheUser:
    def test_what_is_added_counts_and_is_told(self) -> None:
        found = limits(65536, extra_prompt_tokens=6000)
        plain = limits(65536)
        assert found.base_prompt_tokens == plain.base_prompt_tokens + 6000
        assert found.room_tokens == plain.room_tokens - 6000
        assert "6,000 of the first are your own instructions and tool servers." in explain(found)

    def test_too_much_for_the_window_is_refused_before_it_loops(self) -> None:
        assert codes(limits(32768, extra_prompt_tokens=13_500)) == {"no-room"}
        assert codes(limits(32768, extra_prompt_tokens=20_000)) == {"compaction-loop"}

    def test_what_was_measured_holds_everything(self) -> None:
        found = limits(65536, base_prompt_tokens=11_000, extra_prompt_tokens=6000)
        assert (found.base_prompt_tokens, found.extra_prompt_tokens) == (11_000, 0)


class TestTrimming:
    def test_between_the_floors_it_is_offered(self) -> None:
        refusal = next(warning for warning in limits(14336).warnings if warning.refuses)
        assert refusal.code == "window-too-small"
        assert "Without its tools question, skill, task, todowrite, webfetch, websearch" in refusal.text
        assert [needs_trimming(window) for window in (12287, 12288, 16383, 16384)] == [
            False,
            True,
            True,
            False,
        ]

    def test_below_the_lower_floor_it_is_not(self) -> None:
        assert all("websearch" not in warning.text for warning in limits(12287).warnings)
        assert limits(12287, trim_tools=True).refused

    def test_agreed_to_it_works(self) -> None:
        found = limits(12288, trim_tools=True)
        assert not found.refused
        assert found.denied_tools == ("question", "skill", "task", "todowrite", "webfetch", "websearch")
        # 4,930 of 7,100 measured, 9,000 planned with all tools.
        assert found.base_prompt_tokens == 4930 * 9000 // 7100


def test_files_that_are_read_whole_are_bounded_in_a_small_window() -> None:
    small, large = explain(limits(16384)), explain(limits(131072))
    assert "It reads files whole: one of more than" in small
    assert "whole" not in large
