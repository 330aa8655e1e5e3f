"""Following real processes from their first line to their end."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from answering import Answer, answering
from launching import DEADLINE_S, kill, plan_for, python_plan, rehearsal_plan, said, started, wait_for

from wizard.serve import (
    Event,
    Exited,
    Finding,
    LogLine,
    Milestone,
    Progress,
    Ready,
    Run,
    follow,
    is_alive,
    load_run,
    stop,
)


def events(run: Run, *, timeout_s: float = DEADLINE_S, read_log: bool = True) -> Iterator[Event]:
    return follow(run, timeout_s=timeout_s, cancel=threading.Event(), read_log=read_log)


def until_ready(run: Run) -> list[Event]:
    seen = []
    for event in events(run):
        seen.append(event)
        if isinstance(event, Ready):
            return seen
    raise AssertionError(seen)


def told(run: Run, **how: object) -> list[Event]:
    """Everything up to the end, without the lines of the log."""
    return [event for event in events(run, **how) if not isinstance(event, LogLine)]  # type: ignore[arg-type]


def test_a_start_is_told_as_milestones_progress_and_readiness(tmp_path: Path) -> None:
    with started(rehearsal_plan(), tmp_path) as run:
        seen = until_ready(run)
    reached = [event.id for event in seen if isinstance(event, Milestone)]
    assert len(reached) == len(set(reached))
    order = ["started", "recognised", "weights", "loaded", "memory", "cache", "graphs", "warm", "ready"]
    assert [stage for stage in reached if stage in order] == order
    shards = [
        (event.done, event.total) for event in seen if isinstance(event, Progress) and event.id == "weights"
    ]
    assert shards == sorted(set(shards))
    assert shards[-1][0] == shards[-1][1]
    ready = seen[-1]
    assert isinstance(ready, Ready)
    assert ready.served_names == ("tiny",)
    assert ready.max_model_len == 65536
    assert ready.base_url == run.base_url
    seconds = [event.seconds for event in seen]
    assert seconds == sorted(seconds)


def test_lines_keep_the_numbers_they_have_in_the_file(tmp_path: Path) -> None:
    with started(rehearsal_plan(), tmp_path) as run:
        lines = [event for event in until_ready(run) if isinstance(event, LogLine)]
        written = Path(run.log).read_text().splitlines()
    assert all(line.text == written[line.number - 1].rstrip() for line in lines)


def test_a_stop_by_the_wizard_is_no_failure(tmp_path: Path) -> None:
    with started(rehearsal_plan(), tmp_path) as run:
        seen = []
        for event in events(run):
            seen.append(event)
            if isinstance(event, Ready):
                stop(run)
    assert isinstance(seen[-1], Exited)
    assert seen[-1].asked
    assert not any(isinstance(event, Finding) for event in seen)


def test_a_window_that_does_not_fit_is_told_in_vllms_words(tmp_path: Path) -> None:
    with started(rehearsal_plan("--rehearsal-fault", "too-long"), tmp_path) as run:
        *_before, finding, exited = told(run)
    assert isinstance(finding, Finding)
    assert finding.text.startswith("ValueError: To serve at least one request with the model's max seq len")
    assert finding.evidence[0] == "EngineCore failed to start."
    assert finding.evidence[-1] == finding.text
    assert exited == Exited(seconds=exited.seconds, code=1, asked=False)


def test_a_wrong_parser_is_told_though_no_engine_ran(tmp_path: Path) -> None:
    plan = rehearsal_plan("--rehearsal-fault", "parser-wrong-name", "--tool-call-parser", "qwen9")
    with started(plan, tmp_path) as run:
        finding = next(event for event in told(run) if isinstance(event, Finding))
    assert finding.text.startswith("KeyError: 'invalid tool call parser: qwen9")


def test_a_silent_kill_is_told_as_one(tmp_path: Path) -> None:
    with started(rehearsal_plan("--rehearsal-fault", "dies-loading"), tmp_path) as run:
        *_before, finding, exited = told(run)
    assert isinstance(finding, Finding)
    assert finding.code == "killed"
    assert "memory" in finding.hint
    assert isinstance(exited, Exited)
    assert exited.code == -signal.SIGKILL


def test_a_usage_error_of_vllm_is_the_cause(tmp_path: Path) -> None:
    source = (
        "import sys; print('usage: vllm [options]');"
        "print('vllm: error: unrecognized arguments: --max-len 1'); sys.exit(2)"
    )
    with started(python_plan(source), tmp_path) as run:
        finding, exited = told(run)
    assert isinstance(finding, Finding)
    assert finding.text == "vllm: error: unrecognized arguments: --max-len 1"
    assert isinstance(exited, Exited)
    assert exited.code == 2


def test_a_dead_engine_is_told_when_nobody_says_why(tmp_path: Path) -> None:
    dead = "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
    with started(python_plan(f"print({dead!r}); print('noise of the end')"), tmp_path) as run:
        finding, exited = told(run)
    assert isinstance(finding, Finding)
    assert (finding.code, finding.evidence) == ("died", (dead,))
    assert "memory" in finding.hint
    assert isinstance(exited, Exited)


def test_an_end_without_a_word_shows_the_last_lines(tmp_path: Path) -> None:
    with started(python_plan("print('one'); print('two')"), tmp_path) as run:
        finding, exited = told(run)
    assert isinstance(finding, Finding)
    assert (finding.code, finding.evidence) == ("ended", ("one", "two"))
    assert isinstance(exited, Exited)
    assert exited.code == 0


def test_a_hanging_start_times_out_and_is_left_running(tmp_path: Path) -> None:
    with started(rehearsal_plan("--rehearsal-fault", "never-ready"), tmp_path) as run:
        last = told(run, timeout_s=1.0)[-1]
        assert is_alive(run)
    assert isinstance(last, Finding)
    assert last.code == "timeout"
    assert last.seconds >= 1.0


def test_a_cancel_ends_at_once_and_silently(tmp_path: Path) -> None:
    cancel = threading.Event()
    with started(rehearsal_plan("--rehearsal-fault", "never-ready"), tmp_path) as run:
        following = follow(run, timeout_s=DEADLINE_S, cancel=cancel)
        next(following)
        cancel.set()
        begun = time.monotonic()
        rest = list(following)
        assert time.monotonic() - begun < 1.0
        assert is_alive(run)
    assert not any(isinstance(event, (Ready, Finding, Exited)) for event in rest)


def test_another_server_on_the_port_is_never_taken_for_ours(tmp_path: Path) -> None:
    source = (
        "import os, sys, time\n"
        "while not os.path.exists(sys.argv[-1]): time.sleep(0.02)\n"
        "sys.exit('OSError: [Errno 98] Address already in use')"
    )
    over = tmp_path / "over"
    plan = plan_for(sys.executable, "-c", source, str(over))
    models = {"data": [{"id": "older", "owned_by": "vllm", "max_model_len": 1}]}
    with started(plan, tmp_path / "runs") as run:
        routes = {"/health": Answer(""), "/v1/models": Answer(json.dumps(models)), "/version": Answer("{}")}
        with answering(routes, port=plan.port) as (_root, asked):

            def let_ours_fail() -> None:
                wait_for(lambda: "/v1/models" in dict(asked))
                over.touch()

            let_go = threading.Thread(target=let_ours_fail)
            let_go.start()
            seen = list(events(run))
            let_go.join()
    assert not any(isinstance(event, Ready) for event in seen)
    assert isinstance(seen[-2], Finding)
    assert seen[-2].text == "OSError: [Errno 98] Address already in use"


def test_a_server_of_the_same_name_that_is_not_ours_is_named_when_time_is_up(tmp_path: Path) -> None:
    plan = plan_for(sys.executable, "-c", "import time; time.sleep(60)")
    models = {"data": [{"id": plan.served_model_name, "owned_by": "vllm", "max_model_len": 1}]}
    routes = {"/health": Answer(""), "/v1/models": Answer(json.dumps(models)), "/version": Answer("{}")}
    with started(plan, tmp_path / "runs") as run, answering(routes, port=plan.port):
        seen = list(events(run, timeout_s=1.5))
        kill(run.pid)
    assert not any(isinstance(event, Ready) for event in seen)
    assert isinstance(seen[-1], Finding)
    assert seen[-1].code == "timeout"
    assert f"({os.getpid()})" in seen[-1].hint


def test_a_death_while_serving_is_told_although_the_exit_code_is_0(tmp_path: Path) -> None:
    with started(rehearsal_plan("--rehearsal-fault", "dies-serving"), tmp_path) as run:
        seen: list[Event] = []
        for event in events(run):
            seen.append(event)
            if isinstance(event, Ready):
                request = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}
                httpx.post(f"{run.base_url}/chat/completions", json=request, trust_env=False, timeout=10)
    assert isinstance(seen[-1], Exited)
    assert (seen[-1].code, seen[-1].asked) == (0, False)
    assert isinstance(seen[-2], Finding)
    assert "died unexpectedly (exit code: -9)" in seen[-2].text


def test_a_run_is_followed_again_from_its_folder(tmp_path: Path) -> None:
    with started(rehearsal_plan(), tmp_path) as run:
        first = [event.id for event in until_ready(run) if isinstance(event, Milestone)]
        again = until_ready(load_run(Path(run.folder)))
    assert [event.id for event in again if isinstance(event, Milestone)] == first


def test_a_server_with_a_key_is_asked_with_it(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sesame")
    with started(rehearsal_plan(api_key_file=str(key)), tmp_path / "runs") as run:
        ready = until_ready(run)[-1]
    assert isinstance(ready, Ready)
    assert ready.served_names == ("tiny",)


def test_a_log_that_is_not_read_still_explains_a_failure(tmp_path: Path) -> None:
    with started(rehearsal_plan("--rehearsal-fault", "oom"), tmp_path) as run:
        finding, exited = events(run, read_log=False)
    assert isinstance(finding, Finding)
    assert finding.text.startswith("torch.OutOfMemoryError: CUDA out of memory")
    assert isinstance(exited, Exited)


def test_hostile_output_is_made_inert(tmp_path: Path) -> None:
    source = (
        "import sys; out = sys.stdout.buffer;"
        "out.write(b'\\x1b[2J\\x1b]0;owned\\x07plain \\xff\\xfe end\\r\\n');"
        "out.write(b'x' * 300_000 + b'\\n'); out.write(b'\\rone\\rtwo\\rthree'); out.flush()"
    )
    with started(python_plan(source), tmp_path) as run:
        lines = [event for event in events(run) if isinstance(event, LogLine)]
    assert lines[0].text == "plain \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} end"
    assert lines[1].text == "x" * 8192
    assert [(line.number, line.text) for line in lines[2:]] == [(3, "one"), (3, "two"), (3, "three")]


def test_a_closed_standard_output_is_no_death(tmp_path: Path) -> None:
    source = (
        "import os, time; print('before', flush=True); os.close(1); os.close(2);"
        "open(os.environ['GONE'], 'w').close(); time.sleep(60)"
    )
    gone = tmp_path / "gone"
    with started(python_plan(source, base_env={"GONE": str(gone)}), tmp_path / "runs") as run:
        wait_for(gone.exists)
        assert said(run, "before")
        seen = list(itertools.islice(events(run, timeout_s=0.5), 5))
        assert is_alive(run)
        kill(run.pid)
        wait_for(lambda: not is_alive(run))
    assert isinstance(seen[-1], Finding)
    assert seen[-1].code == "timeout"


@pytest.mark.parametrize("status", [401, 503])
def test_a_server_that_refuses_is_named_when_time_is_up(tmp_path: Path, status: int) -> None:
    plan = python_plan("import time; time.sleep(60)")
    with started(plan, tmp_path) as run:
        routes = {"/health": Answer(""), "/v1/models": Answer("{}", status=status)}
        with answering(routes, port=plan.port):
            finding = told(run, timeout_s=1.0)[-1]
    assert isinstance(finding, Finding)
    assert finding.code == "timeout"
    assert run.base_url in finding.hint
