"""Which processes belong to a run, and whether it lives: never a later process that was given its number."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from wizard.errors import UsageError
from wizard.serve import runs
from wizard.serve.types import End, Run

if TYPE_CHECKING:
    import psutil

_SAME_START_S = 1.0
"""The system counts a process's start in hundredths of a second, from a boot time that may shift a little."""


def is_alive(run: Run) -> bool:
    """Whether the process of a run lives: the same process, not a later one with its number."""
    return ended(run) is None


def ended(run: Run) -> End | None:
    """How the process of a run ended; None while it lives. The code is None when nobody of us saw it end."""
    import psutil

    leader = leader_of(run)
    if leader is None:
        return runs.end_of(run)
    try:
        if leader.status() != psutil.STATUS_ZOMBIE:
            return None
    except psutil.Error:
        return runs.end_of(run)
    return _reap(run)


def leader_of(run: Run) -> psutil.Process | None:
    """The process that was started, dead or alive; None once its number is free or given to another one."""
    import psutil

    try:
        process = psutil.Process(run.pid)
        same = abs(process.create_time() - run.process_started) <= _SAME_START_S
    except psutil.Error:
        return None
    return process if same else None


def is_of(run: Run, pid: int) -> bool:
    """Whether a process is the one that was started, or of its family."""
    return pid == run.pid or any(process.pid == pid for process in family_of(run))


def family_of(run: Run) -> tuple[psutil.Process, ...]:
    """The living processes of a run beside its leader: descendants, session, and whoever writes to its log.

    The session is asked for only while its number means this run: the leader is there, or nobody has its
    number, for a number is not given away while a session bears it. The log is how vLLM's workers are found
    that lost their server.
    """
    import psutil

    leader = leader_of(run)
    family: dict[int, psutil.Process] = {}
    if leader is not None:
        with contextlib.suppress(psutil.Error):
            family = {child.pid: child for child in leader.children(recursive=True)}
    number_is_ours = leader is not None or not psutil.pid_exists(run.pid)
    for process in psutil.process_iter():
        in_session = number_is_ours and _session(process.pid) == run.pid
        if in_session or _writes_to(process.pid, run.log):
            family[process.pid] = process
    family.pop(run.pid, None)
    family.pop(os.getpid(), None)
    return tuple(living(family.values()))


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that still run. A zombie is over: it holds no memory, and who adopted it may never reap it."""
    import psutil

    alive: dict[int, psutil.Process] = {}
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                alive[process.pid] = process
    return list(alive.values())


def _reap(run: Run) -> End:
    """The exit code of a dead child of ours, noted before it is forgotten, so that every thread finds it."""
    try:
        result = os.waitid(os.P_PID, run.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return runs.end_of(run)
    if result is None:
        return runs.end_of(run)
    code = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
    end = End(code=code, asked=runs.end_of(run).asked)
    with contextlib.suppress(UsageError, ChildProcessError):
        runs.note_end(run, end)
        os.waitpid(run.pid, os.WNOHANG)
    return end


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _writes_to(pid: int, log: str) -> bool:
    """Whether standard output or error of a process is this file. Only Linux tells; elsewhere no."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if str(Path(f"/proc/{pid}/fd/{descriptor}").readlink()) == log:
                return True
    return False
