"""Runs the stand-in: ``python -m wizard.rehearsal serve MODEL`` with any options of ``vllm serve``."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from types import FrameType

from wizard.rehearsal.log import last_words, prepare, say
from wizard.rehearsal.options import Options, parse
from wizard.rehearsal.server import RehearsalServer, bind

PARENT_POLL_S = 0.3


class Stopped(BaseException):
    """A signal asked for the end. Not an Exception: nothing on the way may swallow it."""


def main(argv: list[str]) -> int:
    """Act one life of vLLM; returns the exit code, which is 0 after SIGTERM or SIGINT as vLLM's is."""
    options = parse(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    if options.with_parent:
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        _live(options)
    except Stopped:
        say("APIServer INFO launcher.py:240", "[shutdown] API server: shutdown triggered")
        say("stderr", "INFO:     Application shutdown complete.")
    return 0


def _live(options: Options) -> None:
    """Start, then serve until the engine dies or a signal comes."""
    early = prepare(options, options.port)
    early.play("banner", "parsers")
    fault = options.fault
    try:
        if fault and fault.id == "port-busy":
            early.strike(fault)
        bound = bind(options.host, options.port)
    except OSError as error:
        early.say(last_words("port-busy"), reason=error)
        raise SystemExit(1) from None
    with bound:
        start = prepare(options, bound.getsockname()[1])
        start.play("port", "tools")
        server = RehearsalServer(bound, start)
        start.play("ready", "ready")
        server.serve_forever(poll_interval=0.05)


def _end_with(parent: int) -> None:
    """Ask this process to stop once another one is its parent: whoever practised has gone away."""
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(_number: int, _frame: FrameType | None) -> None:
    for handled in (signal.SIGTERM, signal.SIGINT):
        signal.signal(handled, signal.SIG_IGN)
    raise Stopped


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
