"""How long a key takes to reach the screen while a log runs at 50,000 lines a second, against a quiet one.

Everything between the log file and the screen is real: a program writes the file, it is followed, diagnosed
and drawn. Both are measured in the same run, and the memory the feed takes.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from screens.app import WizardApp
from screens.launch import LaunchScreen
from wizard import flow
from wizard.flow import Journey, answers_from
from wizard.flow.hearing import Listening
from wizard.flow.setup import choose_for_me
from wizard.serve import Run, follow

LINES_PER_S = 50_000
PRESSES = 30
RATIO_LIMIT = 3.0
MEMORY_LIMIT_MIB = 150

WRITER = """
import sys, time
lines = int(sys.argv[2])
text = "(EngineCore pid=1) INFO 11-30 10:00:00 [loggers.py:310] Engine 000: Avg throughput: {} tokens/s\\n"
block = "".join(text.format(number) for number in range(lines // 20))
with open(sys.argv[1], "a") as file:
    due = time.monotonic()
    while True:
        file.write(block)
        file.flush()
        due += 0.05
        time.sleep(max(0.0, due - time.monotonic()))
"""


def planned() -> Journey:
    """A rehearsal that stands before its launch."""
    raw = {"start": {"mode": "rehearse"}}
    return choose_for_me(Journey(answers=answers_from(raw, "benchmark")), lambda _event: None)


async def key_times(journey: Journey, log: Path) -> list[float]:
    """Milliseconds from a key to the screen drawn with it, while the log is followed."""

    def launch(now: Journey, emit: object, cancel: threading.Event) -> Journey:
        if log is None:
            cancel.wait()
        else:
            for event in follow(
                _run(log), timeout_s=600, cancel=cancel, listener=Listening(now, flow.need(now.plan)).hear
            ):
                emit(event)  # type: ignore[operator]
        raise flow.Cancelled("over")

    flow.launch = launch
    app = WizardApp(journey)
    times = []
    async with app.run_test(size=(80, 24)) as pilot:
        assert isinstance(pilot.app.screen, LaunchScreen)
        await pilot.press("enter")
        await asyncio.sleep(2.0)
        for _number in range(PRESSES):
            began = time.perf_counter()
            await pilot.press("l")
            times.append(1000 * (time.perf_counter() - began))
            await asyncio.sleep(0.05)
        pilot.app.screen.cancel.set()
        await pilot.pause()
    return times


def _run(log: Path) -> Run:
    """This process stands for the server: it lives and never answers."""
    me = psutil.Process()
    return Run(
        id="feed",
        plan_id="feed",
        folder=str(log.parent),
        log=str(log),
        pid=os.getpid(),
        process_started=me.create_time(),
        started_at=time.time(),
        base_url="http://127.0.0.1:9/v1",
        served_model_name="feed",
        argv=(),
    )


def main() -> int:
    """Print both; 1 if a key is felt as late or the memory grows."""
    journey = planned()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "vllm.log"
        log.write_text("one line\n", encoding="utf-8")
        quiet = asyncio.run(key_times(journey, log))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with subprocess.Popen([sys.executable, "-c", WRITER, str(log), str(LINES_PER_S)]) as writer:
            try:
                loud = asyncio.run(key_times(journey, log))
            finally:
                writer.kill()
        lines = log.stat().st_size // 100
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    was, now = statistics.median(quiet), statistics.median(loud)
    print(f"key to screen, quiet: {was:6.1f} ms (slowest {max(quiet):.1f})")
    print(f"key to screen, {LINES_PER_S} lines a second: {now:6.1f} ms (slowest {max(loud):.1f})")
    print(f"ratio: {now / was:.2f} (limit {RATIO_LIMIT}); about {lines} lines; memory +{grown:.0f} MiB")
    return int(now > RATIO_LIMIT * was or grown > MEMORY_LIMIT_MIB)


if __name__ == "__main__":
    sys.exit(main())
