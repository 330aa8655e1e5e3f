"""Programs run to their end or their deadline: real ones, and one that no signal ends."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from launching import wait_for

from wizard import child
from wizard.child import run_child

HERE = {"PATH": "/usr/bin:/bin"}


def shell(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script)


def ended(pid: int) -> bool:
    """Whether a process is gone, or dead and not reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_output_errors_and_code_come_back() -> None:
    outcome = run_child(shell("echo out; echo err >&2; exit 3"), HERE, 10)
    assert (outcome.code, outcome.output, outcome.errors, outcome.cut_short) == (3, "out\n", "err\n", "")


def test_a_program_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    outcome = run_child(shell(f"sleep 600 & echo $! $$ > {pids}; wait"), HERE, 0.3)
    assert (outcome.code, bool(outcome.cut_short)) == (None, True)
    # Nobody waits for the grandchild here: it dies in its own time, and whoever adopts it reaps it.
    child_, leader = map(int, pids.read_text().split())
    assert not alive(leader)
    wait_for(lambda: ended(child_))


def test_a_program_in_an_uninterruptible_call_is_left_behind_and_reaped_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that has no effect is what a process in a stuck driver call (state D) looks like."""
    pid = tmp_path / "pid"
    monkeypatch.setattr(child, "_FAREWELL_S", 0.2)
    with monkeypatch.context() as deaf:
        deaf.setattr(os, "killpg", lambda _group, _signal: None)
        start = time.monotonic()
        outcome = run_child(shell(f"echo $$ > {pid}; exec sleep 600"), HERE, 0.3)
        assert time.monotonic() - start < 5
    assert outcome.cut_short
    left = int(pid.read_text())
    assert alive(left)
    reaper = next(thread for thread in threading.enumerate() if thread.name == f"reap-{left}")
    os.kill(left, 9)
    reaper.join(10)
    assert not alive(left)


def test_once_cancelled_nothing_is_started(tmp_path: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    outcome = run_child(shell(f"touch {tmp_path}/started"), HERE, 10, cancel)
    assert (outcome.code, bool(outcome.cut_short)) == (None, True)
    assert not (tmp_path / "started").exists()


def test_a_program_that_cannot_be_started_raises_nothing() -> None:
    outcome = run_child(("/nowhere/program",), HERE, 10)
    assert outcome.code is None
    assert "No such file" in outcome.errors
