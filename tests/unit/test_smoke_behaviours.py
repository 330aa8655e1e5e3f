"""Every row of ``tests/data/behaviours.toml``: a server misbehaves, and the smoke test says so."""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec
import pytest
from behaving import HOLD_S, Behaviour, behaving, table
from standin import server_at

from wizard.smoke import SmokeCheck, SmokeReport, run_smoke
from wizard.smoke.checks import CHECKS
from wizard.smoke.judge import Judgement
from wizard.smoke.material import Material, material
from wizard.smoke.talk import Talk

KEY = "sekrit-0123456789"
ALWAYS = {"models", "chat", "tool-call", "tool-call-stream", "tool-result", "usage", "leaks", "garbage"}
ROWS = table()


def patch(monkeypatch: pytest.MonkeyPatch, changed: Material) -> None:
    for module in ("run", "talk"):
        monkeypatch.setattr(f"wizard.smoke.{module}.material", lambda: changed)


def trimmed(row: Behaviour) -> Material:
    """Only the checks the row is about, so that a hundred servers are asked in seconds; and no waiting."""
    wanted = ALWAYS | set(row.expect)
    checks = tuple(spec for spec in material().check if spec.id in wanted)
    if row.deadline_s:
        checks = tuple(
            msgspec.structs.replace(spec, deadline_s=row.deadline_s) if spec.id == first_of(row) else spec
            for spec in checks
        )
    return msgspec.structs.replace(material(), check=checks, retry_after_s=0.0)


def first_of(row: Behaviour) -> str:
    """The check the row is about."""
    return next(iter(row.expect))


def played(row: Behaviour) -> tuple[SmokeReport, list[str]]:
    """The report, and the requests that went to another host."""
    if "$OTHER" in str(row.headers):
        with behaving() as other:
            headers = {name: value.replace("$OTHER", other.root) for name, value in row.headers.items()}
            return played(msgspec.structs.replace(row, headers=headers))[0], other.paths
    body = row.body.replace("$KEY", KEY) if row.body else row.body
    with behaving(msgspec.structs.replace(row, body=body), key="" if row.on == "no-key" else KEY) as serving:
        return run_smoke(server_at(serving.root), api_key=KEY), []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_behaviour_is_judged_as_the_table_says(row: Behaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    patch(monkeypatch, trimmed(row))
    report, elsewhere = played(row)
    checks = {check.id: check for check in report.checks}
    amiss = {id: check.status for id, check in checks.items() if check.status not in ("ok", "skip")}
    assert amiss == {id: status for id, status in row.expect.items() if status not in ("ok", "skip")}
    assert {id: checks[id].status for id in row.expect} == row.expect
    assert report.verdict == row.verdict
    first = checks[first_of(row)]
    assert row.says in " ".join((first.detail, first.hint, first.evidence))
    _is_fit_to_show(report)
    assert not elsewhere
    if row.deadline_s:
        assert 1000 * row.deadline_s <= first.ms + 1 < 1000 * HOLD_S


def _is_fit_to_show(report: SmokeReport) -> None:
    """No key, nothing that steers a terminal, nothing without bounds; what failed comes with its cure."""
    everything = msgspec.json.encode(report).decode()
    assert KEY not in everything
    assert "\\u001b" not in everything
    for check in report.checks:
        assert len(check.detail) <= 200
        assert len(check.evidence) <= 1600
        assert check.status != "fail" or (check.hint and check.evidence)


def test_the_table_is_long_and_its_ids_are_unique() -> None:
    ids = [row.id for row in ROWS]
    assert len(ids) >= 40
    assert len(set(ids)) == len(ids)


def test_every_check_exists_once_and_what_it_needs_comes_before() -> None:
    ids = [spec.id for spec in material().check]
    assert ids == list(dict.fromkeys(ids))
    assert set(ids) == set(CHECKS)
    for place, spec in enumerate(material().check):
        assert not spec.needs or spec.needs in ids[:place]


def test_a_good_server_passes_every_check_and_shows_what_was_asked() -> None:
    with behaving(key=KEY) as serving:
        report = run_smoke(server_at(serving.root), api_key=KEY)
    assert {check.id: check.status for check in report.checks} == dict.fromkeys(CHECKS, "ok")
    assert report.verdict == "pass"
    _is_fit_to_show(report)
    evidence = {check.id: check.evidence for check in report.checks}
    assert "save_note" in evidence["arguments-text"]
    assert "roles=user,assistant,tool" in evidence["tool-result"]
    assert "roles=system,user,user" in evidence["title"]


RAW_RIGHT = '<tool_call>\n{"name": "add", "arguments": {"a": 17, "b": 25}}\n</tool_call>'
RAW_WRONG = '<tool_call>\n{"name": "add", "arguments": {"a": 17, "b": }}\n</tool_call>'


@pytest.mark.parametrize(
    ("raw", "status", "says"),
    [(RAW_RIGHT, "fail", "the parser changed it"), (RAW_WRONG, "warn", "The model itself wrote it so")],
)
def test_the_models_own_text_tells_a_weak_model_from_a_broken_parser(
    raw: str, status: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = next(row for row in ROWS if row.id == "arguments-broken")
    patch(monkeypatch, trimmed(row))
    with behaving(row, detokenized=raw) as serving:
        report = run_smoke(server_at(serving.root))
    check = next(check for check in report.checks if check.id == "tool-call-stream")
    assert (check.status, says in check.hint) == (status, True)
    assert "raw=" in check.evidence
    assert report.verdict == ("fail" if status == "fail" else "inconclusive")


def test_nothing_but_the_given_address_is_asked_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with behaving() as proxy, behaving() as serving:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.root)
        report = run_smoke(server_at(serving.root), api_key=KEY)
    assert report.verdict == "pass"
    assert not proxy.paths
    strangers = {key for key in serving.keys if key != f"Bearer {KEY}"}
    assert strangers == {"Bearer not-the-key"}


def test_the_request_of_opencodes_size_has_opencodes_size() -> None:
    """opencode 1.18.33 sent 30,693 bytes: a system message of 9,551 characters and ten tools."""
    with behaving() as serving:
        run_smoke(server_at(serving.root))
    request: dict[str, Any] = max(
        (request for request in serving.requests if "tools" in request), key=lambda one: len(str(one))
    )
    assert len(request["messages"][0]["content"]) == 9551
    assert [tool["function"]["name"] for tool in request["tools"]] == [
        *("bash", "edit", "glob", "grep", "read", "skill", "task", "todowrite", "webfetch", "write")
    ]
    assert abs(len(msgspec.json.encode(request)) - 30693) < 3000


def test_checks_ask_at_the_same_time_and_are_told_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of the group is answered only when another one has come: alone it would wait for ever."""
    together = [spec.id for spec in material().check if spec.together]
    another = threading.Event()
    heard: list[str] = []
    with behaving() as serving:
        chat = CHECKS[together[0]]

        def waits(talk: Talk) -> Judgement:
            assert another.wait(HOLD_S)
            return chat(talk)

        def comes(talk: Talk) -> Judgement:
            another.set()
            return CHECKS[together[1]](talk)

        changed = {**CHECKS, together[0]: waits, together[1]: comes}
        monkeypatch.setattr("wizard.smoke.run.CHECKS", changed)
        report = run_smoke(server_at(serving.root), on_check=lambda check: heard.append(check.id))
    assert report.verdict == "pass"
    assert heard == [spec.id for spec in material().check] == [check.id for check in report.checks]


def silent_about(tool: str) -> Behaviour:
    """No answer where this tool is on offer."""
    return Behaviour(
        id="", what="", on="streamed-calls", about=tool, how="silent", expect={}, verdict="inconclusive"
    )


def test_a_stop_is_heard_by_checks_that_run_together(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()

    def stopped(talk: Talk) -> Judgement:
        stop.set()
        return CHECKS["arguments-text"](talk)

    monkeypatch.setattr("wizard.smoke.run.CHECKS", {**CHECKS, "arguments-text": stopped})
    with behaving(silent_about("save_note")) as serving:
        report = run_smoke(server_at(serving.root), cancel=stop)
    statuses = {check.id: check.status for check in report.checks}
    assert {statuses[id] for id in ("arguments-text", "output-limit", "cancel")} == {"skip"}
    assert report.verdict == "inconclusive"


def test_a_listener_that_gives_up_waits_for_no_answer() -> None:
    def heard(check: SmokeCheck) -> None:
        if check.id == "arguments-text":
            raise KeyboardInterrupt

    with behaving(silent_about("book_room")) as serving:
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            run_smoke(server_at(serving.root), on_check=heard)
        assert time.monotonic() - began < HOLD_S
