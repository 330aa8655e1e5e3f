"""A start that fails is explained while it fails, cured, and what did not help is not tried again."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import msgspec
import psutil
import pytest

from wizard import flow
from wizard.diagnosis import Diagnosis, Finding, Remedy
from wizard.errors import LaunchError, UsageError
from wizard.flow import Journey, StartFailed, answers_from, free_port, serving
from wizard.flow.cure import Cured, _next
from wizard.flow.hearing import Found, Listening
from wizard.plan import PlanEdit, apply
from wizard.serve import Exited, LogLine, Run, follow, next_free_port


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The stand-in server starts without acting the wait, and scratch folders stay in the test's own."""
    monkeypatch.setattr(serving, "REHEARSAL_PACE_S", 0.0)
    monkeypatch.setattr(serving, "rehearsed_pace", lambda journey: 4000.0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def planned(fault: str | None = None, cure: str = "safe", **serve: object) -> Journey:
    """A rehearsal on a DGX Spark, planned and not started."""
    raw = {
        "start": {"mode": "rehearse"} | ({"fault": fault} if fault else {}),
        "serve": {"port": free_port(), "cure": cure} | serve,
    }
    journey = flow.find_runtime(
        flow.look_at_machine(Journey(answers=answers_from(raw, "test")), thorough=False)
    )
    return flow.make_plan(flow.choose_model(flow.rate_models(journey)))


def bring_up(journey: Journey) -> tuple[Journey, list[object]]:
    events: list[object] = []
    done = flow.bring_up(journey, events.append, _untested, threading.Event())
    return done, events


def failed(finding: Finding) -> Diagnosis:
    return Diagnosis(verdict="failed", findings=(finding,), lines=1, bytes=1)


def _untested(journey: Journey) -> Journey:
    raise AssertionError("no remedy touched tool calls")


def stand_ins() -> list[psutil.Process]:
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if process.status() != psutil.STATUS_ZOMBIE and "wizard.rehearsal" in process.cmdline()
    ]


def test_a_window_that_does_not_fit_is_cured_to_the_one_vllm_named() -> None:
    done, events = bring_up(planned("too-long"))
    flow.stop_server(done)
    found = next(event for event in events if isinstance(event, Found))
    cured = next(event for event in events if isinstance(event, Cured))
    assert found.code == cured.fault == "kv-cache-too-small"
    assert events.index(found) < next(
        place for place, event in enumerate(events) if isinstance(event, Exited)
    ), "told while vLLM dies"
    # What the stand-in's log states as the longest that fits.
    assert cured.difference[-1] == "+ --max-model-len 24576"
    assert done.server is not None
    assert done.server.max_model_len == 24576
    assert done.budget is not None
    assert done.budget.opencode.context <= 24576
    assert done.attempts == ()
    assert stand_ins() == []


@pytest.mark.parametrize("cure", ["ask", "never"])
def test_without_a_yes_nothing_is_applied(cure: str) -> None:
    with pytest.raises(StartFailed) as caught:
        bring_up(planned("too-long", cure))
    assert "does not fit" in caught.value.message
    assert caught.value.diagnosis.findings[0].remedies
    assert stand_ins() == []


def test_what_did_not_help_is_taken_back_and_not_offered_again() -> None:
    journey = planned()
    first = Remedy(title="fewer", kind="flag", set={"--max-num-seqs": "16"})
    second = Remedy(title="eager", kind="flag", set={"--enforce-eager": None}, effect="slower")
    finding = Finding(
        fault="F", severity="error", title="f", cause="c", evidence=(), remedies=(first, second)
    )
    found = failed(finding)
    before = journey.plan
    journey = flow.apply_remedy(flow.settle(journey, found), finding, first)
    assert journey.plan is not None
    assert journey.plan.flag("--max-num-seqs") == "16"
    journey = flow.settle(journey, found)
    assert journey.plan == before
    assert flow.offered(journey, finding) == (second,)
    later = planned(port=journey.answers.serve.port)
    assert flow.offered(msgspec.structs.replace(later, scratch=journey.scratch), finding) == (second,)


def test_another_fault_leaves_the_remedy_in_place() -> None:
    journey = planned()
    remedy = Remedy(title="eager", kind="flag", set={"--enforce-eager": None})
    finding = Finding(fault="F", severity="error", title="f", cause="c", evidence=(), remedies=(remedy,))
    other = msgspec.structs.replace(finding, fault="G")
    journey = flow.apply_remedy(
        flow.settle(journey, failed(finding)),
        finding,
        remedy,
    )
    journey = flow.settle(journey, Diagnosis(verdict="failed", findings=(other,), lines=1, bytes=1))
    assert journey.plan is not None
    assert "--enforce-eager" in journey.plan.argv
    assert journey.attempts[-1].outcome == "changed"


def test_after_three_attempts_nothing_more_is_applied() -> None:
    journey = planned()
    remedies = tuple(
        Remedy(title=str(number), kind="flag", set={"--max-num-seqs": str(number)}) for number in range(1, 6)
    )
    finding = Finding(fault="F", severity="error", title="f", cause="c", evidence=(), remedies=remedies)
    found = failed(finding)
    for number in range(3):
        journey = flow.settle(journey, found)
        assert flow.may_apply(journey, remedies[number])
        journey = flow.apply_remedy(journey, finding, flow.offered(journey, finding)[0])
    journey = flow.settle(journey, found)
    assert flow.offered(journey, finding) == remedies[3:]
    assert not flow.may_apply(journey, remedies[3])


def test_a_cure_that_touches_tools_is_green_only_after_the_smoke_test() -> None:
    asked: list[Journey] = []
    remedy = Remedy(title="parser", kind="flag", set={"--tool-call-parser": "hermes"})
    finding = Finding(fault="F", severity="error", title="f", cause="c", evidence=(), remedies=(remedy,))
    journey = flow.apply_remedy(flow.settle(planned(), failed(finding)), finding, remedy)

    def test(running: Journey) -> Journey:
        asked.append(running)
        return flow.smoke_test(running, lambda _check: None, threading.Event())

    done = flow.bring_up(journey, lambda _event: None, test, threading.Event())
    flow.stop_server(done)
    assert len(asked) == 1
    assert asked[0].attempts[-1].outcome == "tried"
    assert done.smoke is not None
    assert done.smoke.verdict == "pass"
    assert done.attempts == ()


def test_a_parser_that_swallows_calls_is_the_cause_not_what_the_test_provokes_itself() -> None:
    journey = planned("swallowed")
    assert journey.plan is not None
    wrong = PlanEdit(origin="user", title="wrong", set={"--tool-call-parser": "hermes"})
    journey = flow.launch(
        msgspec.structs.replace(journey, plan=apply(journey.plan, wrong)),
        lambda _event: None,
        threading.Event(),
    )
    tested = flow.smoke_test(journey, lambda _check: None, threading.Event())
    back = flow.with_smoke_fault(tested)
    flow.stop_server(journey)
    assert back.diagnosis is not None
    first = back.diagnosis.findings[0]
    assert first.fault == "tool-call-unanswered"
    assert first.remedies[0].set["--tool-call-parser"] == "qwen3_coder"


def test_a_remedy_outside_the_plan_is_never_carried_out() -> None:
    journey = planned()
    remedy = Remedy(title="Add swap", kind="os", commands=("sudo swapon /swapfile",))
    finding = Finding(fault="F", severity="error", title="f", cause="c", evidence=(), remedies=(remedy,))
    with pytest.raises(UsageError, match="sudo swapon"):
        flow.apply_remedy(journey, finding, remedy)


def test_a_port_taken_before_the_start_is_a_fault_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journey = planned(cure="ask")
    assert journey.plan is not None
    refusal = OSError(98, "Address already in use")

    def taken(*given: object) -> None:
        raise LaunchError("Port 8000 is taken.") from refusal

    monkeypatch.setattr(serving, "start", taken)
    with pytest.raises(StartFailed) as caught:
        bring_up(journey)
    finding = flow.cause_in(caught.value.diagnosis)
    assert finding is not None
    assert finding.fault == "port-in-use"
    remedy = next(one for one in flow.offered(journey, finding) if flow.applicable(one))
    cured = flow.apply_remedy(flow.settle(journey, caught.value.diagnosis), finding, remedy)
    assert cured.plan is not None
    assert cured.plan.port > journey.plan.port
    assert cured.plan.base_url.endswith(f":{cured.plan.port}/v1")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", cured.plan.port))


def test_the_port_offered_is_one_that_nobody_has() -> None:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        first.listen()
        port = first.getsockname()[1]
        try:
            second.bind(("127.0.0.1", port + 1))
            second.listen()
        except OSError:
            pass  # Somebody else has it: as good.
        found = next_free_port("127.0.0.1", port)
    assert found is not None
    assert port + 1 < found <= port + 100
    assert next_free_port("127.0.0.1", 65535) is None
    assert next_free_port("203.0.113.9", port) is None


def test_what_costs_quality_is_offered_but_never_applied_unasked() -> None:
    journey = planned("too-long")
    priced = Remedy(
        title="fp8", kind="flag", set={"--kv-cache-dtype": "fp8"}, effect="worse answers", manual=True
    )
    plain = Remedy(title="fewer", kind="flag", set={"--max-num-seqs": "16"})
    finding = Finding(
        fault="F", severity="error", title="f", cause="c", evidence=(), remedies=(priced, plain)
    )
    events: list[Cured] = []
    cured = _next(journey, failed(finding), events.append)
    assert [event.remedy for event in events] == ["fewer"]
    assert cured is not None
    assert flow.offered(journey, finding) == (priced, plain)
    assert flow.may_apply(journey, priced)
    only = msgspec.structs.replace(finding, remedies=(priced,))
    assert _next(journey, failed(only), events.append) is None


def test_a_fault_is_told_once_with_the_number_its_line_has_in_the_file() -> None:
    journey = planned()
    assert journey.plan is not None
    listening = Listening(journey, journey.plan)
    bar = b"\r".join(b"Loading safetensors checkpoint shards: %d%%" % share for share in range(0, 100, 10))
    failure = b"RuntimeError: Triton Error [CUDA]: operation not permitted\n"
    told = [*listening.hear(b"INFO start\n" + bar + b"\n\n", 0.1), *listening.hear(failure, 0.2)]
    told += listening.hear(failure, 0.3)
    assert [event.finding.evidence[0].line for event in told if isinstance(event, Found)] == [4]


def test_a_log_in_a_rage_is_told_in_part_and_diagnosed_whole(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    cause = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 462.00 MiB.\n"
    log.write_text(f"INFO start\n{cause}" + "INFO noise\n" * 200_000, encoding="utf-8")
    heard: list[bytes] = []
    run = msgspec.structs.replace(_RUN, log=str(log), folder=str(tmp_path))
    lines = [
        event
        for event in follow(
            run,
            timeout_s=5,
            cancel=threading.Event(),
            listener=lambda piece, _seconds: heard.append(piece) or (),
        )
        if isinstance(event, LogLine)
    ]
    assert b"".join(heard) == log.read_bytes()
    assert len(lines) <= 100 * len(heard)
    assert lines[-1].number == 200_002


_RUN = Run(
    id="gone",
    plan_id="gone",
    folder="",
    log="",
    pid=2**22 + 1,
    process_started=0.0,
    started_at=0.0,
    base_url="http://127.0.0.1:9/v1",
    served_model_name="gone",
    argv=(),
)
"""A run that has ended: no process has such a number."""
