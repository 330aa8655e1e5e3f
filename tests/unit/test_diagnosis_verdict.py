"""What a whole text comes to: served, failed, unknown, or cut off; and which fault comes first."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path

import pytest
from launching import plan_for

from wizard.diagnosis import UNRECOGNISED, Diagnosis, Watch, diagnose_file, diagnose_text
from wizard.errors import UsageError
from wizard.machine import load_machine
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
    assert faults(diagnose_file(LOGS / "no-cache-memory.txt"))[0] == ("error", "no-cache-memory")


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


def test_a_log_that_gzip_packed_is_read_even_where_it_breaks_off(tmp_path: Path) -> None:
    packed = tmp_path / "vllm.log.1.gz"
    whole = gzip.compress((BANNER + TAKEN + CALM * 2000).encode(), mtime=0)
    packed.write_bytes(whole)
    assert diagnose_file(tmp_path) == diagnose_text(BANNER + TAKEN + CALM * 2000)
    noise = gzip.compress(BANNER.encode() + TAKEN.encode() + os.urandom(200_000))
    packed.write_bytes(noise[: len(noise) // 2])
    assert faults(diagnose_file(packed)) == [("error", "gpu-memory-taken")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig"])
def test_a_log_that_windows_redirected_into_a_file_is_read(encoding: str) -> None:
    text = (BANNER + TAKEN).replace("\n", "\r\n").encode(encoding)
    for size in (len(text), 7, 4096):
        found = diagnose_text(text[at : at + size] for at in range(0, len(text), size))
        assert faults(found) == [("error", "gpu-memory-taken")]
        assert found.bytes == len(text)


def test_a_smoke_report_says_what_failed_and_not_what_it_provoked() -> None:
    """The test asks for a name nobody serves and for more than the window, to see how that is refused."""
    refused = "HTTP 404 The model `a-name-nobody-serves` does not exist."
    cut = "HTTP 400 This model's maximum context length is 131072 tokens. However, you requested 131072"
    checks = [
        {"id": "wrong-model", "status": "ok", "required": False, "evidence": refused},
        {"id": "output-limit", "status": "warn", "required": False, "detail": "Refused.", "evidence": cut},
    ]
    for indent in (None, 2):
        passed = diagnose_text(json.dumps({"checks": checks, "verdict": "pass"}, indent=indent))
        assert (passed.verdict, passed.findings) == ("healthy", ())
        call = {
            "id": "tool-call",
            "status": "fail",
            "required": True,
            "detail": "text",
            "evidence": "<tools>{}",
        }
        failed = diagnose_text(json.dumps({"checks": [*checks, call], "verdict": "fail"}, indent=indent))
        assert [finding.fault for finding in failed.findings] == ["tools-tag"]
        assert [seen.text[:22] for seen in failed.findings[0].evidence] == ["check failed tool-call"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        diagnose_file(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=str(tmp_path)):
        diagnose_file(tmp_path)


def test_the_newest_log_of_a_folder_is_read(tmp_path: Path) -> None:
    for age, name in enumerate(("b.log", "a.log", "notes.md")):
        (tmp_path / name).write_text(TAKEN if name == "a.log" else CALM)
        os.utime(tmp_path / name, (age, age))
    assert faults(diagnose_file(tmp_path)) == [("error", "gpu-memory-taken")]


def test_what_a_progress_bar_overwrote_hides_nothing() -> None:
    bar = "Capturing CUDA graphs:  10%|#|\rCapturing CUDA graphs: 100%|##|\r"
    assert faults(diagnose_text(bar + "OSError: [Errno 98] Address already in use\r\n")) == [
        ("error", "port-in-use")
    ]


KERNEL = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
BFLOAT = (
    "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. "
    "Your Tesla T4 GPU has compute capability 7.5.\n"
)
MEMORY = "ValueError: Free memory on device cuda:0 (100.5/121.6 GiB) on startup is less than desired.\n"
PICKLE = "Can't pickle <function launcher at 0x7f>: attribute lookup launcher on __main__ failed\n"
REFUSED = "RuntimeError: Triton Error [CUDA]: operation not permitted\n"
NCCL = "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n"
XID = (
    "(APIServer pid=1) INFO 11-30 10:00:00 [api_server.py:1896] vLLM API server version 0.28.0\n"
    "NVRM: Xid (PCI:0000:01:00): 13, pid=7, Graphics SM Warp Exception: Out Of Range Address\n"
)


@pytest.mark.parametrize(
    ("text", "machine", "fault"),
    [
        (KERNEL, "rtx5090", "gpu-too-new"),
        (KERNEL, "v100x10", "gpu-dropped"),
        (BFLOAT, "t4", "bf16-unsupported"),
        (BFLOAT, "rtx4090x2", "device-order"),
        (MEMORY, "gb10", "unified-memory-taken"),
        (MEMORY, "h200", "gpu-memory-taken"),
        (NCCL, "v100x10", "nccl-other-cuda"),
        (NCCL, "hgx-h100x8", "nccl-cuda-error"),
        (XID, "rtx5090", "fp8-workspace"),
        (XID, "a100x4", "illegal-memory-access"),
        ("!!!!!!!!!!!!\n", "gb10", "garbage-fp4"),
        ("!!!!!!!!!!!!\n", "t4", "garbage-half"),
        ("No available memory for the cache blocks\n", "gb10", "unified-cold-start"),
        ("No available memory for the cache blocks\n", "h200", "no-cache-memory"),
    ],
)
def test_the_machine_decides_between_causes_that_say_the_same(text: str, machine: str, fault: str) -> None:
    found = diagnose_text(text, machine=load_machine(machine))
    assert found.findings[0].fault == fault
    assert found.verdict == "failed"


@pytest.mark.parametrize(("machine", "told"), [("gb10", [True]), ("h200", []), (None, [False])])
def test_what_may_not_be_for_this_machine_is_told_but_not_certain(
    machine: str | None, told: list[bool]
) -> None:
    text = "RuntimeError: Engine core initialization failed. Failed core proc(s): {'EngineCore': -9}\n"
    found = diagnose_text(text, machine=load_machine(machine) if machine else None)
    shared = [one.certain for one in found.findings[0].remedies if "--gpu-memory-utilization" in one.set]
    assert found.findings[0].fault == "killed"
    assert shared == told


def test_near_twins_are_told_apart() -> None:
    fatal, warned = "_pickle.PicklingError: " + PICKLE, "AOTAutograd cache unable to serialize: " + PICKLE
    assert faults(diagnose_text(fatal)) == [("error", "compile-cache-pickle")]
    assert not [one for one in faults(diagnose_text(warned)) if one[0] != "info"]
    old = "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'\n"
    assert faults(diagnose_text(old)) == [("error", "ptxas-too-old")]
    assert faults(diagnose_text(old.replace("ptxas ", "ptxas-blackwell "))) == [
        ("error", "ptxas-blackwell-too-old")
    ]


def test_the_version_decides_whether_the_samplers_variable_is_offered() -> None:
    """It is vLLM's own default from 0.21 on."""
    variable = {"VLLM_USE_FLASHINFER_SAMPLER": "1"}
    old = diagnose_text(REFUSED, machine=load_machine("gb10"), vllm_version="0.11.2").findings[0]
    assert (old.fault, old.remedies[0].env) == ("triton-not-permitted", variable)
    assert "0.21" in old.remedies[0].until
    new = diagnose_text(REFUSED, machine=load_machine("gb10"), vllm_version="0.27.1").findings[0]
    assert variable not in [remedy.env for remedy in new.remedies]
    assert any("VLLM_USE_FLASHINFER_SAMPLER" in text for text in new.will_not_help)


def test_a_refused_kernel_after_days_of_service_is_another_fault() -> None:
    text = BANNER + READY + STATS + ERROR + "EngineCore encountered a fatal error.\n" + ERROR + REFUSED
    assert diagnose_text(text, machine=load_machine("gb10")).findings[0].fault == "triton-late"


def test_the_version_in_the_log_counts_when_none_is_given() -> None:
    text = BANNER.replace("0.10.2", "0.33.0") + "RuntimeError: Could not find nvcc\n"
    first = diagnose_text(text).findings[0].remedies[0]
    assert first.commands == ("vllm download-kernels",)


def test_options_in_the_log_and_in_the_plan_decide_remedies() -> None:
    oom = "Out of memory: Killed process 7 (VLLM::EngineCor)\n"
    offload = ("--cpu-offload-gb", "--swap-space", "--kv-offloading-size")
    plain = diagnose_text(oom, plan=plan_for("vllm")).findings[0]
    assert offload not in [remedy.unset for remedy in plain.remedies]
    plan = plan_for("vllm", base_options=(Option(flag="--cpu-offload-gb", value="8"),))
    assert offload in [remedy.unset for remedy in diagnose_text(oom, plan=plan).findings[0].remedies]


@pytest.mark.parametrize(
    ("code", "fault"),
    [(137, "killed"), (129, "shell-closed"), (-11, "crashed-natively"), (143, "stopped-from-outside")],
)
def test_exit_codes_of_a_silent_end(code: int, fault: str) -> None:
    assert faults(diagnose_text(BANNER + CALM, exit_code=code))[0][1] == fault


def test_the_kernels_word_outweighs_an_exit_code() -> None:
    text = BANNER + CALM + "kernel: Out of memory: Killed process 4 (VLLM::EngineCor) total-vm:9kB\n"
    assert faults(diagnose_text(text, exit_code=137))[0] == ("error", "host-out-of-memory")
    compiler = "kernel: Out of memory: Killed process 4 (cicc) total-vm:9kB\n"
    assert faults(diagnose_text(BANNER + CALM + compiler))[0] == ("error", "compiler-killed")


def test_a_silent_end_without_an_exit_code_is_stated_as_such() -> None:
    found = diagnose_text(BANNER + CALM)
    assert (found.verdict, faults(found)) == ("incomplete", [("warning", "ended-silently")])


def test_a_log_is_diagnosed_while_it_is_written() -> None:
    watch = Watch(machine=load_machine("h200"))
    watch.feed(BANNER.encode() + CALM.encode())
    assert watch.findings() == ()
    watch.feed(TAKEN[:-10].encode())
    assert watch.findings() == ()
    watch.feed(TAKEN[-10:].encode())
    assert [finding.fault for finding in watch.findings()] == ["gpu-memory-taken"]
    assert watch.conclude(1).verdict == "failed"


def test_of_a_crowd_of_lines_that_differ_in_figures_the_last_one_counts() -> None:
    line = "ValueError: Free memory on device ({free:.2f}/79.19 GiB) on startup is less than desired.\n"
    text = BANNER + "".join(line.format(free=number / 10) for number in range(1, 501)) + CALM
    found = diagnose_text(text)
    assert found.findings[0].evidence[-1].line == 501
    assert found.findings[0].remedies[0].set == {"--gpu-memory-utilization": "0.63"}
