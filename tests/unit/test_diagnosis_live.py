"""What is told while a log is still written: nothing about a start that goes well, whatever its lines say."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from wizard.diagnosis import Watch, diagnose_file, diagnose_text
from wizard.machine import load_machine

DATA = Path(__file__).parents[1] / "data"
HEALTHY = sorted((DATA / "logs").glob("healthy-*.txt"))
HARMLESS = (DATA / "harmless_lines.txt").read_bytes().splitlines(keepends=True)
BANNER = b"(APIServer pid=1) INFO 11-30 10:00:00 [api_server.py:1896] vLLM API server version 0.26.0\n"


def told(lines: Iterable[bytes], machine: str | None) -> list[tuple[str, str]]:
    """Everything above info that a person would have seen at any moment."""
    watch = Watch(machine=load_machine(machine) if machine else None)
    seen: dict[tuple[str, str], None] = {}
    for line in lines:
        before = watch.shown
        watch.feed(line)
        if watch.shown > before:
            seen |= dict.fromkeys(
                (one.severity, one.fault) for one in watch.findings() if one.severity != "info"
            )
    return list(seen)


@pytest.mark.parametrize("machine", [None, "gb10", "rtx4090x2", "h200"])
@pytest.mark.parametrize("log", HEALTHY, ids=[log.stem for log in HEALTHY])
def test_a_start_that_goes_well_is_never_called_ill_on_its_way(log: Path, machine: str | None) -> None:
    assert told(log.read_bytes().splitlines(keepends=True), machine) == []
    found = diagnose_file(log, machine=load_machine(machine) if machine else None)
    assert found.verdict == "healthy"
    assert {finding.severity for finding in found.findings} <= {"info"}


@pytest.mark.parametrize("machine", [None, "gb10", "v100x10"])
def test_harmless_lines_are_quiet_before_the_server_is_up(machine: str | None) -> None:
    assert told([BANNER, *HARMLESS], machine) == []


@pytest.mark.parametrize(
    ("line", "machine", "fault"),
    [
        (b"flashinfer.jit [Autotuner]: Autotuning process ends\n", "gb10", "autotune-silence"),
        (
            b"INFO 11-30 10:00:09 [pynccl.py:63] vLLM is using nccl==2.20.5\n",
            "rtx4090x2",
            "peer-to-peer-hang",
        ),
    ],
)
def test_what_only_silence_shows_is_told_when_the_silence_has_ended(
    line: bytes, machine: str, fault: str
) -> None:
    watch = Watch(machine=load_machine(machine))
    watch.feed(BANNER + line)
    assert watch.findings() == ()
    assert fault in [finding.fault for finding in watch.conclude().findings]


@pytest.mark.parametrize(
    "asked",
    [
        "Why do I get torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "fix OSError: [Errno 98] Address already in use in server.py",
        "EngineCore failed to start. See root cause above",
        "RuntimeError: NCCL error: unhandled cuda error",
        "OSError: [Errno 28] No space left on device",
    ],
)
def test_what_clients_ask_about_is_not_what_the_server_suffers_from(asked: str) -> None:
    """vLLM logs prompts and answers with --enable-log-requests and --enable-log-outputs."""
    begin = b"(APIServer pid=1) INFO 11-30 10:00:12 [logger.py:40] "
    prompt = begin + b"Received request chatcmpl-1: prompt: '%s', params: None\n" % asked.encode()
    answer = begin + b"Generated response chatcmpl-1: output: '%s', finish_reason: stop\n" % asked.encode()
    ready = b"(APIServer pid=1) INFO:     Application startup complete.\n"
    assert told([BANNER, ready, prompt, answer], "gb10") == []
    assert diagnose_text(BANNER + ready + prompt + answer).verdict == "healthy"
    own = b"(EngineCore pid=2) ERROR 11-30 10:00:13 [core.py:1] %s\n" % asked.encode()
    assert diagnose_text(BANNER + ready + own).verdict != "healthy"


def test_the_summary_of_memory_is_no_shortage_of_it_and_the_shortage_still_is() -> None:
    summary = (
        b"(EngineCore pid=2) INFO 12-01 06:43:37 [gpu_worker.py:857] Free memory on device (139.29/139.8 "
        b"GiB) on startup. Desired GPU memory utilization is (0.92, 128.62 GiB). Actual usage is 0.03 GiB "
        b"for weight. Replace gpu_memory_utilization config with `--kv-cache-memory=137442258535` (128.0 "
        b"GiB) to fit into requested memory. Current kv cache memory in use is 128.26 GiB.\n"
    )
    shortage = (
        b"(EngineCore pid=2) ValueError: Free memory on device cuda:0 (9.91/11.49 GiB) on startup is less "
        b"than desired GPU memory utilization (0.92, 10.57 GiB). Decrease GPU memory utilization.\n"
    )
    assert told([BANNER, summary], "h200") == []
    assert told([BANNER, summary, shortage], "h200") == [("error", "gpu-memory-taken")]
    assert told([BANNER, shortage], "gb10") == [("error", "unified-memory-taken")]
