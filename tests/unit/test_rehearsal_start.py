"""The stand-in's start: vLLM's log, vLLM's exit codes, and every fault where it belongs."""

from __future__ import annotations

import re
import signal
import socket
from urllib.parse import urlsplit

import pytest
from standin import TOOLS, serving, started

from wizard.rehearsal import faults

# From the format strings of vLLM 0.33 (entrypoints, config, v1/engine, v1/worker, compilation) and uvicorn.
MILESTONES = (
    r"version (?P<ver>\d+\.\d+\S*)",
    r"non-default args: (\{.*\})",
    r"Resolved architecture: (\w+)",
    r"Using max model len (\d+)",
    r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)",
    r"Initializing a V1 LLM engine \(v([^)]+)\) with config",
    r"world_size=(\d+) rank=(\d+) local_rank=(\d+)",
    r"rank (\d+) in world size (\d+) is assigned as",
    r"Using V2 Model Runner",
    r"Loading model from scratch",
    r"Using (\w+) attention backend out of potential backends",
    r"Loading safetensors checkpoint shards.*?:\s+(?P<pct>\d+)% Completed \| (?P<n>\d+)/(?P<total>\d+)",
    r"Loading weights took ([\d.]+) seconds",
    r"Model loading took ([\d.]+) GiB(?: memory)? and ([\d.]+) seconds",
    r"torch\.compile (?:took|takes) ([\d.]+) s in total",
    r"Available KV cache memory: (-?[\d.]+) GiB",
    r"GPU KV cache size: ([\d,]+) tokens, Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x",
    r"Capturing CUDA graphs \((?P<mode>[^)]*)\):\s+(?P<pct>\d+)%.*?(?P<n>\d+)/(?P<total>\d+)",
    r"Graph capturing finished in (\d+) secs, took (-?[\d.]+) GiB",
    r"init engine \(profile, create kv cache, warmup model\) took ([\d.]+) s \(compilation: ([\d.]+) s\)",
    r'"auto" tool choice has been enabled',
    r"Starting vLLM server on (https?://\S+)",
    r"Available routes are:",
    r"Route: (\S+), Methods: (.+)",
    r"Application startup complete\.",
)
PREFIX = re.compile(
    r"^\((?P<proc>[\w\-]+) pid=(?P<pid>\d+)\) (INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[\S+\.py:\d+\] "
)
WRAPPER = (
    "RuntimeError: Engine core initialization failed. See root cause above. "
    "Failed core proc(s): {'EngineCore': 1}"
)


def can_connect(root: str) -> bool:
    place = urlsplit(root)
    try:
        socket.create_connection((place.hostname, place.port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_the_log_tells_every_milestone_of_vllm_in_its_order() -> None:
    with serving(*TOOLS) as (_root, standin):
        lines = standin.lines
    places = [
        next((n for n, line in enumerate(lines) if re.search(regex, line)), None) for regex in MILESTONES
    ]
    assert None not in places
    # Both streams go into one pipe here, and each line is flushed: the order is the true one.
    assert places == sorted(places)


def test_the_first_line_says_that_this_is_no_vllm() -> None:
    with serving() as (_root, standin):
        assert standin.lines[0].startswith("REHEARSAL:")
        assert "not vLLM" in standin.lines[0]


def test_logger_lines_carry_process_level_time_and_place_and_only_our_own_pid() -> None:
    with serving() as (_root, standin):
        matches = [PREFIX.match(line) for line in standin.lines if line.startswith("(")]
        assert matches
        assert all(matches)
        assert {match["proc"] for match in matches if match} == {"APIServer", "EngineCore"}
        assert {int(match["pid"]) for match in matches if match} == {standin.process.pid}


def test_options_of_vllm_that_mean_nothing_here_are_accepted() -> None:
    options = (
        "--gpu-memory-utilization",
        "0.9",
        "--enforce-eager",
        "--kv-cache-dtype",
        "fp8",
        "--dtype=bfloat16",
    )
    with serving(*options) as (root, _standin):
        assert can_connect(root)


@pytest.mark.parametrize(
    ("asked", "window"),
    # docs.vllm.ai, engine arguments: lower case is decimal, upper case binary; auto finds what fits.
    [("20000", 20000), ("65k", 65000), ("64K", 65536), ("25.6k", 25600), ("auto", 65536), ("-1", 65536)],
)
def test_the_window_is_read_as_vllm_reads_it(asked: str, window: int) -> None:
    with started(f"--max-model-len={asked}") as standin:
        assert int(standin.read_until(r"Using max model len (\d+)")[1]) == window


def test_figures_of_the_log_agree_with_each_other() -> None:
    with started("--max-model-len", "32768") as standin:
        gib = float(standin.read_until(r"Available KV cache memory: ([\d.]+) GiB")[1])
        found = standin.read_until(
            r"KV cache size: ([\d,]+) tokens.* for ([\d,]+) tokens per request: ([\d.]+)x"
        )
    tokens, window = (int(found[n].replace(",", "")) for n in (1, 2))
    assert window == 32768
    assert float(found[3]) == pytest.approx(tokens / window, abs=0.005)
    assert gib == pytest.approx(tokens * 98304 / 2**30, abs=0.005)


def test_keys_are_not_printed() -> None:
    with serving("--api-key", "sekrit-1") as (_root, standin):
        assert not any("sekrit-1" in line for line in standin.lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_serving_one_with_code_0(number: signal.Signals) -> None:
    with serving() as (_root, standin):
        standin.process.send_signal(number)
        assert standin.read_to_end() == 0
        assert any("[shutdown] API server: shutdown triggered" in line for line in standin.lines)
        assert standin.lines[-1].endswith("Application shutdown complete.")


def test_the_port_is_bound_before_the_load_but_nothing_listens_and_a_signal_still_ends_it() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with started("--port", str(port), "--rehearsal-fault", "never-ready") as standin:
        standin.read_until("No available shared memory broadcast block found in 60 seconds")
        assert not can_connect(f"http://127.0.0.1:{port}")
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.bind(("127.0.0.1", port))
        standin.process.send_signal(signal.SIGTERM)
        assert standin.read_to_end() == 0


def test_a_port_that_is_really_busy_ends_the_start_before_the_load() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with started("--port", str(other.getsockname()[1])) as standin:
            assert standin.read_to_end() == 1
    assert standin.lines[-1] == "OSError: [Errno 98] Address already in use"
    assert not any("Resolved architecture" in line for line in standin.lines)


def test_an_address_of_another_machine_is_told_as_what_it_is() -> None:
    # 203.0.113.0/24 is reserved for documentation (RFC 5737): no interface has it.
    with started("--host", "203.0.113.1") as standin:
        assert standin.read_to_end() == 1
    assert standin.lines[-1] == "OSError: [Errno 99] Cannot assign requested address"


# Exit codes and texts as observed with vLLM 0.32; 9 is SIGKILL.
@pytest.mark.parametrize(
    ("fault", "code", "root_cause", "last_line"),
    [
        (
            "parser-wrong-name",
            1,
            r"^KeyError: 'invalid tool call parser: hermes \(chose from \{ .*\}\)'$",
            None,
        ),
        ("port-busy", 1, r"^OSError: \[Errno 98\] Address already in use$", None),
        ("oom", 1, r"torch\.OutOfMemoryError: CUDA out of memory\.", WRAPPER),
        (
            "too-long",
            1,
            r"ValueError: To serve at least one request with the model's max seq len \(65536\)",
            WRAPPER,
        ),
        ("sampler-kernel", 1, r"RuntimeError: Triton Error \[CUDA\]: operation not permitted$", WRAPPER),
        ("dies-loading", -9, r"50% Completed", None),
    ],
)
def test_faults_of_the_start(fault: str, code: int, root_cause: str, last_line: str | None) -> None:
    with started(*TOOLS, "--rehearsal-fault", fault) as standin:
        assert standin.read_to_end() == code
    assert any(re.search(root_cause, line) for line in standin.lines)
    assert not any("Starting vLLM server" in line for line in standin.lines)
    if last_line:
        assert standin.lines[-1] == last_line


def test_a_wrong_parser_is_refused_before_anything_is_loaded() -> None:
    with started(*TOOLS, "--rehearsal-fault", "parser-wrong-name") as standin:
        standin.read_to_end()
    assert not any("Initializing a V1 LLM engine" in line for line in standin.lines)


@pytest.mark.parametrize(
    ("fault", "options", "env"),
    [
        ("too-long", ("--max-model-len", "24576"), {}),
        ("sampler-kernel", (), {"VLLM_USE_FLASHINFER_SAMPLER": "1"}),
    ],
)
def test_the_remedy_of_a_fault_helps(fault: str, options: tuple[str, ...], env: dict[str, str]) -> None:
    with serving("--rehearsal-fault", fault, *options, env=env) as (root, _standin):
        assert can_connect(root)


def test_the_window_a_start_suggests_is_one_that_starts() -> None:
    with started("--rehearsal-fault", "too-long") as standin:
        suggested = standin.read_until(r"estimated maximum model length is (\d+)")[1]
    with serving("--rehearsal-fault", "too-long", "--max-model-len", suggested) as (root, _standin):
        assert can_connect(root)


def test_every_fault_has_a_title_and_an_unknown_one_is_a_wrong_call() -> None:
    assert faults()
    assert all(title and not title.endswith(".") for title in faults().values())
    with started("--rehearsal-fault", "nonsense") as standin:
        assert standin.read_to_end() == 2
