"""Starting and stopping real processes: what they get, what they leave, what is never touched."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from launching import (
    ROOT,
    exists,
    kill,
    number_after,
    plan_for,
    python_plan,
    rehearsal_plan,
    said,
    started,
    wait_for,
)

from wizard.errors import CorruptDataError, LaunchError, UsageError
from wizard.serve import ended, is_alive, latest_run, load_plan, load_run, start, stop

SLEEPS = "import time; print('up', flush=True); time.sleep(60)"
OBEYS = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("up", flush=True)
time.sleep(60)
"""
IGNORES = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(60)
"""
LEAVES_A_CHILD = """
import subprocess, sys, time
child = subprocess.Popen(
    [sys.executable, "-c",
     "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"],
    start_new_session={new_session}, stdout={stdout})
print("child", child.pid, flush=True)
time.sleep(60)
"""


def test_the_program_gets_its_words_and_variables_and_writes_to_the_log(tmp_path: Path) -> None:
    source = (
        "import os, sys; print(sys.argv[1:], os.getsid(0) == os.getpid(), sys.stdin.read() == '');"
        "print({name: os.environ.get(name) for name in ('NO_COLOR', 'PYTHONUNBUFFERED', 'FOR_VLLM')});"
        "print('to stderr', file=sys.stderr)"
    )
    plan = plan_for(sys.executable, "-c", source, "--served-model-name", "tiny", base_env={"FOR_VLLM": "1"})
    with started(plan, tmp_path) as run:
        wait_for(lambda: not is_alive(run))
        log = Path(run.log).read_text()
    assert "['--served-model-name', 'tiny'] True True" in log
    assert "{'NO_COLOR': '1', 'PYTHONUNBUFFERED': '1', 'FOR_VLLM': '1'}" in log
    assert "to stderr" in log
    assert Path(run.log).stat().st_mode & 0o077 == 0


def test_a_run_survives_on_disk(tmp_path: Path) -> None:
    plan = python_plan(SLEEPS)
    with started(plan, tmp_path) as run:
        assert load_run(Path(run.folder)) == run
        assert load_plan(run) == plan
        assert latest_run(tmp_path) == run
        assert run.plan_id == plan.id
        assert run.base_url == f"http://127.0.0.1:{plan.port}/v1"


def test_the_server_outlives_the_wizard_that_started_it(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(msgspec.json.encode(python_plan(SLEEPS)))
    starter = (
        "import msgspec, pathlib; from wizard.plan import LaunchPlan; from wizard.serve import start;"
        f"start(msgspec.json.decode(pathlib.Path({str(plan)!r}).read_bytes(), type=LaunchPlan),"
        f" pathlib.Path({str(tmp_path / 'runs')!r}))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", starter], cwd=ROOT, check=True, timeout=30)
    run = latest_run(tmp_path / "runs")
    assert run is not None
    assert is_alive(run)
    assert stop(run, timeout_s=2).left == ()
    assert not is_alive(run)


def test_the_key_travels_in_the_environment_and_nowhere_else(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("sesame-4711\n")
    source = "import os; print(len(os.environ['VLLM_API_KEY']), flush=True); import time; time.sleep(60)"
    with started(python_plan(source, api_key_file=str(key_file)), tmp_path / "runs") as run:
        wait_for(lambda: said(run, "11"))
        written = b"".join(file.read_bytes() for file in Path(run.folder).iterdir())
        assert b"sesame" not in written
        assert b"sesame" not in Path(f"/proc/{run.pid}/cmdline").read_bytes()


@pytest.mark.parametrize("content", [None, " \n"])
def test_an_unusable_key_file_stops_the_start(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError, match=str(file)):
        start(python_plan(SLEEPS, api_key_file=str(file)), tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no-such-vllm"):
        start(plan_for("no-such-vllm", "serve", "m"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_program_for_another_machine_is_named(tmp_path: Path) -> None:
    program = tmp_path / "vllm"
    program.write_bytes(b"\x7fELF no program at all")
    program.chmod(0o755)
    with pytest.raises(LaunchError, match=str(program)):
        start(plan_for(str(program), "serve", "m"), tmp_path / "runs")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_taken_port_is_found_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(LaunchError, match=rf"Port {port} is taken by .*\({os.getpid()}\)"):
            start(python_plan(SLEEPS, port=port), tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_port_taken_on_every_address_is_taken_on_loopback_too(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        with pytest.raises(LaunchError, match="is taken"):
            start(python_plan(SLEEPS, port=other.getsockname()[1]), tmp_path)


@pytest.mark.parametrize("host", ["203.0.113.9", "no.such.host.invalid", "\udcff"])
def test_a_host_that_is_not_this_machine_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(UsageError, match="no address of this machine"):
        start(python_plan(SLEEPS, host=host), tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file"):
        start(python_plan(SLEEPS), tmp_path / "file" / "runs")


def test_stopping_asks_first_and_gives_the_exit_code(tmp_path: Path) -> None:
    with started(python_plan(OBEYS), tmp_path) as run:
        wait_for(lambda: said(run, "up"))
        stopped = stop(run)
        assert (stopped.was_running, stopped.code, stopped.left) == (True, 0, ())
        end = ended(run)
    assert end is not None
    assert end.asked
    assert end.code == 0


def test_a_folder_that_can_no_longer_be_written_keeps_nothing_running(tmp_path: Path) -> None:
    with started(python_plan(OBEYS), tmp_path) as run:
        wait_for(lambda: said(run, "up"))
        Path(run.folder).rename(tmp_path / "moved")
        Path(run.folder).write_text("in the way")
        assert stop(run).left == ()
    assert not exists(run.pid)


def test_whoever_does_not_listen_is_killed(tmp_path: Path) -> None:
    with started(python_plan(IGNORES), tmp_path) as run:
        wait_for(lambda: said(run, "up"))
        stopped = stop(run, timeout_s=0.3)
    assert (stopped.code, stopped.left) == (-signal.SIGKILL, ())
    assert not exists(run.pid)


@pytest.mark.parametrize(
    ("new_session", "stdout"), [(False, "None"), (True, "None"), (True, "subprocess.DEVNULL")]
)
def test_children_that_left_the_group_are_ended_too(tmp_path: Path, new_session: bool, stdout: str) -> None:
    source = LEAVES_A_CHILD.format(new_session=new_session, stdout=stdout)
    with started(python_plan(source), tmp_path) as run:
        child = number_after(run, "child")
        assert stop(run, timeout_s=0.3).left == ()
    assert not exists(child)


def test_workers_that_lost_their_server_are_found_by_its_log(tmp_path: Path) -> None:
    source = LEAVES_A_CHILD.format(new_session=True, stdout="None")
    with started(python_plan(source), tmp_path) as run:
        child = number_after(run, "child")
        wait_for(lambda: said(run, "ready"))
        kill(run.pid)
        wait_for(lambda: not is_alive(run))
        assert exists(child)
        stopped = stop(run, timeout_s=0.3)
    assert stopped.was_running
    assert stopped.code == -signal.SIGKILL
    assert not exists(child)


def test_a_later_process_with_the_same_number_is_left_alone(tmp_path: Path) -> None:
    with (
        started(python_plan(SLEEPS), tmp_path / "a") as run,
        subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.DEVNULL) as stranger,
    ):
        old = msgspec.structs.replace(
            run, pid=stranger.pid, process_started=run.process_started - 5000, log=str(tmp_path / "other.log")
        )
        assert not is_alive(old)
        assert not stop(old).was_running
        assert stranger.poll() is None
        stranger.kill()


def test_the_exit_code_of_a_death_is_kept_for_whoever_asks_later(tmp_path: Path) -> None:
    with started(python_plan("raise SystemExit(3)"), tmp_path) as run:
        wait_for(lambda: not is_alive(run))
    assert json.loads((Path(run.folder) / "end.json").read_text()) == {"code": 3, "asked": False}
    asked_elsewhere = (
        "import pathlib; from wizard.serve import ended, load_run;"
        f"end = ended(load_run(pathlib.Path({run.folder!r}))); print(end.code, end.asked)"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked_elsewhere],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.split() == ["3", "False"]


def test_stopping_twice_changes_nothing(tmp_path: Path) -> None:
    with started(rehearsal_plan(), tmp_path) as run:
        first, second = stop(run), stop(run)
    assert first.was_running
    assert not second.was_running
    assert second.code == first.code


def test_the_newest_readable_run_is_the_latest(tmp_path: Path) -> None:
    assert latest_run(tmp_path) is None
    with started(python_plan(SLEEPS), tmp_path) as run:
        damaged = tmp_path / "99990101-000000-x"
        damaged.mkdir()
        (damaged / "run.json").write_text('{"id": 1}')
        assert latest_run(tmp_path) == run
        with pytest.raises(CorruptDataError, match=r"run\.json"):
            load_run(damaged)
        with pytest.raises(UsageError, match="nowhere"):
            load_run(tmp_path / "nowhere")
