"""The smoke test against answers recorded from vLLM 0.32 (with fitting and wrong parsers) and odd servers."""

from __future__ import annotations

import json
import threading
from typing import Any

import goodmodel
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

FIRST = ("models", "window", "chat", "tool-call", "tool-call-stream", "tool-result")


@pytest.fixture(autouse=True)
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first checks, and no waiting before a second request."""
    checks = tuple(spec for spec in material().check if spec.id in FIRST)
    changed = msgspec.structs.replace(material(), check=checks, retry_after_s=0.0)
    for module in ("run", "talk"):
        monkeypatch.setattr(f"wizard.smoke.{module}.material", lambda: changed)


def called(arguments: str = ARGUMENTS, name: str = "add") -> dict[str, Any]:
    return {
        "id": "chatcmpl-tool-98471b4cda60fb62",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def good(request: dict[str, Any]) -> Reply:
    """vLLM with a fitting parser and a model that does as it is told."""
    draft = goodmodel.good(request)
    return Reply(draft.encoded().decode(), status=draft.status)


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


def test_requests_are_those_opencode_sends() -> None:
    with scripted(good) as (root, asked):
        run_smoke(server_at(root))
    with_tools = [request for request in asked if "tools" in request and request.get("stream")]
    assert len(with_tools) == 2
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


def test_a_model_that_obeys_at_the_second_asking_passes() -> None:
    asked_before: set[bool] = set()

    def answer(request: dict[str, Any]) -> Reply:
        streams = bool(request.get("stream"))
        if "tools" in request and request["messages"][-1]["role"] == "user" and streams not in asked_before:
            asked_before.add(streams)
            return streamed({"content": "42."}) if streams else plain("42.")
        return good(request)

    assert checks_of(answer)[1] == "pass"


def test_a_thinker_gets_more_room_before_it_is_judged() -> None:
    def answer(request: dict[str, Any]) -> Reply:
        if request["max_tokens"] <= 512 and request["messages"][-1]["role"] == "user":
            thought = {"reasoning": " ".join(f"Thought {number}." for number in range(100))}
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


def test_a_stop_is_heard_while_the_server_is_silent() -> None:
    release, stop = threading.Event(), threading.Event()

    def answer(request: dict[str, Any]) -> Reply:
        stop.set()
        return Reply(hold=release)

    with scripted(answer) as (root, _asked):
        report = run_smoke(server_at(root), cancel=stop)
        release.set()
    assert [check.status for check in report.checks] == ["ok", "ok", *["skip"] * 4]
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
