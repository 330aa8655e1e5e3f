"""Tuning: what is kept, what is taken back, and that something that works runs afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from launching import plan_for
from standin import server_at

from wizard import flow
from wizard.errors import LaunchError, RefusedError
from wizard.flow import (
    Answers,
    Cancelled,
    Journey,
    MachineAnswers,
    RuntimeAnswers,
    ServeAnswers,
    SmokeAnswers,
    Tried,
    tuning,
)
from wizard.plan import LaunchPlan, Option
from wizard.serve import Run, is_alive
from wizard.smoke import SmokeCheck, SmokeReport, Speed

EAGER, ASYNC = "--enforce-eager", "--no-async-scheduling"


def report(verdict: str = "pass", tps: float | None = 100.0) -> SmokeReport:
    checks: tuple[SmokeCheck, ...] = ()
    if verdict == "fail":
        failed = SmokeCheck(
            id="tool-call", title="tool call", required=True, status="fail", detail="Swallowed.", ms=1
        )
        checks = (failed,)
    speed = Speed(ttft_ms=10.0, decode_tps=tps)
    return SmokeReport(server=server_at("http://127.0.0.1:9"), checks=checks, verdict=verdict, speed=speed)  # type: ignore[arg-type]


class World:
    """A launch and a smoke test that do as they are told, and the one server that may run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running: tuple[str, ...] | None = None
        self.started: list[tuple[str, ...]] = []
        self.on_launch: Callable[[LaunchPlan], object] = lambda plan: None
        self.on_test: Callable[[LaunchPlan], SmokeReport] = lambda plan: report()
        monkeypatch.setattr(tuning, "launch", self.launch)
        monkeypatch.setattr(tuning, "smoke_test", self.test)
        monkeypatch.setattr(tuning, "stop_server", self.stop)
        monkeypatch.setattr(tuning, "is_alive", lambda run: True)

    def launch(self, journey: Journey, emit: Any, cancel: threading.Event) -> Journey:
        plan = flow.need(journey.plan)
        self.running = None
        self.started.append(brakes_in(plan))
        if cancel.is_set():
            raise Cancelled("stopped")
        self.on_launch(plan)
        self.running = brakes_in(plan)
        return msgspec.structs.replace(journey, server=server_at("http://127.0.0.1:9"), run=run_of(plan))

    def test(self, journey: Journey, on_check: Any, cancel: threading.Event) -> Journey:
        if cancel.is_set():
            raise Cancelled("stopped")
        return msgspec.structs.replace(journey, smoke=self.on_test(flow.need(journey.plan)))

    def stop(self, journey: Journey) -> Journey:
        self.running = None
        return journey


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def brakes_in(plan: LaunchPlan) -> tuple[str, ...]:
    return tuple(option.flag for option in plan.options)


def run_of(plan: LaunchPlan) -> Run:
    return Run(
        id="1", plan_id=plan.id, folder="", log="", pid=1, process_started=0, started_at=0,
        base_url="http://127.0.0.1:9/v1", served_model_name="tiny", argv=plan.argv,
    )  # fmt: skip


def proved(*flags: str, **changes: Any) -> Journey:
    """A journey whose own server passed the test with these switches in its plan."""
    plan = plan_for("vllm", "serve", base_options=tuple(Option(flag=flag) for flag in flags))
    fields = {"plan": plan, "run": run_of(plan), "started_here": True, "smoke": report()}
    return Journey(**(fields | changes))


def tuned(journey: Journey, **events: threading.Event) -> tuple[Journey, list[flow.TuningAttempt]]:
    heard: list[Any] = []
    done = flow.tune(journey, heard.append, **{"cancel": threading.Event(), **events})
    attempts = [event.attempt for event in heard if isinstance(event, Tried)]
    assert list(done.tuning) == attempts
    return done, attempts


def test_what_is_faster_is_kept_and_the_next_option_is_tried_on_top(world: World) -> None:
    world.on_test = lambda plan: report(tps=150.0 if EAGER not in brakes_in(plan) else 100.0)
    done, (first, second) = tuned(proved(EAGER, ASYNC))
    assert (first.option, first.kept, first.before_tps, first.after_tps) == (EAGER, True, 100.0, 150.0)
    assert (second.option, second.passed, second.kept, second.why) == (
        ASYNC,
        True,
        False,
        "It is not faster.",
    )
    assert brakes_in(flow.need(done.plan)) == (ASYNC,) == world.running
    assert world.started == [(ASYNC,), (), (ASYNC,)]
    assert [edit.origin for edit in flow.need(done.plan).edits] == ["tuning"]
    assert flow.need(done.smoke).speed.decode_tps == 150.0


@pytest.mark.parametrize("faster", [True, False])
def test_the_answers_lose_what_is_left_out_for_good(world: World, faster: bool) -> None:
    serve = ServeAnswers(extra_args=("--max_num_seqs", "8", "--enforce_eager"))
    runtime = RuntimeAnswers(env={"CUDA_LAUNCH_BLOCKING": "1", "MINE": "x"})
    plan = plan_for(
        "vllm",
        "serve",
        base_options=(Option(flag="--max-num-seqs", value="8"), Option(flag=EAGER)),
        base_env={"CUDA_LAUNCH_BLOCKING": "1", "MINE": "x"},
    )
    world.on_test = lambda plan: report(tps=(150.0 if plan.env.keys() == {"MINE"} else 120.0) * faster + 1)
    done, _attempts = tuned(proved(plan=plan, answers=Answers(serve=serve, runtime=runtime)))
    if faster:
        assert done.answers.serve.extra_args == ("--max-num-seqs", "8")
        assert done.answers.runtime.env == {"MINE": "x"}
    else:
        assert (done.answers.serve, done.answers.runtime) == (serve, runtime)


def test_a_start_that_fails_brings_the_old_plan_back(world: World) -> None:
    def refuse(plan: LaunchPlan) -> None:
        if EAGER not in brakes_in(plan):
            raise LaunchError("vLLM did not come up: out of memory")

    world.on_launch = refuse
    before = proved(EAGER)
    done, (attempt,) = tuned(before)
    assert (attempt.started, attempt.kept) == (False, False)
    assert "out of memory" in attempt.why
    assert world.running == (EAGER,)
    assert (done.plan, done.smoke) == (before.plan, before.smoke)


@pytest.mark.parametrize("verdict", ["fail", "inconclusive"])
def test_a_test_that_does_not_pass_brings_the_old_plan_back(world: World, verdict: str) -> None:
    world.on_test = lambda plan: report(verdict, tps=500.0)
    done, (attempt,) = tuned(proved(EAGER))
    assert (attempt.started, attempt.passed, attempt.kept) == (True, False, False)
    assert attempt.why
    assert world.running == (EAGER,) == brakes_in(flow.need(done.plan))


@pytest.mark.parametrize("tps", [None, 90.0, 100.0, 101.0])
def test_what_is_not_clearly_faster_is_taken_back(world: World, tps: float | None) -> None:
    world.on_test = lambda plan: report(tps=tps)
    _done, (attempt,) = tuned(proved(EAGER))
    assert (attempt.passed, attempt.kept) == (True, False)
    assert world.running == (EAGER,)


def test_the_way_back_is_tried_twice(world: World) -> None:
    calls: list[tuple[str, ...]] = []

    def once(plan: LaunchPlan) -> None:
        calls.append(brakes_in(plan))
        if len(calls) < 3:
            raise LaunchError("no")

    world.on_launch = once
    tuned(proved(EAGER))
    assert calls == [(), (EAGER,), (EAGER,)]
    assert world.running == (EAGER,)


def test_a_plan_that_does_not_come_up_again_is_an_error_and_nothing_runs(world: World) -> None:
    def never(plan: LaunchPlan) -> None:
        raise LaunchError("no", "Look at the log.")

    world.on_launch = never
    with pytest.raises(LaunchError, match="did not come up again: no"):
        tuned(proved(EAGER))
    assert world.running is None


@pytest.mark.parametrize("where", ["launch", "test"])
def test_cancelling_brings_the_old_plan_back_and_tries_nothing_more(world: World, where: str) -> None:
    cancel = threading.Event()
    if where == "launch":
        world.on_launch = lambda plan: _stop(cancel, EAGER not in brakes_in(plan))
    else:
        world.on_test = lambda plan: _stop(cancel, True) or report()
    done, attempts = tuned(proved(EAGER, ASYNC), cancel=cancel)
    assert [attempt.option for attempt in attempts] == [EAGER]
    assert world.running == (EAGER, ASYNC) == brakes_in(flow.need(done.plan))


def _stop(cancel: threading.Event, now: bool) -> None:
    if now:
        cancel.set()
        raise Cancelled("stopped")


def test_leaving_stops_everything(world: World) -> None:
    leave = threading.Event()
    world.on_launch = lambda plan: _stop(leave, True)
    with pytest.raises(Cancelled):
        tuned(proved(EAGER), leave=leave)
    assert world.running is None


@pytest.mark.parametrize("where", ["on_launch", "on_test"])
def test_an_interrupt_leaves_nothing_running(world: World, where: str) -> None:
    def interrupt(plan: LaunchPlan) -> SmokeReport:
        raise KeyboardInterrupt

    setattr(world, where, interrupt)
    with pytest.raises(KeyboardInterrupt):
        tuned(proved(EAGER))
    assert world.running is None


@pytest.mark.parametrize(
    "changes",
    [{"started_here": False}, {"run": None}, {"plan": None}, {"smoke": None}, {"smoke": report("fail")}],
)
def test_only_a_proved_server_of_ours_is_touched(world: World, changes: dict[str, Any]) -> None:
    journey = proved(EAGER, **changes)
    assert flow.tunable(journey) == ()
    with pytest.raises(RefusedError):
        tuned(journey)
    assert world.started == []


def test_what_was_tried_is_not_offered_again(world: World) -> None:
    done, _attempts = tuned(proved(EAGER))
    assert flow.tunable(done) == ()
    assert flow.tunable(proved("--enable-prefix-caching")) == ()


@pytest.mark.parametrize(
    ("fault", "kept", "why"),
    [
        (None, True, ""),
        ("graphs-crash", False, "did not come up"),
        ("graphs-garbage", False, "swallowed"),
    ],
)
def test_a_rehearsal_plays_tuning_that_helps_and_tuning_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str | None, kept: bool, why: str
) -> None:
    monkeypatch.setattr("wizard.flow.serving.REHEARSAL_PACE_S", 0.0)
    monkeypatch.setattr("wizard.flow.serving.rehearsed_pace", lambda journey: 600.0 if fault else 200.0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    answers = Answers(
        start=flow.StartAnswers(fault=fault),
        machine=MachineAnswers(simulate="gb10"),
        serve=ServeAnswers(port=flow.free_port(), extra_args=(EAGER,)),
        smoke=SmokeAnswers(tune=True),
    )
    heard: list[Any] = []
    done = flow.run_setup(answers, emit=heard.append, consent=lambda summary: None, cancel=threading.Event())
    (attempt,) = [event.attempt for event in heard if isinstance(event, Tried)]
    assert (attempt.option, attempt.kept) == (EAGER, kept)
    assert why in attempt.why
    if kept:
        assert attempt.after_tps > attempt.before_tps
    results = next(event for event in heard if isinstance(event, flow.DoneEvent)).receipt.results
    assert (EAGER in results["command"]) is not kept  # type: ignore[operator]
    assert results["tuning"][0]["kept"] is kept  # type: ignore[index]
    assert results["smoke"] == "pass"
    assert done.run is None or not is_alive(done.run)
