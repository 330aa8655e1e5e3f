"""Starts vLLM as a session that outlives the wizard, and stops it with everything that belongs to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from wizard import paths
from wizard.errors import LaunchError, UsageError
from wizard.i18n import _
from wizard.plan import LaunchPlan
from wizard.serve import container, runs
from wizard.serve.identity import ended, family_of, living
from wizard.serve.port import require_free_port
from wizard.serve.types import End, Run, Stopped

if TYPE_CHECKING:
    import psutil

_POLL_S = 0.1
_TERM_GRACE_S = 3.0
_KILL_GRACE_S = 5.0


def start(plan: LaunchPlan, runs_dir: Path) -> Run:
    """Start vLLM with a plan, in a session of its own, its output going to the log of a new run folder.

    A file takes the output, not a pipe, so that the server lives on when the wizard or its terminal goes.
    Raises LaunchError when the port is taken or the program cannot be executed; UsageError for a missing
    program, an unreadable key file or a folder that cannot be written. Nothing is running then.
    """
    environment = _environment(plan)
    program = shutil.which(plan.argv[0], path=environment.get("PATH"))
    if program is None:
        raise UsageError(
            _("There is no program {program}.").format(program=plan.argv[0]),
            _("Name an installed vLLM with [runtime] path or command."),
        )
    require_free_port(plan.host, plan.port)
    folder = runs.new_folder(runs_dir, plan.id).resolve()
    log = folder / runs.LOG_FILE
    argv = container.call_of(plan, folder)
    # Everything slow comes before the start: a wizard killed right after it must have left the record.
    import psutil  # noqa: F401 - loaded now, used to record the process

    started_at = time.time()
    try:
        runs.save_plan(folder, plan)
        pid = _spawn(program, argv, environment, log)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    run = Run(
        id=folder.name,
        plan_id=plan.id,
        folder=str(folder),
        log=str(log),
        pid=pid,
        process_started=_creation_time(pid, started_at),
        started_at=started_at,
        base_url=plan.base_url,
        served_model_name=plan.served_model_name,
        argv=argv,
        vllm_version=plan.vllm_version,
        api_key_file=plan.api_key_file,
    )
    try:
        runs.save_run(run)
    except BaseException:
        stop(run, timeout_s=_TERM_GRACE_S)
        raise
    return run


def stop(run: Run, timeout_s: float = 20.0) -> Stopped:
    """End a run: ask its leader, which cleans up after itself; after ``timeout_s`` end whatever is left.

    Whoever belongs to the run is noted before, for a process that left the group is found only while its
    parent lives. A container goes last: it outlives the program that started it when that was killed.
    Blocks for at most ``timeout_s`` and thirteen seconds, with a container half a minute more.
    """
    family = family_of(run)
    alive = ended(run) is None
    if not alive and not family:
        return Stopped(was_running=container.remove(run), code=runs.end_of(run).code)
    if alive:
        # A full disk must not keep a server running.
        with contextlib.suppress(UsageError):
            runs.note_end(run, End(asked=True))
        _signal_leader(run, signal.SIGTERM)
        _wait_until_ended(run, timeout_s)
    left = living([*family, *family_of(run)])
    if ended(run) is None:
        _signal_leader(run, signal.SIGKILL)
    _signal(left, signal.SIGTERM)
    left = _wait_until_gone(left, min(_TERM_GRACE_S, timeout_s))
    _signal(left, signal.SIGKILL)
    left = _wait_until_gone(left, _KILL_GRACE_S)
    end = _wait_until_ended(run, _KILL_GRACE_S)
    container.remove(run)
    numbers = {process.pid for process in left} | ({run.pid} if end is None else set())
    return Stopped(was_running=True, code=end.code if end else None, left=tuple(sorted(numbers)))


def read_key(file: str | None) -> str | None:
    """The API key in a file, or None without a file. It is never shown, logged or put on a command line.

    Raises UsageError when the file cannot be read or is empty.
    """
    if file is None:
        return None
    try:
        # Editors of Windows put a mark before the text; opencode reads past it as well.
        key = paths.expanded(file).read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            _("Cannot read the key file {path}: {reason}.").format(path=file, reason=error),
            _("Name a file that holds the key and nothing else."),
        ) from error
    if not key:
        raise UsageError(_("The key file {path} is empty.").format(path=file))
    if not (key.isascii() and key.isprintable()):
        # The content is never quoted: part of it may well be the key.
        raise UsageError(
            _("The key file {path} holds more than a key on one line.").format(path=file),
            _("A key has printable ASCII characters only."),
        )
    return key


def _environment(plan: LaunchPlan) -> dict[str, str]:
    """The wizard's own environment and what the plan adds; unbuffered and without colours, for the log."""
    key = read_key(plan.api_key_file)
    secret = {} if key is None else {"VLLM_API_KEY": key}
    return {**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **plan.env, **secret}


def _spawn(program: str, argv: tuple[str, ...], environment: Mapping[str, str], log: Path) -> int:
    """Start the process and return its number.

    ``posix_spawn`` and not ``subprocess``: a Popen object must be kept until its process ends, and this one
    is meant to outlive it. How it ended is asked with ``waitid``, later from the run folder.
    """
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    try:
        return os.posix_spawn(
            program,
            argv,
            environment,
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            # Python ignores these two, and what it ignores would be inherited.
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
        )
    except OSError as error:
        raise LaunchError(
            _("Cannot start {program}: {reason}.").format(program=program, reason=error.strerror),
            _("Is it executable, and made for this machine?"),
        ) from error


def _creation_time(pid: int, fallback: float) -> float:
    import psutil

    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return fallback


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    import psutil

    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def _signal_leader(run: Run, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(run.pid, number)


def _wait_until_ended(run: Run, timeout_s: float) -> End | None:
    deadline = time.monotonic() + timeout_s
    while (end := ended(run)) is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return end


def _wait_until_gone(processes: Iterable[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    deadline = time.monotonic() + timeout_s
    while (left := living(processes)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return left
