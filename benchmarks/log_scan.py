"""How long the diagnosis of a large log takes, against reading and splitting the same bytes into lines.

The log is made here, in the shape of vLLM's steady state with one failure at its end.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable

from wizard.diagnosis import diagnose_text

MEGABYTES = 100
ROUNDS = 3
LIMIT = 100.0

STEADY = (
    b"(APIServer pid=1234) INFO 11-30 10:00:00 [loggers.py:310] Engine 000: Avg prompt throughput: 512.0 "
    b"tokens/s, Avg generation throughput: 45.1 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache "
    b"usage: 3.1%\n"
    b'INFO:     127.0.0.1:40000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
)
FAILURE = (
    b"(EngineCore pid=1235) ERROR 11-30 10:00:01 [core.py:1586] EngineCore encountered a fatal error.\n"
    b"(EngineCore pid=1235) ERROR 11-30 10:00:01 [core.py:1586] torch.OutOfMemoryError: CUDA out of memory.\n"
)


def fastest(work: Callable[[], object]) -> float:
    """The shortest of some runs, seconds."""
    times = []
    for _round in range(ROUNDS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> int:
    """Print the ratio; 1 when it is over the limit."""
    log = STEADY * (MEGABYTES * 2**20 // len(STEADY)) + FAILURE
    found = diagnose_text(io.BytesIO(log))
    if found.verdict != "failed":
        print(f"the failure at the end was not found: {found.verdict}")
        return 1
    ratio = fastest(lambda: diagnose_text(io.BytesIO(log))) / fastest(lambda: sum(1 for _ in io.BytesIO(log)))
    print(f"diagnosis of {MEGABYTES} MB: {ratio:.1f} times splitting it into lines (limit {LIMIT:g})")
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
