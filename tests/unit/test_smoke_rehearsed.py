"""The smoke test against the stand-in as a real process, healthy and with every fault of its answers."""

from __future__ import annotations

import os
import socket
import threading

import pytest
from standin import TOOLS, server_at, serving

from wizard.smoke import SmokeCheck, SmokeReport, run_smoke

REQUIRED = {
    "models",
    "chat",
    "tool-call",
    "tool-call-stream",
    "tool-result",
    "arguments-text",
    "arguments-nested",
    "history",
    "opencode-prompt",
}


def by_id(report: SmokeReport) -> dict[str, SmokeCheck]:
    return {check.id: check for check in report.checks}


def statuses(report: SmokeReport) -> dict[str, str]:
    return {check.id: check.status for check in report.checks}


def test_a_healthy_server_passes_every_check() -> None:
    heard: list[str] = []
    with serving(*TOOLS) as (root, _standin):
        report = run_smoke(server_at(root), on_check=lambda check: heard.append(check.id))
    # The stand-in was started without a key: there is no other key to be refused.
    assert {id for id, status in statuses(report).items() if status != "ok"} == {"wrong-key"}
    assert statuses(report)["wrong-key"] == "skip"
    assert report.verdict == "pass"
    assert heard == [check.id for check in report.checks]
    assert {check.id for check in report.checks if check.required} == REQUIRED
    assert report.server.max_model_len == 65536
    checks = by_id(report)
    assert '"a": 17' in checks["tool-call"].detail
    assert "42" in checks["tool-result"].detail
    assert "search_text" in checks["many-tools"].detail
    assert all(check.ms >= 0 and not check.hint for check in report.checks)


def test_tags_that_no_parser_reads_fail_the_test_and_are_named() -> None:
    with serving(*TOOLS, "--rehearsal-fault", "tools-tag") as (root, _standin):
        report = run_smoke(server_at(root))
    assert report.verdict == "fail"
    checks = by_id(report)
    for id in ("tool-call", "tool-call-stream"):
        assert checks[id].status == "fail"
        assert "<tools>" in checks[id].detail
        assert "No parser" in checks[id].hint
        assert '"name": "add"' in checks[id].evidence
    assert (checks["chat"].status, checks["tool-result"].status) == ("ok", "ok")
    assert checks["stream-equals-plain"].status == "skip"


def test_a_call_that_leaks_only_when_streamed_fails_the_test() -> None:
    with serving(*TOOLS, "--rehearsal-fault", "stream-leak") as (root, _standin):
        report = run_smoke(server_at(root))
    checks = by_id(report)
    assert (checks["tool-call"].status, checks["tool-call-stream"].status) == ("ok", "fail")
    assert "opencode" in checks["tool-call-stream"].detail
    # Given to vLLM 0.32's 54 parsers, this text was read right by exactly these.
    for parser in ("hermes", "qwen3_json", "granite4", "ernie45"):
        assert parser in checks["tool-call-stream"].hint
    assert "qwen3_coder" not in checks["tool-call-stream"].hint
    assert checks["stream-equals-plain"].status == "fail"
    assert report.verdict == "fail"


def test_a_swallowed_call_fails_the_test() -> None:
    with serving(*TOOLS, "--rehearsal-fault", "swallowed") as (root, _standin):
        report = run_smoke(server_at(root))
    checks = by_id(report)
    for id in ("tool-call", "tool-call-stream"):
        assert checks[id].status == "fail"
        assert "swallowed" in checks[id].detail
        assert "parser" in checks[id].hint
    assert report.verdict == "fail"


def test_a_server_without_tool_calling_is_told_its_flags() -> None:
    with serving() as (root, _standin):
        report = run_smoke(server_at(root))
    checks = by_id(report)
    assert checks["chat"].status == "ok"
    assert checks["tool-call"].status == "fail"
    assert "--enable-auto-tool-choice" in checks["tool-call"].hint
    assert "--tool-call-parser" in checks["tool-call"].hint
    assert "HTTP 400" in checks["tool-call"].evidence
    assert report.verdict == "fail"


def test_a_guarded_server_needs_its_key() -> None:
    with serving(*TOOLS, env={"VLLM_API_KEY": "sekrit-1"}) as (root, _standin):
        refused = run_smoke(server_at(root))
        passed = run_smoke(server_at(root), api_key="sekrit-1")
    assert statuses(refused)["models"] == "fail"
    assert "key" in by_id(refused)["models"].detail
    assert {check.status for check in refused.checks[1:]} == {"skip"}
    assert passed.verdict == "pass"
    assert statuses(passed)["wrong-key"] == "ok"
    assert "sekrit-1" not in str(passed)


def test_a_name_that_is_not_served_is_told_the_names_that_are() -> None:
    with serving(*TOOLS) as (root, _standin):
        report = run_smoke(server_at(root, model="Tiny"))
    checks = by_id(report)
    assert checks["models"].status == "fail"
    assert "tiny" in checks["models"].hint
    assert checks["chat"].status == "fail"
    assert "Served here: tiny" in checks["chat"].hint
    assert statuses(report)["tool-call"] == "skip"
    assert report.verdict == "fail"


def test_a_server_that_dies_in_the_middle_fails_and_is_not_asked_again() -> None:
    with serving(*TOOLS, "--rehearsal-fault", "dies-serving") as (root, standin):
        report = run_smoke(server_at(root))
        assert standin.read_to_end() == 0
    assert statuses(report)["chat"] == "fail"
    assert {check.status for check in report.checks[3:]} == {"skip"}
    assert "engine died" in by_id(report)["chat"].detail
    assert report.verdict == "fail"


@pytest.mark.parametrize(("window", "status"), [("16383", "fail"), ("16384", "ok")])
def test_the_window_must_hold_opencodes_prompt_but_does_not_decide(window: str, status: str) -> None:
    with serving(*TOOLS, "--max-model-len", window) as (root, _standin):
        report = run_smoke(server_at(root))
    assert statuses(report)["window"] == status
    assert report.verdict == "pass"


def test_nothing_listening_is_one_failed_check() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        report = run_smoke(server_at(f"http://127.0.0.1:{bound.getsockname()[1]}"))
    assert statuses(report)["models"] == "fail"
    assert {check.status for check in report.checks[1:]} == {"skip"}
    assert "Nothing answers" in report.checks[0].detail
    assert report.verdict == "fail"


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/v1", "http://[/v1", "nonsense"])
def test_an_address_that_is_none_is_a_failed_check_not_a_traceback(url: str) -> None:
    report = run_smoke(server_at(url.removesuffix("/v1")))
    assert (statuses(report)["models"], report.verdict) == ("fail", "fail")


def test_a_test_that_is_stopped_before_it_began_proves_nothing() -> None:
    stop = threading.Event()
    stop.set()
    with serving(*TOOLS) as (root, _standin):
        report = run_smoke(server_at(root), cancel=stop)
    assert set(statuses(report).values()) == {"skip"}
    assert report.verdict == "inconclusive"


def test_a_proxy_of_the_environment_is_not_asked_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setitem(os.environ, name, "http://127.0.0.1:9")
    with serving(*TOOLS) as (root, _standin):
        assert run_smoke(server_at(root)).verdict == "pass"
