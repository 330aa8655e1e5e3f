"""What a whole text comes to: served, failed, unknown, or cut off; and which fault comes first."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from launching import plan_for

from wizard.diagnosis import UNRECOGNISED, Diagnosis, diagnose_file, diagnose_text
from wizard.errors import UsageError
from wizard.plan import Option

LOGS = Path(__file__).parents[1] / "data" / "logs"
BANNER = "(APIServer pid=1) INFO 11-30 10:00:00 [api_server.py:1896] vLLM API server version 0.10.2\n"
READY = "(APIServer pid=1) INFO:     Application startup complete.\n"
STATS = (
    "(APIServer pid=1) INFO 11-30 10:00:10 [loggers.py:310] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
    "Avg generation throughput: 2.2 tokens/s, Running: 0 reqs\n"
)
ERROR = "(EngineCore pid=2) ERROR 11-30 10:00:05 [core.py:1] "
TAKEN = (
    ERROR
    + "EngineCore failed to start.\n"
    + ERROR
    + "ValueError: Free memory on device (13.58/15.99 GiB) on startup is "
    "less than desired GPU memory utilization (0.85, 13.59 GiB).\n"
)
STRANGE = ERROR + "EngineCore failed to start.\n" + ERROR + "ValueError: the moon is in the wrong phase\n"
CALM = "(APIServer pid=1) INFO 11-30 10:00:01 [model.py:1] Resolved architecture: Qwen3ForCausalLM\n"


def faults(found: Diagnosis) -> list[tuple[str, str]]:
    return [(finding.severity, finding.fault) for finding in found.findings]


def test_a_start_that_serves_is_healthy() -> None:
    found = diagnose_text(BANNER + CALM + READY + STATS)
    assert (found.verdict, found.findings, found.lines) == ("healthy", (), 4)


def test_a_real_log_full_of_tracebacks_is_healthy() -> None:
    found = diagnose_file(LOGS / "healthy-with-tracebacks.txt")
    assert found.verdict == "healthy"
    assert not [finding for finding in found.findings if finding.severity != "info"]
    content = (LOGS / "healthy-with-tracebacks.txt").read_bytes()
    assert (found.lines, found.bytes) == (content.count(b"\n"), len(content))


def test_a_real_log_of_a_window_that_does_not_fit() -> None:
    found = diagnose_file(LOGS / "window-too-long.txt")
    assert found.verdict == "failed"
    first = found.findings[0]
    assert first.fault == "kv-cache-too-small"
    assert first.remedies[0].set == {"--max-model-len": str(39856 // 256 * 256)}
    lines = (LOGS / "window-too-long.txt").read_text().splitlines()
    assert first.evidence[0].text[:100] in lines[first.evidence[0].line - 1]


def test_a_real_log_without_memory_for_the_cache() -> None:
    assert faults(diagnose_file(LOGS / "no-cache-memory.txt")) == [("error", "no-cache-memory")]


def test_a_failure_nobody_knows_is_quoted() -> None:
    found = diagnose_text(BANNER + CALM + STRANGE)
    assert found.verdict == "unknown"
    assert faults(found) == [("error", UNRECOGNISED)]
    assert found.findings[0].evidence[0].line == 4
    assert found.findings[0].evidence[0].text == "ValueError: the moon is in the wrong phase"


def test_a_log_that_just_stops_is_incomplete() -> None:
    assert diagnose_text(BANNER + CALM).verdict == "incomplete"
    assert diagnose_text("").verdict == "incomplete"


def test_a_second_start_that_serves_overcomes_the_first() -> None:
    found = diagnose_text(BANNER + TAKEN + BANNER + READY)
    assert found.verdict == "healthy"
    assert faults(found) == [("info", "gpu-memory-taken")]


def test_a_failure_after_serving_counts() -> None:
    assert diagnose_text(BANNER + READY + STATS + STRANGE).verdict == "unknown"
    assert diagnose_text(BANNER + READY + TAKEN).verdict == "failed"


def test_statistics_after_a_crash_do_not_make_it_well() -> None:
    frame = "frame #38: _start + 0x2a (0x55dae2fdb0fa in VLLM::EngineCore)\n"
    assert diagnose_text(STATS + frame + STATS).verdict == "unknown"


def test_what_is_said_while_stopping_is_no_failure() -> None:
    stop = "(APIServer pid=1) INFO:     Shutting down\n"
    dead = (
        ERROR
        + "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.\n"
    )
    assert diagnose_text(READY + stop + dead).verdict == "healthy"
    assert faults(diagnose_text(READY + dead + stop)) == [("error", "engine-died")]


def test_a_dead_engine_is_the_fault_only_when_there_is_no_other() -> None:
    dead = "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.\n"
    assert faults(diagnose_text(READY + TAKEN + dead)) == [("error", "gpu-memory-taken")]
    assert faults(diagnose_text(READY + STRANGE + dead)) == [("error", UNRECOGNISED)]


def test_a_clients_mistake_does_not_make_a_server_ill() -> None:
    line = "ERROR 05-12 02:47:14 [serving_chat.py:136] Error with model: The model `other` does not exist.\n"
    found = diagnose_text(READY + line)
    assert found.verdict == "healthy"
    assert faults(found) == [("info", "served-name-unknown")]
    assert diagnose_text(line).verdict == "failed"


def test_a_server_without_tool_calls_is_ill_for_an_agent() -> None:
    line = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set\n'
    assert faults(diagnose_text(READY + line)) == [("error", "tool-choice-off")]


def test_the_fault_of_the_causes_own_line_comes_first() -> None:
    early = "(Worker_TP1 pid=3) RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO)\n"
    assert faults(diagnose_text(early + TAKEN))[0] == ("error", "gpu-memory-taken")


@pytest.mark.parametrize("code", [-9, 137])
def test_a_silent_end_is_judged_by_the_exit_code(code: int) -> None:
    found = diagnose_text(BANNER + CALM, exit_code=code)
    assert found.verdict == "failed"
    assert faults(found) == [("error", "killed")]
    assert found.findings[0].evidence[0].text == "Resolved architecture: Qwen3ForCausalLM"


def test_an_exit_code_never_hides_what_the_log_says() -> None:
    assert faults(diagnose_text(BANNER + TAKEN, exit_code=137)) == [("error", "gpu-memory-taken")]
    assert diagnose_text(BANNER + CALM, exit_code=1).verdict == "unknown"
    assert diagnose_text(BANNER + READY, exit_code=0).verdict == "healthy"
    stopped = BANNER + READY + "(APIServer pid=1) INFO:     Shutting down\n"
    assert diagnose_text(stopped, exit_code=143).verdict == "healthy"


@pytest.mark.parametrize(
    "line",
    [
        "AttributeError: 'MessageFactory' object has no attribute 'GetPrototype'",
        "ModuleNotFoundError: No module named 'wrapt'",
        "WARNING 11-30 10:00:00 [a.py:1] Failed: OSError: [Errno 24] Too many open files",
        "W0424 16:12:11 autograd_cache.py:1240] AOTAutograd cache unable to serialize compiled graph: "
        "Can't pickle <function launcher at 0x7f>: attribute lookup launcher on __main__ failed",
        "(EngineCore pid=1) INFO 11-30 10:00:00 [shm_broadcast.py:681] No available shared memory broadcast "
        "block found in 60 seconds.",
    ],
)
def test_harmless_lines_are_no_findings(line: str) -> None:
    assert diagnose_text(BANNER + line + "\n" + READY).findings == ()
    assert diagnose_text(line + "\n").findings == ()


def test_remedies_that_change_nothing_in_the_plan_are_left_out() -> None:
    text = ERROR + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 80.00 MiB.\n"
    eager = {"--enforce-eager": None}
    assert any(remedy.set == eager for remedy in diagnose_text(text).findings[0].remedies)
    plan = plan_for("vllm", base_options=(Option(flag="--enforce-eager"),))
    assert not any(remedy.set == eager for remedy in diagnose_text(text, plan=plan).findings[0].remedies)


def test_the_plan_makes_remedies_concrete() -> None:
    plan = plan_for("vllm", port=8123, model="qwen3-coder-next")
    taken = diagnose_text("OSError: [Errno 98] Address already in use\n", plan=plan).findings[0]
    assert taken.remedies[1].set == {"--port": "8124"}
    missing = diagnose_text(
        "Error: --enable-auto-tool-choice requires --tool-call-parser\n", plan=plan
    ).findings[0]
    assert missing.remedies[0].set == {"--tool-call-parser": "qwen3_coder"}


def test_colours_carriers_and_binary_rubbish_hide_nothing() -> None:
    line = TAKEN.splitlines()[1]
    for text in (f"\x1b[31m{line}\x1b[0m\r\n", f"vllm-1  | {line}\n"):
        assert faults(diagnose_text(text)) == [("error", "gpu-memory-taken")]
    noise = gzip.compress(bytes(range(256)) * 50)
    assert faults(diagnose_text(noise + b"\n" + line.encode() + b"\n" + noise)) == [
        ("error", "gpu-memory-taken")
    ]


def test_a_very_long_line_is_looked_at_where_it_matters() -> None:
    found = diagnose_text(b"x" * (6 << 20) + b" CUDA out of memory. Tried" + b"y" * (1 << 20) + b"\n")
    assert faults(found) == [("error", "cuda-out-of-memory")]
    assert len(found.findings[0].evidence[0].text) <= 400


def test_evidence_is_not_repeated_and_bounded() -> None:
    found = diagnose_text(TAKEN * 500)
    assert len(found.findings[0].evidence) == 1
    assert found.lines == 1000


def test_a_file_is_read_in_pieces() -> None:
    assert diagnose_text(io.BytesIO((BANNER + TAKEN).encode())) == diagnose_text(BANNER + TAKEN)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        diagnose_file(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=str(tmp_path)):
        diagnose_file(tmp_path)
