"""How long the diagnosis of a large log takes, against ``grep -F -f`` with the same words in the same run.

The logs are made here: vLLM's steady state with one failure at its end, the same failure over and over, where
nearly every line is worth reading, and requests that fail one after the other, each under a name of its own.
grep must write into a pipe: for ``/dev/null`` it stops at once.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from wizard.diagnosis import diagnose_file
from wizard.diagnosis.lines import every_word

MEGABYTES = 200
ROUNDS = 3
LIMIT = 3.0
"""Times as long as grep."""
MEMORY_LIMIT_MIB = 200

STEADY = (
    b"(APIServer pid=1234) INFO 11-30 10:00:00 [loggers.py:310] Engine 000: Avg prompt throughput: 512.0 "
    b"tokens/s, Avg generation throughput: 45.1 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache "
    b"usage: 3.1%\n"
    b'INFO:     127.0.0.1:40000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
)
FAILURE = (
    b"(EngineCore pid=1235) ERROR 11-30 10:00:01 [core.py:1586] EngineCore encountered a fatal error.\n"
    b"(EngineCore pid=1235) ERROR 11-30 10:00:01 [core.py:1586] Traceback (most recent call last):\n"
    b'(EngineCore pid=1235) ERROR 11-30 10:00:01 [core.py:1586]   File "/opt/vllm/core.py", line 1, in run\n'
    b"(EngineCore pid=1235) ERROR 11-30 10:00:01 [core.py:1586] torch.OutOfMemoryError: CUDA out of memory.\n"
)
REQUEST = (
    b"(APIServer pid=1234) ERROR 11-30 10:00:01 [async_llm.py:500] Request chatcmpl-%s failed.\n"
    b"(EngineCore pid=1235) ERROR 11-30 10:00:01 [core.py:15] %s: OutOfMemoryError: CUDA out of memory.\n"
)


def requests(size: int) -> bytes:
    """A log of about ``size`` bytes in which every request fails, identified as vLLM does it."""
    names = (hashlib.md5(str(number).encode()).hexdigest().encode() for number in range(size // len(REQUEST)))
    return b"".join(REQUEST % (name, name) for name in names) + FAILURE


def fastest(work: Callable[[], object]) -> float:
    """The shortest of some runs, seconds."""
    times = []
    for _round in range(ROUNDS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def ratio(name: str, content: bytes, folder: Path) -> float:
    """How many times longer than grep the diagnosis takes; it must find the failure."""
    log, words = folder / name, folder / "words"
    log.write_bytes(content)
    words.write_text("\n".join(every_word()) + "\n", encoding="utf-8")
    if diagnose_file(log).verdict != "failed":
        raise SystemExit(f"{name}: the failure was not found")
    ours = fastest(lambda: diagnose_file(log))
    command = ["grep", "-c", "-F", "-f", str(words), str(log)]
    theirs = fastest(lambda: subprocess.run(command, stdout=subprocess.PIPE, check=True))
    size = len(content) / 2**20
    print(
        f"{name}: {size / ours:.0f} MiB/s, grep {size / theirs:.0f} MiB/s: {ours / theirs:.2f} times as long"
    )
    return ours / theirs


def main() -> int:
    """Print the ratios and the memory; 1 when one is over its limit."""
    size = MEGABYTES * 2**20
    with tempfile.TemporaryDirectory() as folder:
        logs = {
            "steady": STEADY * (size // len(STEADY)) + FAILURE,
            "errors": FAILURE * (size // len(FAILURE)),
            "requests": requests(size),
        }
        slowest = max(ratio(name, content, Path(folder)) for name, content in logs.items())
    read = subprocess.run(
        [sys.executable, "-c", _READ_LONG], capture_output=True, text=True, check=True
    ).stdout.strip()
    print(f"most memory for 1 GB: {read} MiB (limit {MEMORY_LIMIT_MIB})")
    within = slowest <= LIMIT and float(read) <= MEMORY_LIMIT_MIB
    return 0 if within else 1


_READ_LONG = """
from pathlib import Path

from benchmarks.log_scan import FAILURE, STEADY
from wizard.diagnosis import diagnose_text

piece = STEADY * 4000 + FAILURE
assert diagnose_text(piece for _ in range(2**30 // len(piece))).bytes > 10**9
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(int(status["VmHWM"].split()[0]) // 1024)
"""


if __name__ == "__main__":
    sys.exit(main())
