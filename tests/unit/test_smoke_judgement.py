"""Speed, verdict, refusals and leaks, each by itself, against calculations by hand and vLLM's texts."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from typing import Any, Literal

import pytest
from standin import Reply, plain, scripted, server_at

from wizard.smoke import SmokeCheck, SmokeStatus
from wizard.smoke.checks import CHECKS
from wizard.smoke.exchange import Line
from wizard.smoke.judge import Judgement, together, wrote_it
from wizard.smoke.leaks import find_leak
from wizard.smoke.material import CallTask, material
from wizard.smoke.run import verdict_of
from wizard.smoke.sanity import nonsense
from wizard.smoke.talk import Learned, Talk
from wizard.smoke.trouble import refused


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


HEALTHY = [
    "",
    "Ready.",
    "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n21\n22\n23\n24",
    "Title\n" + "=" * 40 + "\n\nThe text that follows the rule is longer than the rule itself is.",
    "| a | b |\n|---|---|\n" + "".join(f"| {n} | {n * n} |\n" for n in range(30)),
    "def f():\n" + " " * 60 + "return 1\n" + "x = 2",
    "No, no, no! Really?!?!?!",
]
SICK = ["!" * 25, "Ready" + "!" * 600, "the sum " * 30, "ha" * 200 + "!", "\n".join(["- item"] * 50)]


@pytest.mark.parametrize("text", HEALTHY)
def test_what_people_write_is_no_garbage(text: str) -> None:
    assert nonsense(text) == ""


@pytest.mark.parametrize("text", SICK)
def test_what_goes_on_for_ever_is_garbage(text: str) -> None:
    assert nonsense(text)


def test_a_very_long_text_is_judged_in_a_moment() -> None:
    text = "".join(f"{n} " for n in range(1_000_000))
    began = time.process_time()
    nonsense(text)
    assert time.process_time() - began < 1


NOTE = material().find_task("arguments-text")
NESTED = material().find_task("arguments-nested")
NOTE_TEXT = 'Müller said: "yes" – 5 € {a, b}\n    path = C:\\temp <b> & 100 %'


@pytest.mark.parametrize(
    ("task", "raw", "written"),
    [
        (NOTE, json.dumps({"name": "save_note", "arguments": {"text": NOTE_TEXT}}, ensure_ascii=False), True),
        (NOTE, f"<function=save_note>\n<parameter=text>\n{NOTE_TEXT}\n</parameter>\n</function>", True),
        (NOTE, json.dumps({"name": "save_note", "arguments": {"text": NOTE_TEXT}}), True),
        (NOTE, json.dumps({"name": "save_note", "arguments": {"text": "Müller said yes"}}), False),
        (NOTE, f"Saved: {NOTE_TEXT}", False),
        (NESTED, '[book_room(room={"floor": 3, "quiet": true}, prices=[19.5], guest="Ada Lovelace")]', True),
        (
            NESTED,
            '{"name": "book_room", "arguments": {"room": {"floor": 3}, "guest": "Ada Lovelace"}}',
            False,
        ),
        (material().find_task("arguments-optional"), "list_tasks", False),
    ],
)
def test_the_models_own_text_shows_whether_it_did_its_part(task: CallTask, raw: str, written: bool) -> None:
    assert wrote_it(raw, task) is written


@pytest.mark.parametrize(
    ("tries", "status"),
    [
        (("ok",), "ok"),
        (("warn", "ok"), "ok"),
        (("fail", "ok"), "warn"),
        (("fail", "warn"), "warn"),
        (("warn", "fail"), "warn"),
        (("fail", "fail"), "fail"),
        (("warn", "warn"), "warn"),
    ],
)
def test_only_what_fails_twice_has_failed(tries: tuple[SmokeStatus, ...], status: str) -> None:
    judgements = [Judgement(status=status, detail=f"{place}") for place, status in enumerate(tries)]
    assert together(judgements).status == status


@pytest.mark.parametrize("characters", [60, 399, 9551])
def test_a_filled_text_has_the_length_that_was_asked_for(characters: int) -> None:
    assert len(material().filling.text("Writes a file.", characters)) == characters


def test_an_answer_under_a_grammar_costs_one_short_request() -> None:
    """Cut at 512 tokens and again at 2,048 it took five seconds on an H200, and proved nothing more."""
    asked: list[dict[str, Any]] = []

    def answer(request: dict[str, Any]) -> Reply:
        asked.append(request)
        return plain("0" * request["max_tokens"], finish="length", tokens=request["max_tokens"])

    for id in ("choice-required", "choice-named"):
        with scripted(answer) as (root, _asked):
            server = server_at(root)
            line = Line(server.base_url, None, threading.Event())
            with contextlib.closing(line):
                judgement = CHECKS[id](Talk(material().find_check(id), server, line, Learned(window=32768)))
        assert judgement.status == "warn"
    assert len(asked) == 2
    assert sum(request["max_tokens"] for request in asked) <= 256
