"""The acted start: prints vLLM's lines at their pace, and ends where the chosen fault strikes."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from string import Template
from typing import Any, NoReturn

from wizard.rehearsal.faults import Fault, read_data, table
from wizard.rehearsal.options import Options

_HANG_S = 60.0
_ROOMY = 4
"""How many requests of a full window the pretended KV cache holds."""

_lock = threading.Lock()


@dataclass(frozen=True)
class Start:
    """One acted start: what is printed and the figures in it."""

    options: Options
    values: dict[str, object]
    steps: tuple[dict[str, Any], ...]

    def play(self, first: str, last: str) -> None:
        """Print the steps from ``first`` to ``last``. Ends the process where the fault strikes."""
        ids = [step["id"] for step in self.steps]
        for step in self.steps[ids.index(first) : ids.index(last) + 1]:
            if step.get("only_with_tools") and not self.options.auto_tools:
                continue
            self._play_step(step)

    def say(self, lines: Iterable[str], **more: object) -> None:
        """Print lines written in the syntax of start.toml, with the figures of this start in them."""
        for line in lines:
            header, _, text = line.partition(" | ")
            say(header, Template(text).safe_substitute(self.values, **more))

    def _play_step(self, step: dict[str, Any]) -> None:
        fault = self.options.fault
        total = step.get("repeat", 1)
        for n in range(total):
            struck = fault is not None and fault.at == step["id"] and n == total // 2
            if fault and struck and not fault.cured(self.options.window):
                self.strike(fault)
            time.sleep(self.options.pace_s * step["share"] / total)
            self.say(step["lines"], n=n + 1, total=total, percent=100 * (n + 1) // total)

    def strike(self, fault: Fault) -> NoReturn:
        """End the start as the fault does: with its last words, without any, or never."""
        self.say(fault.lines)
        if fault.ending == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        while fault.ending == "hangs":
            time.sleep(_HANG_S)
            self.say(fault.lines)
        raise SystemExit(1)


def prepare(options: Options, port: int) -> Start:
    """The start for these options; ``port`` is the one really bound: 0 leaves the choice to the system."""
    data = read_data("start.toml")
    fault = options.fault
    short = fault is not None and fault.cure_window and not fault.cured(options.window)
    tokens = fault.cure_window if fault and short else options.window * _ROOMY
    gib = data["kv_bytes_per_token"] / 2**30
    host = f"[{options.host}]" if ":" in options.host else options.host
    values: dict[str, object] = {
        "version": data["version"],
        "model": options.model,
        "arguments": options.arguments,
        "parser": options.tool_parser,
        "window": options.window,
        "window_grouped": f"{options.window:,}",
        "kv_tokens": tokens,
        "kv_tokens_grouped": f"{tokens:,}",
        "kv_gib": f"{tokens * gib:.2f}",
        "needed_gib": f"{options.window * gib:.2f}",
        "concurrency": f"{tokens / options.window:.2f}",
        "url": f"http://{host}:{port}",
        "pid": os.getpid(),
        "reason": f"[Errno {errno.EADDRINUSE}] {os.strerror(errno.EADDRINUSE)}",
    }
    return Start(options=options, values=values, steps=tuple(data["step"]))


def say(header: str, text: str) -> None:
    """One line: ``stdout`` and ``stderr`` bare, any other header through vLLM's log format.

    All processes carry our own number: nobody must signal a process that has nothing to do with this.
    """
    stream = sys.stderr if header == "stderr" else sys.stdout
    if header not in ("stdout", "stderr"):
        process, level, place = header.split()
        text = f"({process} pid={os.getpid()}) {level} {time.strftime('%m-%d %H:%M:%S')} [{place}] {text}"
    with _lock:
        try:
            print(text, file=stream, flush=True)
        except OSError:
            # The reader of the log is gone; a server does not stop for that.
            return


def last_words(id: str) -> tuple[str, ...]:
    """The lines of a fault that can also happen in earnest, such as a busy port."""
    return table()[id].lines
