"""Plans for tiny programs that stand for vLLM, and the end of everything that was started."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import wizard
from wizard.budget import Limits
from wizard.plan import LaunchPlan, Option
from wizard.rehearsal import command
from wizard.serve import Run, start, stop

ROOT = Path(wizard.__file__).parents[1]
DEADLINE_S = 10.0


def plan_for(*words: str, port: int | None = None, **changes: Any) -> LaunchPlan:
    """A plan whose command is ``words``, on a port that is free, for a model served as ``tiny``."""
    limits = Limits(
        context=65536,
        input=57344,
        output=8192,
        reserved=4096,
        tool_output=None,
        base_prompt_tokens=8000,
        base_prompt_origin="assumed",
        room_tokens=40000,
    )
    fields: dict[str, Any] = {
        "command": words,
        "base_options": (),
        "base_env": {"PYTHONPATH": str(ROOT)},
        "runtime_kind": "command",
        "runtime_path": words[0],
        "vllm_version": None,
        "model": "tiny",
        "checkpoint": "org/tiny",
        "served_model_name": "tiny",
        "parser": "hermes",
        "reasoning_parser": None,
        "host": "127.0.0.1",
        "port": free_port() if port is None else port,
        "timeout_s": DEADLINE_S,
        "limits": limits,
        "memory": None,
        "reasons": (),
    }
    return LaunchPlan(**(fields | changes))


def python_plan(source: str, **changes: Any) -> LaunchPlan:
    """A plan that runs a Python program instead of vLLM."""
    return plan_for(sys.executable, "-c", source, **changes)


def rehearsal_plan(*options: str, **changes: Any) -> LaunchPlan:
    """A plan that runs the stand-in for vLLM without any pace."""
    plan = plan_for(*command(), "serve", "org/tiny", **changes)
    named = [("--port", str(plan.port)), ("--served-model-name", "tiny"), ("--rehearsal-pace", "0")]
    words = tuple(Option(flag=flag, value=value) for flag, value in named)
    extra = tuple(
        Option(flag=flag, value=value) for flag, value in zip(options[::2], options[1::2], strict=True)
    )
    return plan_for(*plan.command, port=plan.port, **({"base_options": words + extra} | changes))


@contextlib.contextmanager
def started(plan: LaunchPlan, folder: Path) -> Iterator[Run]:
    """A started run, which is over afterwards with all its processes."""
    run = start(plan, folder)
    try:
        yield run
    finally:
        stop(run, timeout_s=0.5)


def wait_for(condition: Callable[[], bool]) -> None:
    """Return once the condition holds; fail after the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def said(run: Run, text: str) -> bool:
    """Whether the log of a run holds a text."""
    return text in Path(run.log).read_text(encoding="utf-8", errors="replace")


def number_after(run: Run, word: str) -> int:
    """The number the program printed behind ``word``, once it has."""
    wait_for(lambda: f"{word} " in Path(run.log).read_text() and said(run, "\n"))
    return int(Path(run.log).read_text().split(f"{word} ")[1].split()[0])


def exists(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return False
    return state not in "ZX"


def free_port() -> int:
    """A loopback port nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def kill(pid: int) -> None:
    """SIGKILL, as the kernel's OOM killer sends it."""
    os.kill(pid, 9)
