"""vLLM's own figures, in the wordings of its versions and in its metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from wizard.serve import EngineFigures, read_figures
from wizard.serve.figures import figures_in_log, figures_in_metrics

# Lines as vLLM prints them: 0.8 without a process, 0.10.2 and later with one, one line since 0.28, the pool
# named since 0.30.
OLD = """
INFO 05-02 10:00:00 [gpu_model_runner.py:1347] Model loading took 14.2490 GiB and 10.1 seconds
INFO 05-02 10:00:10 [kv_cache_utils.py:634] GPU KV cache size: 1,234,560 tokens
INFO 05-02 10:00:10 [kv_cache_utils.py:637] Maximum concurrency for 131,072 tokens per request: 9.42x
INFO 05-02 10:00:40 [gpu_model_runner.py:1686] Graph capturing finished in 20 secs, took 0.53 GiB
"""
NEW = """
(Worker_TP0 pid=11) INFO 11-30 10:00:00 [runner.py:1] Model loading took 37.51 GiB memory and 20.5 seconds
(Worker_TP1 pid=12) INFO 11-30 10:00:01 [runner.py:1] Model loading took 37.49 GiB memory and 20.7 seconds
(EngineCore pid=10) INFO 11-30 10:00:02 [interface.py:1] Setting attention block size to 544 tokens to
(Worker_TP0 pid=11) INFO 11-30 10:00:09 [gpu_worker.py:773] Available KV cache memory: 50.76 GiB
(Worker_TP1 pid=12) INFO 11-30 10:00:09 [gpu_worker.py:773] Available KV cache memory: 50.71 GiB
(EngineCore pid=10) INFO 11-30 10:00:10 [kv.py:1] GPU KV cache size: 4,308,992 tokens, \
Maximum concurrency for 65,536 tokens per request: 65.75x
"""
CPU = "CPU KV cache size: 262,144 tokens, Maximum concurrency for 32,768 tokens per request: 8.00x"
NEGATIVE = "INFO 05-02 10:00:10 [gpu_worker.py:300] Available KV cache memory: -1.25 GiB"


def in_log(text: str) -> EngineFigures:
    return figures_in_log(text.splitlines())


def test_old_wordings() -> None:
    assert in_log(OLD) == EngineFigures(
        weights_gib=14.249,
        graphs_gib=0.53,
        cache_tokens=1_234_560,
        window=131_072,
        max_concurrency=9.42,
    )


def test_new_wordings_of_two_workers() -> None:
    assert in_log(NEW) == EngineFigures(
        weights_gib=37.51,
        available_kv_gib=50.71,
        cache_tokens=4_308_992,
        window=65_536,
        max_concurrency=65.75,
        block_size=544,
    )


def test_other_pools_and_missing_memory() -> None:
    assert in_log(CPU).cache_tokens == 262_144
    assert in_log(NEGATIVE).available_kv_gib == -1.25
    assert in_log("Traceback: nothing to see, 12 tokens") == EngineFigures()


METRIC = (
    "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n"
    'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",gpu_memory_utilization="0.92",'
    'kv_cache_max_concurrency="8.0",kv_cache_size_tokens="262144",num_gpu_blocks="16384"} 1.0\n'
)


def test_metrics() -> None:
    assert figures_in_metrics(METRIC) == EngineFigures(
        cache_tokens=262_144,
        max_concurrency=8.0,
        block_size=16,
        num_blocks=16_384,
        gpu_memory_utilization=0.92,
    )


@pytest.mark.parametrize("label", ["None", "nan", "inf", ""])
def test_a_label_without_a_figure_states_nothing(label: str) -> None:
    page = f'vllm:cache_config_info{{num_gpu_blocks="{label}",block_size="16"}} 1.0\n'
    assert figures_in_metrics(page) == EngineFigures(block_size=16)


def test_a_server_and_a_log_that_are_gone_state_nothing(tmp_path: Path) -> None:
    assert read_figures("http://127.0.0.1:9/v1", str(tmp_path / "none.log")) == EngineFigures()


def test_the_log_of_a_start_is_read_to_its_end(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(NEW)
    assert read_figures("http://127.0.0.1:9/v1", str(log)).available_kv_gib == 50.71
