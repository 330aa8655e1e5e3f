"""The smoke test against answers recorded from vLLM 0.32 (with fitting and wrong parsers) and odd servers."""

from __future__ import annotations

import json
import threading
from typing import Any

import msgspec
import pytest
from standin import Reply, plain, scripted, server_at, streamed

from wizard.smoke import SmokeCheck, run_smoke
from wizard.smoke.material import material

ARGUMENTS = '{"a": 17, "b": 25}'
HERMES = '<tool_call>\n{"name": "add", "arguments": {"a": 17, "b": 25}}\n</tool_call>'
XML = (
    "<tool_call>\n<function=add>\n<parameter=a>\n17\n</parameter>\n"
    "<parameter=b>\n25\n</parameter>\n</function>\n</tool_call>"
)
# Markers that a model emits and the parsers whose class reads them, from vLLM's tool_parsers package.
LEAKS = [
    (HERMES, "hermes"),
    (XML, "qwen3_coder"),
    ('[TOOL_CALLS][{"name": "add", "arguments": {"a": 17, "b": 25}}]', "mistral"),
    (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{}",
        "kimi_k2",
    ),
    ('<minimax:tool_call><invoke name="add"></invoke></minimax:tool_call>', "minimax_m2"),
    ('{"name": "add", "parameters": {"a": 17, "b": 25}}', "llama3_json"),
    ("[add(a=17, b=25)]", "pythonic"),
]


def called(arguments: str = ARGUMENTS, name: str = "add") -> dict[str, Any]:
    return {
        "id": "chatcmpl-tool-98471b4cda60fb62",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def good(request: dict[str, Any]) -> Reply:
    """vLLM with a fitting parser: nulls, pieces and finish reasons as recorded."""
    if request["messages"][-1]["role"] == "tool":
        return streamed({"content": "The sum"}, {"content": " is 42."})
    if "tools" not in request:
        return plain("Ready.")
    names = [tool["function"]["name"] for tool in request["tools"]]
    name, arguments = ("add", ARGUMENTS) if names == ["add"] else ("search_text", '{"query": "launch plan"}')
    if not request.get("stream"):
        return plain(None, tool_calls=[called(arguments, name)], finish="tool_calls")
    first = {"id": "chatcmpl-tool-1", "type": "function", "index": 0, "function": {"name": name}}
    pieces = [
        {"content": None, "tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in arguments
    ]
    return streamed({"content": None, "tool_calls": [first]}, *pieces, finish="tool_calls")


def checks_of(answer: Any, **options: Any) -> tuple[dict[str, SmokeCheck], str]:
    with scripted(answer) as (root, _asked):
        report = run_smoke(server_at(root), **options)
    return {check.id: check for check in report.checks}, report.verdict


def calls_answered_by(plain_reply: Reply, streamed_reply: Reply) -> Any:
    """Only requests for a call are answered otherwise."""

    def answer(request: dict[str, Any]) -> Reply:
        if "tools" not in request or request["messages"][-1]["role"] == "tool":
            return good(request)
        return streamed_reply if request.get("stream") else plain_reply

    return answer


def test_recorded_good_answers_pass() -> None:
    checks, verdict = checks_of(good)
    assert {check.status for check in checks.values()} == {"ok"}
    assert verdict == "pass"


def test_requests_are_those_opencode_sends() -> None:
    with scripted(good) as (root, asked):
        run_smoke(server_at(root))
    with_tools = [request for request in asked if "tools" in request and request.get("stream")]
    assert len(with_tools) == 3
    for request in with_tools:
        assert request["stream_options"] == {"include_usage": True}
        assert request["tool_choice"] == "auto"
        assert request["model"] == "tiny"
    assert all(request["temperature"] == 0 and 0 < request["max_tokens"] <= 512 for request in asked)
    round_trip = next(request for request in asked if request["messages"][-1]["role"] == "tool")
    spoke, result = round_trip["messages"][-2:]
    assert spoke["content"] == ""
    assert spoke["tool_calls"][0]["function"] == {"name": "add", "arguments": ARGUMENTS}
    assert result == {"role": "tool", "tool_call_id": spoke["tool_calls"][0]["id"], "content": "42"}
    assert [len(request["tools"]) for request in with_tools] == [1, 1, 10]


@pytest.mark.parametrize(("text", "parser"), LEAKS)
def test_a_leaked_call_fails_and_names_parsers_that_read_it(text: str, parser: str) -> None:
    pieces = [{"content": text[start : start + 7]} for start in range(0, len(text), 7)]
    checks, verdict = checks_of(calls_answered_by(plain(text), streamed(*pieces)))
    for id in ("tool-call", "tool-call-stream"):
        assert checks[id].status == "fail"
        assert parser in checks[id].hint
    assert verdict == "fail"


def test_xml_read_by_hermes_leaks_plain_and_vanishes_streamed() -> None:
    checks, verdict = checks_of(calls_answered_by(plain(XML), streamed()))
    assert "qwen3_coder" in checks["tool-call"].hint
    assert "swallowed" in checks["tool-call-stream"].detail
    assert verdict == "fail"


def test_a_call_after_thoughts_passes_though_newlines_come_first() -> None:
    def answer(request: dict[str, Any]) -> Reply:
        if "tools" not in request or request["messages"][-1]["role"] == "tool" or not request.get("stream"):
            return good(request)
        thought = {"reasoning": "They want a tool."}
        return streamed(
            thought, {"content": "\n\n"}, {"tool_calls": [{"index": 0, **called()}]}, finish="tool_calls"
        )

    checks, _verdict = checks_of(answer)
    assert checks["tool-call-stream"].status == "ok"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (called('{"a": "17", "b": "25"}'), "do not fit"),
        (called('{"a": 17}'), "do not fit"),
        (called('{"a": 17, '), "not JSON"),
        (called("[17, 25]"), "not an object"),
        (called(name=HERMES), "not offered"),
    ],
)
def test_a_call_that_cannot_be_executed_fails(call: dict[str, Any], says: str) -> None:
    reply = plain(None, tool_calls=[call], finish="tool_calls")
    checks, verdict = checks_of(calls_answered_by(reply, streamed({"tool_calls": [{"index": 0, **call}]})))
    assert says in checks["tool-call"].detail
    assert says in checks["tool-call-stream"].detail
    assert verdict == "fail"


def test_words_instead_of_a_call_are_asked_again_and_then_prove_nothing() -> None:
    words = "The sum of 17 and 25 is 42."
    answer = calls_answered_by(plain(words), streamed({"content": words}))
    with scripted(answer) as (root, asked):
        report = run_smoke(server_at(root))
    checks = {check.id: check for check in report.checks}
    assert (checks["tool-call"].status, checks["tool-call-stream"].status) == ("warn", "warn")
    assert "in words" in checks["tool-call"].detail
    assert report.verdict == "inconclusive"
    prompts = [
        request["messages"][0]["content"]
        for request in asked
        if "tools" in request and not request.get("stream")
    ]
    assert len(prompts) == 2
    assert prompts[0] != prompts[1]


def test_a_model_that_obeys_at_the_second_asking_passes() -> None:
    asked_before: set[bool] = set()

    def answer(request: dict[str, Any]) -> Reply:
        streams = bool(request.get("stream"))
        if "tools" in request and request["messages"][-1]["role"] == "user" and streams not in asked_before:
            asked_before.add(streams)
            return streamed({"content": "42."}) if streams else plain("42.")
        return good(request)

    assert checks_of(answer)[1] == "pass"


def test_a_call_that_ended_up_in_the_thoughts_blames_the_reasoning_parser() -> None:
    body = json.loads(plain(None).pieces[0])
    body["choices"][0]["message"]["reasoning"] = HERMES
    reply = Reply(json.dumps(body))
    checks, verdict = checks_of(calls_answered_by(reply, streamed({"reasoning": HERMES})))
    assert "--reasoning-parser" in checks["tool-call"].hint
    assert verdict == "fail"


def test_a_thinker_gets_more_room_before_it_is_judged() -> None:
    def answer(request: dict[str, Any]) -> Reply:
        if request["max_tokens"] <= 512 and request["messages"][-1]["role"] == "user":
            thought = {"reasoning": "Let me think. " * 30}
            if request.get("stream"):
                return streamed(thought, finish="length", tokens=512)
            body = json.loads(plain(None, finish="length", tokens=512).pieces[0])
            body["choices"][0]["message"].update(thought)
            return Reply(json.dumps(body))
        return good(request)

    assert checks_of(answer)[1] == "pass"


def test_half_a_call_cut_by_the_limit_is_no_leak() -> None:
    half = '<tool_call>\n{"name": "add", "argu'
    nameless = {"tool_calls": [{"index": 0, "id": "x", "type": "function", "function": {"name": "add"}}]}
    answer = calls_answered_by(plain(half, finish="length"), streamed(nameless, finish="length"))
    checks, verdict = checks_of(answer)
    assert (checks["tool-call"].status, checks["tool-call-stream"].status) == ("warn", "warn")
    assert "cut off" in checks["tool-call"].detail
    assert verdict == "inconclusive"


def test_a_stream_that_breaks_the_json_fails() -> None:
    broken = Reply('data: {"choices": [{"delta": {"content": "x"}\n\n', "data: [DONE]\n\n")
    checks, verdict = checks_of(calls_answered_by(good_plain(), broken))
    assert "JSON" in checks["tool-call-stream"].detail
    assert checks["tool-result"].status == "ok"
    assert verdict == "fail"


def test_a_stream_that_just_stops_fails_and_says_what_opencode_would_do() -> None:
    checks, verdict = checks_of(calls_answered_by(good_plain(), streamed({"content": "The"}, finish=None)))
    assert "finish reason" in checks["tool-call-stream"].detail
    assert "opencode" in checks["tool-call-stream"].detail
    assert verdict == "fail"


def test_a_body_that_is_cut_by_a_dying_server_fails() -> None:
    def answer(request: dict[str, Any]) -> Reply:
        return Reply('{"choices": [', cut=True) if "tools" not in request else good(request)

    checks, verdict = checks_of(answer)
    assert "in the middle" in checks["chat"].detail
    assert verdict == "fail"


def test_an_error_inside_a_stream_is_recognised() -> None:
    text = "EngineCore encountered an issue. See stack trace (above) for the root cause."
    error = {"error": {"message": text, "type": "InternalServerError", "param": None, "code": 500}}
    reply = Reply(f"data: {json.dumps(error)}\n\n", "data: [DONE]\n\n")
    checks, verdict = checks_of(calls_answered_by(good_plain(), reply))
    assert "engine died" in checks["tool-call-stream"].detail
    assert checks["tool-result"].status == "skip"
    assert verdict == "fail"


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (
            400,
            "As of transformers v4.44, default chat template is no longer allowed, so you must provide a "
            "chat template if the tokenizer does not define one.",
            "--chat-template",
        ),
        (404, "The model `tiny` does not exist. Valid aliases: other.", "Served here"),
        (404, '{"detail":"Not Found"}', "/v1"),
        (401, '{"error":"Unauthorized"}', "key"),
        (503, "", "start it again"),
        (500, "\x1b[31mboom\x1b[0m", "evidence"),
    ],
)
def test_refusals_come_with_their_cure(status: int, body: str, says: str) -> None:
    checks, verdict = checks_of(lambda request: Reply(body, status=status))
    assert checks["chat"].status == "fail"
    assert says in checks["chat"].hint
    assert f"HTTP {status}" in checks["chat"].evidence
    assert "\x1b" not in checks["chat"].evidence
    assert verdict == "fail"


def test_a_web_page_is_no_answer() -> None:
    checks, verdict = checks_of(lambda request: Reply("<html>Sign in</html>"))
    assert "proxy" in checks["chat"].hint
    assert verdict == "fail"


def test_a_key_that_the_server_repeats_is_hidden() -> None:
    with scripted(lambda request: Reply("bad key sekrit-9", status=400)) as (root, _asked):
        report = run_smoke(server_at(root), api_key="sekrit-9")
    assert "sekrit-9" not in str(report)
    assert "bad key ***" in report.checks[2].evidence


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of a second for the chat; what comes before keeps its time."""
    hurried = msgspec.structs.replace(material(), deadlines_s={**material().deadlines_s, "chat": 0.3})
    monkeypatch.setattr("wizard.smoke.run.material", lambda: hurried)


@pytest.mark.usefixtures("impatient")
def test_a_silent_server_is_left_at_the_deadline() -> None:
    release = threading.Event()
    with scripted(lambda request: Reply(hold=release)) as (root, _asked):
        report = run_smoke(server_at(root))
        release.set()
    chat = report.checks[2]
    assert chat.status == "fail"
    assert "within" in chat.detail
    assert 300 <= chat.ms < 3000
    assert report.checks[3].status == "skip"


@pytest.mark.usefixtures("impatient")
def test_a_server_that_trickles_is_left_at_the_deadline() -> None:
    with scripted(lambda request: Reply("{", forever=" ")) as (root, _asked):
        report = run_smoke(server_at(root))
    assert "within" in report.checks[2].detail
    assert report.checks[2].ms < 3000


def test_a_stop_is_heard_while_the_server_is_silent() -> None:
    release, stop = threading.Event(), threading.Event()

    def answer(request: dict[str, Any]) -> Reply:
        stop.set()
        return Reply(hold=release)

    with scripted(answer) as (root, _asked):
        report = run_smoke(server_at(root), cancel=stop)
        release.set()
    assert [check.status for check in report.checks] == ["ok", "ok", *["skip"] * 6]
    assert report.verdict == "inconclusive"


def test_no_call_either_way_still_tries_the_round_trip() -> None:
    with scripted(calls_answered_by(plain("no"), streamed({"content": "no"}))) as (root, asked):
        report = run_smoke(server_at(root))
    sent = next(request for request in asked if request["messages"][-1]["role"] == "tool")
    call = sent["messages"][-2]["tool_calls"][0]
    # Mistral's templates accept nothing but nine letters and digits.
    assert len(call["id"]) == 9
    assert call["id"].isalnum()
    assert {check.id: check.status for check in report.checks}["tool-result"] == "ok"


def good_plain() -> Reply:
    return plain(None, tool_calls=[called()], finish="tool_calls")
