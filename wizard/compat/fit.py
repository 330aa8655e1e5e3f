"""Whether a variant fits a group of GPUs, and how long its window can be there."""

from __future__ import annotations

import msgspec

from wizard.catalog import Model, Variant, opencode_facts
from wizard.compat.groups import GpuGroup
from wizard.memory import EngineSettings, cache_layout, longest_window, memory_plan, with_defaults


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """``free_gib`` is what one GPU has left for the KV cache; negative: what is missing.

    ``max_context`` is None when the memory layout of the architecture is unknown.
    """

    fits: bool
    max_context: int | None
    free_gib: float


def fit(group: GpuGroup, model: Model, variant: Variant, settings: EngineSettings) -> Fit:
    """A computed answer for the smallest GPU of the group, which decides for all."""
    gpu = group.smallest
    own = msgspec.structs.replace(
        settings, tensor_parallel_size=group.tensor, pipeline_parallel_size=group.pipeline
    )
    own = with_defaults(own, gpu)
    memory = memory_plan(
        gpu,
        weights_gib=variant.weights_gib,
        weights_origin=variant.weights_origin,
        config=model.config,
        settings=own,
    )
    free = memory.available_kv_gib
    if free is None:
        # Nothing is known about the peak of a batch: the weights alone decide, and vLLM finds the window.
        free = memory.requested_gib - variant.weights_gib / len(group.gpus)
        return Fit(fits=free > 0, max_context=None, free_gib=free)
    layout = cache_layout(model.config)
    if layout is None:
        return Fit(fits=free > 0, max_context=None, free_gib=free)
    if free <= 0:
        return Fit(fits=False, max_context=0, free_gib=free)
    longest = min(model.context, longest_window(layout, own, free))
    return Fit(fits=longest >= opencode_facts().refuse_below, max_context=longest, free_gib=free)
