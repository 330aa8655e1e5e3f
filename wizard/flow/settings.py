"""The engine settings the answers ask for, before and after a model is chosen."""

from __future__ import annotations

import msgspec

from wizard import catalog
from wizard.flow.journey import Journey, need
from wizard.memory import EngineSettings
from wizard.runtime import Runtime


def engine_settings(journey: Journey, runtime: Runtime) -> EngineSettings:
    """What the answers say, before a model is chosen."""
    budget = journey.answers.budget
    return EngineSettings(
        vllm_version=runtime.version or catalog.vllm_facts().newest,
        gpu_memory_utilization=budget.gpu_memory_utilization,
        max_model_len=None if budget.max_model_len == "auto" else budget.max_model_len,
        kv_cache_dtype=budget.kv_cache_dtype,
    )


def plan_settings(journey: Journey) -> EngineSettings:
    """What holds for the chosen model."""
    choice = need(journey.choice)
    return msgspec.structs.replace(
        engine_settings(journey, need(journey.runtime)),
        tensor_parallel_size=choice.tensor_parallel_size,
        pipeline_parallel_size=choice.pipeline_parallel_size,
    )
