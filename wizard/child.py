"""Runs a program to its end, or until it takes too long, and leaves nothing of it running."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from wizard.i18n import _

_POLL_S = 0.1
_KEPT = 1 << 20
_FAREWELL_S = 2.0
"""How long a killed program may take to go: inside a stuck driver call it goes only when that returns."""


class Outcome(msgspec.Struct, frozen=True):
    """How a program ended. ``cut_short`` says why it was ended early; the code is None then."""

    code: int | None
    output: str
    errors: str
    cut_short: str = ""


def run_child(
    argv: Sequence[str],
    variables: Mapping[str, str],
    deadline_s: float,
    cancel: threading.Event | None = None,
    cwd: Path | None = None,
) -> Outcome:
    """Run ``argv`` without input, for ``deadline_s`` seconds at most or until ``cancel`` is set.

    Files take its output, not pipes: a process it leaves behind cannot keep us waiting, and what it wrote is
    not lost when it ends before a pipe is emptied, as opencode does. Its whole group is killed in the end.
    Never raises for what the program does or for one that cannot be started.
    """
    stop = cancel or threading.Event()
    if stop.is_set():
        return Outcome(None, "", "", _("It was stopped."))
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                argv,
                env=variables,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            return Outcome(None, "", error.strerror or str(error))
        try:
            cut_short = _wait(process, deadline_s, stop)
        finally:
            end_group(process)
        code = None if cut_short else process.returncode
        return Outcome(code, _end_of(output), _end_of(errors), cut_short)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of a process that leads a group, and reap it; one that cannot die, later."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        process.kill()
    try:
        process.wait(_FAREWELL_S)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, daemon=True, name=f"reap-{process.pid}").start()


def _wait(process: subprocess.Popen[bytes], deadline_s: float, stop: threading.Event) -> str:
    """Why the program must be ended; empty when it ended by itself."""
    deadline = time.monotonic() + deadline_s
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)
            return ""
        if stop.is_set():
            return _("It was stopped.")
        if time.monotonic() > deadline:
            return _("It did not answer within {seconds:.0f} seconds.").format(seconds=deadline_s)


def _end_of(file: BinaryIO) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _KEPT))
    return file.read().decode("utf-8", errors="replace")
