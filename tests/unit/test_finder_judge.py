"""Judging and ranking, on what the parsers of vLLM 0.32.0 really made of three texts.

Which parsers are right was read off the recorded calls by hand, and agrees with that vLLM's servers.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import msgspec
import pytest

from wizard.smoke.finder import Asked, Candidate, RawText, asked_call
from wizard.smoke.finder.judge import judge, judge_thought, only_exact, ranked
from wizard.smoke.finder.types import FoundCall, Reading, Trial

RECORDED = Path(__file__).parents[1] / "data" / "parser_trials_0.32.0.json"
RIGHT = {
    "hermes": {"hermes", "qwen3_json", "granite4", "ernie45"},
    "xml": {"qwen3_coder", "qwen3_xml", "mimo", "step3p5"},
    "tools": set(),
}
ASKED = asked_call()
CALL = FoundCall(name="add", arguments='{"a": 17, "b": 25}')
TEXT = RawText(text='<tool_call>{"name": "add", "arguments": {"a": 17, "b": 25}}</tool_call>', way="text")
GOOD = Reading(calls=(CALL,))


class Recording(msgspec.Struct):
    text: str
    words: str
    trials: tuple[Trial, ...]


@functools.cache
def recorded(name: str) -> Recording:
    content = json.loads(RECORDED.read_text(encoding="utf-8"))
    return msgspec.convert(content[name], Recording)


def candidates(name: str, asked: Asked | None) -> dict[str, Candidate]:
    entry = recorded(name)
    raw = RawText(text=entry.text, way="completions")
    judged = only_exact([judge(trial, raw, asked) for trial in entry.trials if trial.kind == "tool"])
    return {candidate.parser: candidate for candidate in judged}


def judged(whole: Reading, streamed: Reading, asked: Asked | None = ASKED) -> Candidate:
    return judge(Trial(parser="p", kind="tool", whole=whole, streamed=streamed), TEXT, asked)


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("asked", [ASKED, None], ids=["asked", "text alone"])
def test_just_the_right_parsers_are_ok(name: str, asked: Asked | None) -> None:
    found = candidates(name, asked)
    assert {parser for parser, candidate in found.items() if candidate.ok} == RIGHT[name]
    for parser in RIGHT[name]:
        assert [call.name for call in found[parser].calls] == ["add"]
        assert json.loads(found[parser].calls[0].arguments) == {"a": 17, "b": 25}


@pytest.mark.parametrize(
    ("name", "parser", "said"),
    [
        ("hermes", "xlam", "Only a streamed answer"),
        ("hermes", "poolside_v1", "No name of a tool"),
        ("hermes", "qwen3_coder", "swallows"),
        ("hermes", "mistral", "could not locate the tool call token"),
        ("hermes", "openai", "GptOssToolParser is a stub"),
        ("xml", "seed_oss", "<tool_call> is left in the text"),
        ("xml", "hermes", "loses the text of a streamed answer"),
        ("tools", "hermes", "the text stays as it is"),
    ],
)
def test_a_wrong_parser_is_told_why(name: str, parser: str, said: str) -> None:
    assert said in candidates(name, ASKED)[parser].detail


def test_equals_are_ordered_by_what_is_known_of_the_model() -> None:
    every = candidates("hermes", ASKED).values()
    assert ranked(every, ("granite4", "hermes"))[0].parser == "granite4"
    assert ranked(every, ("qwen3_coder", "hermes"))[0].parser == "hermes"


@pytest.mark.parametrize(
    ("whole", "streamed", "said"),
    [
        (GOOD, Reading(calls=(FoundCall(name="add", arguments='{"a": 17}'),)), "do not fit"),
        (GOOD, Reading(calls=(FoundCall(name="sub", arguments="{}"),)), "not offered"),
        (GOOD, Reading(calls=(FoundCall(name="add", arguments='{"a": 17, "b": '),)), "no JSON object"),
        (GOOD, Reading(calls=(FoundCall(name="add", arguments='["a"]'),)), "no JSON object"),
        (GOOD, Reading(calls=(CALL, CALL)), "differ"),
        (GOOD, Reading(content="text"), "streamed one loses it"),
        (Reading(calls=(CALL,), content="</tool_call>"), GOOD, "left in the text"),
        (Reading(problem="KeyError: 'x'"), GOOD, "KeyError"),
    ],
)
def test_one_bad_reading_is_enough(whole: Reading, streamed: Reading, said: str) -> None:
    candidate = judged(whole, streamed)
    assert not candidate.ok
    assert said in candidate.detail


def test_words_before_a_call_are_no_fault() -> None:
    candidate = judged(Reading(calls=(CALL,), content="I will add."), GOOD)
    assert candidate.ok
    assert not candidate.clean


def test_arguments_of_the_models_own_are_its_mistake_not_the_parsers() -> None:
    other = Reading(calls=(FoundCall(name="add", arguments='{"a": 1, "b": 2}'),))
    wrong, right = judged(other, other), judged(GOOD, GOOD)
    assert wrong.ok
    assert only_exact([wrong])[0].ok
    assert [candidate.ok for candidate in only_exact([wrong, right])] == [False, True]


def test_a_text_alone_must_hold_what_a_parser_finds() -> None:
    strange = Reading(calls=(FoundCall(name="add", arguments='{"a": 18}'),))
    assert not judged(strange, strange, None).ok
    assert judged(GOOD, GOOD, None).ok


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("xml", {"qwen3", "deepseek_r1", "glm45"}, {"gemma4", "granite", "seed_oss", "mistral"}),
        ("hermes", {"deepseek_v3", "gemma4", "granite"}, {"qwen3", "deepseek_r1", "seed_oss"}),
    ],
    ids=["with a thought", "without one"],
)
def test_reasoning_parsers_leave_the_answer_whole(name: str, right: set[str], wrong: set[str]) -> None:
    entry = recorded(name)
    raw = RawText(text=entry.words, way="completions")
    judged = [judge_thought(trial, raw) for trial in entry.trials if trial.kind == "reasoning"]
    fitting = {candidate.parser for candidate in judged if candidate.ok}
    assert right <= fitting
    assert not wrong & fitting


def test_a_thought_without_end_proves_nothing() -> None:
    trial = Trial(parser="p", kind="reasoning", whole=Reading(reasoning="Hm"), streamed=Reading())
    assert not judge_thought(trial, RawText(text="<think>Hm", way="text")).ok


def test_what_a_parser_says_is_inert() -> None:
    trial = Trial(parser="p", kind="tool", problem="\x1b[31mno\ntoken")
    assert "\x1b" not in judge(trial, TEXT, ASKED).detail
