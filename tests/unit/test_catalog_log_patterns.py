"""The patterns for vLLM's log, against lines as vLLM 0.8 to 0.33 writes them."""

from __future__ import annotations

import re

import pytest

from wizard.catalog import vllm_facts

MILESTONES = [
    ("started", "vLLM server version 0.33.0, serving model Qwen/Qwen3-Coder-Next-FP8", {"value": "0.33.0"}),
    ("started", "       ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.23.0", {"value": "0.23.0"}),
    ("started", "vLLM API server version 0.10.2", {"value": "0.10.2"}),
    ("recognised", "Resolved architecture: Qwen3NextForCausalLM", {"value": "Qwen3NextForCausalLM"}),
    ("window", "Using max model len 65536", {"value": "65536"}),
    ("engine", "Initializing a V1 LLM engine (v0.33.0) with config: model='/m'", {"value": "0.33.0"}),
    (
        "attention",
        "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'TRITON_ATTN'].",
        {"value": "FLASH_ATTN"},
    ),
    ("attention", "[cuda.py:405] Using TRITON_ATTN backend.", {"value": "TRITON_ATTN"}),
    ("attention", "Using Flash Attention backend on V1 engine.", {"value": "Flash Attention"}),
    (
        "download",
        "Time spent downloading weights for Qwen/Qwen3-8B: 109.554302 seconds",
        {"value": "109.554302 seconds"},
    ),
    ("weights", "Loading model from scratch...", {}),
    ("weights", "Starting to load model /models/qwen3...", {"value": "/models/qwen3"}),
    ("weights", "Checkpoint size: 74.92 GiB. Available RAM: 100.00 GiB.", {"value": "74.92 GiB"}),
    (
        "weights",
        "Loading safetensors checkpoint shards:  78% Completed | 31/40 [02:10<00:38,  4.25s/it]",
        {"done": "31", "total": "40"},
    ),
    (
        "weights",
        "Loading safetensors using Fastsafetensor loader:   5% Completed | 2/42 [00:00<00:02, 17.07it/s]",
        {"done": "2", "total": "42"},
    ),
    (
        "weights",
        "Multi-thread loading shards:  50% Completed | 8/16 [00:01<00:01,  5.0it/s]",
        {"done": "8", "total": "16"},
    ),
    ("loaded", "Model loading took 56.93 GiB memory and 31.20 seconds", {"value": "56.93 GiB"}),
    ("loaded", "Model loading took 7.6785 GiB and 2.195456 seconds", {"value": "7.6785 GiB"}),
    ("compile", "Starting torch.compile...", {}),
    ("compile", "[backbone] Dynamo bytecode transform time: 3.70 s", {"value": "3.70 s"}),
    ("compile", "torch.compile takes 21.63 s in total", {"value": "21.63 s"}),
    ("memory", "Available KV cache memory: 68.78 GiB", {"value": "68.78 GiB"}),
    ("memory", "Available KV cache memory: -0.73 GiB", {"value": "-0.73 GiB"}),
    (
        "cache",
        "GPU KV cache size: 751,280 tokens, Maximum concurrency for 65,536 tokens per request: 11.46x",
        {"value": "751,280 tokens"},
    ),
    ("cache", "GPU + host KV cache size: 751,280 tokens", {"value": "751,280 tokens"}),
    ("cache", "Maximum concurrency for 65,536 tokens per request: 11.46x", {"value": "11.46x"}),
    (
        "graphs",
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  43%|████▎     | 22/51 [00:01<00:01]",
        {"done": "22", "total": "51"},
    ),
    ("graphs", "Capturing CUDA graphs (decode, FULL): 100%|██████████| 35/35 [00:02<00:00]", {"done": "35"}),
    (
        "graphs",
        "Capturing CUDA graph shapes:  97%|█████████▋| 65/67 [00:15<00:00]",
        {"done": "65", "total": "67"},
    ),
    ("graphs", "Graph capturing finished in 5 secs, took -0.26 GiB", {"value": "-0.26 GiB"}),
    (
        "warm",
        "init engine (profile, create kv cache, warmup model) took 58.55 s (compilation: 21.63 s)",
        {"value": "58.55 s"},
    ),
    ("tools", '"auto" tool choice has been enabled.', {}),
    ("binding", "Starting vLLM server on http://127.0.0.1:8000", {"value": "http://127.0.0.1:8000"}),
    ("binding", "Starting vLLM API server 0 on http://0.0.0.0:8000", {"value": "http://0.0.0.0:8000"}),
    ("ready", "INFO:     Application startup complete.", {}),
]

ORDINARY = [
    "Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)",
    'INFO:     127.0.0.1:51522 - "GET /health HTTP/1.1" 200 OK',
    "Engine 000: Avg prompt throughput: 12.0 tokens/s, Avg generation throughput: 40.1 tokens/s",
    "No available shared memory broadcast block found in 60 seconds.",
    "non-default args: {'model_tag': 'm', 'port': 8000}",
]

FAILURES = [
    ("opens", "EngineCore failed to start."),
    ("opens", "WorkerProc failed to start."),
    (
        "cause",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
    ),
    ("cause", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    ("cause", "OSError: [Errno 98] Address already in use"),
    ("cause", "KeyError: 'invalid tool call parser: qwen3 (chose from { hermes,qwen3_coder })'"),
    ("cause", "vllm: error: unrecognized arguments: --max-model-length 5"),
    ("cause", "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor."),
    ("wrapper", "Worker proc VllmWorker-1 died unexpectedly (exit code: 0), shutting down executor."),
    (
        "wrapper",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ),
    ("wrapper", "RuntimeError: Worker failed with error 'CUDA error', please check the stack trace above"),
    (
        "wrapper",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)",
    ),
    (None, "WARNING: this is not an error: nothing failed"),
    (
        None,
        "Free memory on device (100.0/139.8 GiB) on startup. Desired GPU memory utilization is (0.92).",
    ),
]


def reached(line: str) -> dict[str, dict[str, str]]:
    """The milestones in a line, each with the groups of its first pattern that is found."""
    stages: dict[str, dict[str, str]] = {}
    for milestone in vllm_facts().milestone:
        matches = filter(None, (re.search(pattern, line) for pattern in milestone.patterns))
        for found in list(matches)[:1]:
            stages[milestone.id] = found.groupdict()
    return stages


@pytest.mark.parametrize(("id", "line", "groups"), MILESTONES)
def test_milestones(id: str, line: str, groups: dict[str, str]) -> None:
    found = reached(line)
    assert set(found) == {id}
    assert groups.items() <= found[id].items()


def test_every_milestone_has_a_sample_here() -> None:
    assert {milestone.id for milestone in vllm_facts().milestone} == {id for id, _line, _groups in MILESTONES}


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_lines_are_no_milestone(line: str) -> None:
    assert reached(line) == {}


def test_only_the_last_milestone_says_ready() -> None:
    assert [milestone.ready for milestone in vllm_facts().milestone].count(True) == 1
    assert vllm_facts().milestone[-1].ready


def test_every_pattern_compiles_and_uses_known_groups() -> None:
    allowed = {"milestone": {"value", "done", "total"}, "failure": {"error", "text"}}
    for kind, groups in allowed.items():
        for entry in getattr(vllm_facts(), kind):
            for pattern in entry.patterns:
                compiled = re.compile(pattern)
                assert set(compiled.groupindex) <= groups
                assert ("done" in compiled.groupindex) == ("total" in compiled.groupindex)
                # google-re2 scans in linear time and knows no lookaround nor back references.
                assert not re.search(r"\(\?[=!<][=!]?(?!\w+>)|\\[1-9]", pattern)


@pytest.mark.parametrize(("role", "line"), FAILURES)
def test_failures(role: str | None, line: str) -> None:
    failures = vllm_facts().failure
    found = [entry.role for entry in failures if any(re.search(pattern, line) for pattern in entry.patterns)]
    assert found[:1] == ([role] if role else [])


@pytest.mark.parametrize(
    ("line", "process", "level", "rest"),
    [
        ("(EngineCore pid=901) INFO 11-30 20:06:01 [core.py:140] hello", "EngineCore", "INFO", "hello"),
        ("(Worker_TP0 pid=7) ERROR 11-30 20:06:01 [multiproc_executor.py:9] x", "Worker_TP0", "ERROR", "x"),
        ("INFO 06-08 22:26:34 [cuda.py:433] old", None, "INFO", "old"),
        ("INFO:     Application startup complete.", None, None, "INFO:     Application startup complete."),
    ],
)
def test_how_lines_begin(line: str, process: str | None, level: str | None, rest: str) -> None:
    log = vllm_facts().log
    by_process = re.match(log.process, line)
    assert (by_process and by_process["process"]) == process
    body = line[by_process.end() :] if by_process else line
    by_level = re.match(log.level, body)
    assert (by_level and by_level["level"]) == level
    assert (body[by_level.end() :] if by_level else body) == rest
