"""Whether a variant fits a group of GPUs, and how long its window can be there."""

from __future__ import annotations

import msgspec

from wizard.catalog import Model, Variant, opencode_facts
from wizard.compat.groups import GpuGroup
from wizard.memory import CacheLayout, EngineSettings, longest_window, memory_plan, on_gpu


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """What one GPU of a group holds of a variant. ``share_gib`` is what vLLM may take of it.

    ``free_gib`` is left for the KV cache; negative: what is missing. ``max_context`` is None when the memory
    layout of the architecture is unknown.
    """

    fits: bool
    max_context: int | None
    weights_gib: float = 0.0
    share_gib: float = 0.0
    free_gib: float


def fit(
    group: GpuGroup, model: Model, variant: Variant, settings: EngineSettings, layout: CacheLayout | None
) -> Fit:
    """A computed answer for the smallest GPU of the group, which decides for all.

    ``layout`` is that of the model; None: unknown.
    """
    gpu = group.smallest
    own = msgspec.structs.replace(
        settings, tensor_parallel_size=group.tensor, pipeline_parallel_size=group.pipeline
    )
    own = on_gpu(own, gpu)
    memory = memory_plan(
        gpu,
        weights_gib=variant.weights_gib,
        weights_origin=variant.weights_origin,
        config=model.config,
        settings=own,
    )
    held = variant.weights_gib / len(group.gpus)
    free = memory.available_kv_gib
    # Where nothing is known about the peak of a batch the weights alone decide, and vLLM finds the window.
    known = free is not None
    left = memory.requested_gib - held if free is None else free
    longest = None
    if known and layout is not None:
        longest = min(model.context, longest_window(layout, own, left)) if left > 0 else 0
    enough = left > 0 if longest is None else longest >= opencode_facts().refuse_below
    return Fit(
        fits=enough,
        max_context=longest,
        weights_gib=held,
        share_gib=memory.requested_gib,
        free_gib=left,
    )
