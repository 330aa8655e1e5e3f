"""The budget of whole choices: which window is chosen, and what is said where nothing is known."""

from __future__ import annotations

from typing import Any

import pytest

from wizard.budget import Budget, make_budget
from wizard.catalog import model
from wizard.machine import Gpu
from wizard.memory import EngineSettings


def gb10(**changes: Any) -> Gpu:
    whole: dict[str, Any] = {
        "index": 0,
        "name": "NVIDIA GB10",
        "uuid": "",
        "compute_capability": "12.1",
        "memory_mib": 124_546,
        "memory_free_mib": 118_000,
        "memory_origin": "measured",
        "unified": True,
        "bandwidth_gbs": 273.0,
        "architecture": "blackwell",
        "links": {},
    }
    return Gpu(**(whole | changes))


def budget_of(name: str, device: Gpu | None, weights: float | None, **changes: Any) -> Budget:
    known = model(name)
    settings = EngineSettings(vllm_version="0.33.0", max_model_len=changes.pop("window", None))
    whole: dict[str, Any] = {
        "gpu": device,
        "weights_gib": weights,
        "config": known.config,
        "context": known.context,
        "thinks": known.thinks,
        "settings": settings,
    }
    return make_budget(**(whole | changes))


def codes(budget: Budget) -> set[str]:
    return {warning.code for warning in budget.opencode.warnings}


def test_gb10_holds_the_whole_context_of_qwen3_coder_next() -> None:
    budget = budget_of("qwen3-coder-next", gb10(), 75.0)
    assert budget.max_model_len == budget.opencode.context == 262144
    assert budget.kv is not None
    assert budget.kv.max_concurrency > 1
    assert budget.memory is not None
    assert budget.memory.gpu_memory_utilization == 0.8
    assert not budget.opencode.warnings


def test_the_window_shrinks_to_what_fits_in_whole_steps() -> None:
    small = gb10(name="NVIDIA GeForce RTX 4090", compute_capability="8.9", memory_mib=24564, unified=False)
    budget = budget_of("gpt-oss-20b", small, 17.5)
    assert budget.max_model_len is not None
    assert budget.kv is not None
    assert budget.max_model_len % 1024 == 0
    assert 0 <= budget.kv.max_model_len_fit - budget.max_model_len < 1024
    assert budget.max_model_len < 131072
    assert budget.opencode.context == budget.max_model_len


def test_more_people_at_once_share_the_memory() -> None:
    one = budget_of("qwen3-coder-30b-a3b", gb10(), 56.9)
    two = budget_of("qwen3-coder-30b-a3b", gb10(), 56.9, concurrency=2)
    assert one.max_model_len is not None
    assert two.max_model_len is not None
    assert two.max_model_len < one.max_model_len
    assert two.kv is not None
    assert two.kv.max_concurrency >= 2
    crowd = budget_of("qwen3-coder-30b-a3b", gb10(), 56.9, concurrency=64)
    assert crowd.max_model_len == 32768
    assert codes(crowd) == {"concurrency-small"}
    assert not crowd.opencode.refused


@pytest.mark.parametrize(
    ("window", "weights", "code"),
    [
        (262144, 93.0, "window-does-not-fit"),
        (300_000, 75.0, "window-over-context"),
        (65536, 120.0, "no-kv-memory"),
        (None, 120.0, "no-kv-memory"),
        (8192, 75.0, "window-too-small"),
    ],
)
def test_what_cannot_work_is_refused(window: int | None, weights: float, code: str) -> None:
    budget = budget_of("qwen3-coder-next", gb10(), weights, window=window)
    assert code in codes(budget)
    assert budget.opencode.refused


def test_the_users_window_is_kept() -> None:
    budget = budget_of("qwen3-coder-next", gb10(), 75.0, window=65536)
    assert budget.max_model_len == 65536
    assert (budget.opencode.input, budget.opencode.output) == (57344, 8192)


def test_an_unknown_architecture_leaves_the_window_to_vllm() -> None:
    config = {"architectures": ["BrandNewForCausalLM"]}
    budget = budget_of("qwen3-coder-next", gb10(), 75.0, config=config, context=None)
    assert budget.max_model_len is None
    assert budget.kv is None
    assert budget.opencode.context == 32768
    assert codes(budget) == {"window-assumed"}
    assert not budget.opencode.refused
    known = budget_of("qwen3-coder-next", gb10(), 75.0, config=config, context=131072)
    assert known.opencode.context == 131072


def test_without_a_gpu_there_is_no_memory_figure() -> None:
    budget = budget_of("qwen3-coder-next", None, 75.0, window=32768)
    assert budget.memory is None
    assert budget.kv is None
    assert budget.max_model_len == budget.opencode.context == 32768


def test_a_known_figure_replaces_the_estimate() -> None:
    """vLLM 0.26.0 with half of Qwen3-Coder-Next's layers said 50.76 GiB and 4,308,992 tokens."""
    config = model("qwen3-coder-next").config | {"num_hidden_layers": 24}
    budget = make_budget(
        gpu=gb10(name="NVIDIA H200", compute_capability="9.0", memory_mib=143_771, unified=False),
        weights_gib=74.83,
        config=config,
        context=262144,
        thinks=False,
        settings=EngineSettings(vllm_version="0.26.0", max_model_len=65536),
        available_kv_gib=50.76,
    )
    assert budget.kv is not None
    assert budget.kv.cache_tokens == 4_308_992
    assert budget.memory is not None
    assert budget.memory.available_kv_gib == 50.76
