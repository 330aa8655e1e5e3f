"""Asks NVML in a child process: a driver call that hangs cannot be cancelled, but a process can be left."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from wizard.machine.devices import snapshots
from wizard.machine.types import NvmlReading

DEADLINE_S = 15.0
_FAREWELL_S = 1.0
"""How long a killed child may take to go: one inside a stuck driver call goes only when the call returns."""


def ask_nvml(deadline_s: float = DEADLINE_S, command: Sequence[str] | None = None) -> NvmlReading:
    """What NVML says within ``deadline_s`` seconds; nothing that NVML or the driver does raises an error.

    ``command`` is the child (by default this module). After the deadline the reading holds what had come
    until then and the problem ``nvml-timeout``; after a crash of the child likewise, with ``nvml-unknown``.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", __name__] if command is None else list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Where this package lies, so that the child finds it whether it is installed or a source tree.
        cwd=Path(__file__).parents[2],
        # Ctrl-C in the terminal is for the wizard, which then ends the child itself.
        start_new_session=True,
    )
    try:
        output, _ = child.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        child.kill()
        return _last_snapshot(_rest_of(child), "nvml-timeout")
    finally:
        if child.poll() is None:
            child.kill()
        if child.stdout is not None:
            child.stdout.close()
    return _last_snapshot(output, None if child.returncode == 0 else "nvml-unknown")


def main() -> None:
    """The child: writes one JSON document a line to standard output, the last one complete."""
    import pynvml

    for snapshot in snapshots(pynvml):
        sys.stdout.buffer.write(msgspec.json.encode(snapshot) + b"\n")
        sys.stdout.buffer.flush()


def _rest_of(child: subprocess.Popen[bytes]) -> bytes:
    """All a killed child had written, without waiting for one that cannot die."""
    try:
        return child.communicate(timeout=_FAREWELL_S)[0]
    except subprocess.TimeoutExpired as stuck:
        return stuck.output or b""


def _last_snapshot(output: bytes, problem: str | None) -> NvmlReading:
    """The newest whole snapshot in ``output``, with ``problem`` added; without any, at least a problem."""
    reading = NvmlReading(problems=() if problem else ("nvml-unknown",))
    for line in reversed(output.split(b"\n")[:-1]):
        try:
            reading = msgspec.json.decode(line, type=NvmlReading)
            break
        except msgspec.DecodeError:
            # Libraries below NVML may write lines of their own to standard output.
            continue
    return msgspec.structs.replace(reading, problems=(*reading.problems, problem)) if problem else reading


if __name__ == "__main__":
    main()
