"""The whole budget of one choice: the window, what it costs in memory, and opencode's limits for it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from wizard.budget.limits import limits
from wizard.budget.types import Budget, BudgetWarning, Residual
from wizard.catalog import opencode_facts
from wizard.i18n import _
from wizard.machine import Gpu
from wizard.memory import (
    CacheLayout,
    EngineSettings,
    KvPlan,
    MemoryPlan,
    cache_layout,
    kv_plan,
    longest_window,
    memory_plan,
    on_gpu,
)

_GIB = 1 << 30
_STEP = 1024
"""Windows chosen by the wizard are whole multiples of this."""


def make_budget(
    *,
    gpu: Gpu | None,
    weights_gib: float | None,
    config: Mapping[str, object],
    context: int | None,
    thinks: bool,
    settings: EngineSettings,
    output: int | None = None,
    concurrency: int = 1,
    base_prompt_tokens: int | None = None,
    extra_prompt_tokens: int = 0,
    trim_tools: bool = False,
    opencode_version: str | None = None,
    cap: int | None = None,
    available_kv_gib: float | None = None,
    kv_cache_memory_bytes: int | None = None,
    residual: Residual | None = None,
) -> Budget:
    """The budget of a checkpoint on ``gpu`` (the smallest of those used; None: no GPU).

    With ``settings.max_model_len`` unset the window is the longest that ``concurrency`` requests fit in,
    never above ``context``; for more people at once it is not cut below the size that works well for one.
    Where memory gives no figure vLLM decides, and the limits are assumed until its own window is read back.
    ``available_kv_gib`` replaces the estimate of what is left for the KV cache, for comparing with a start;
    ``residual`` corrects it by what an earlier start measured. With ``kv_cache_memory_bytes`` vLLM measures
    nothing and takes no share of the memory: so much is the KV cache, exactly. The rest is as in ``limits``.
    """
    memory = kv = None
    chosen = settings.max_model_len
    layout = _bounded(cache_layout(config), context)
    if gpu is not None:
        settings = on_gpu(settings, gpu)
        memory = memory_plan(gpu, weights_gib=weights_gib, config=config, settings=settings)
        if kv_cache_memory_bytes is not None:
            memory = _with_exactly(memory, kv_cache_memory_bytes / _GIB)
        elif available_kv_gib is not None:
            memory = _with_available(memory, available_kv_gib)
        elif residual is not None:
            memory = _corrected(memory, residual)
    if layout is not None and memory is not None and memory.available_kv_gib is not None:
        if chosen is None:
            chosen = _choose(layout, settings, memory.available_kv_gib, concurrency)
        asked = chosen or min(opencode_facts().warn_below, layout.context or opencode_facts().warn_below)
        kv = kv_plan(layout, settings, memory.available_kv_gib, asked)

    known = layout.context if layout is not None else context
    warnings = _warnings(memory, kv, chosen, known, concurrency)
    window = chosen or context or opencode_facts().warn_below
    found = limits(
        window,
        output=output,
        base_prompt_tokens=base_prompt_tokens,
        extra_prompt_tokens=extra_prompt_tokens,
        trim_tools=trim_tools,
        thinks=thinks,
        opencode_version=opencode_version,
        vllm_version=settings.vllm_version,
        cap=cap,
    )
    found = msgspec.structs.replace(found, warnings=(*warnings, *found.warnings))
    return Budget(max_model_len=chosen, memory=memory, kv=kv, opencode=found, residual=residual)


def _bounded(layout: CacheLayout | None, context: int | None) -> CacheLayout | None:
    """The layout with the model's context where that is shorter than what the checkpoint states."""
    if layout is None or context is None or (layout.context is not None and layout.context <= context):
        return layout
    return msgspec.structs.replace(layout, context=context)


def _with_available(memory: MemoryPlan, available_kv_gib: float) -> MemoryPlan:
    origins = {name: origin for name, origin in memory.origins.items() if name != "available_kv_gib"}
    errors = {name: error for name, error in memory.errors.items() if name != "available_kv_gib"}
    return msgspec.structs.replace(memory, available_kv_gib=available_kv_gib, origins=origins, errors=errors)


def _with_exactly(memory: MemoryPlan, kv_gib: float) -> MemoryPlan:
    """The split when the user sets the size of the KV cache: vLLM takes what the rest needs besides."""
    rest = (memory.weights_gib, memory.activation_gib, memory.graphs_gib, memory.other_gib)
    requested = kv_gib + sum(part or 0.0 for part in rest)
    return msgspec.structs.replace(
        _with_available(memory, kv_gib),
        requested_gib=requested,
        gpu_memory_utilization=requested / memory.total_gib if memory.total_gib else 0.0,
    )


def _corrected(memory: MemoryPlan, residual: Residual) -> MemoryPlan:
    """The split as an earlier start measured it; what the estimate did not know of is among ``other``."""
    if memory.available_kv_gib is None:
        return memory
    weights = memory.weights_gib if residual.weights_gib is None else residual.weights_gib
    available = memory.available_kv_gib + residual.kv_gib
    taken = (weights or 0.0) + (memory.activation_gib or 0.0) + (memory.graphs_gib or 0.0)
    names = ["available_kv_gib", "other_gib", *(["weights_gib"] if residual.weights_gib is not None else [])]
    return msgspec.structs.replace(
        memory,
        weights_gib=weights,
        available_kv_gib=available,
        other_gib=memory.requested_gib - taken - available,
        origins={**memory.origins, **dict.fromkeys(names, "measured")},
        errors={name: error for name, error in memory.errors.items() if name not in names},
    )


def _choose(layout: CacheLayout, settings: EngineSettings, available: float, concurrency: int) -> int | None:
    """The window for this many requests at once, in whole steps; None when not one step fits."""
    one = longest_window(layout, settings, available)
    shared = longest_window(layout, settings, available, concurrency=concurrency)
    return max(shared, min(one, opencode_facts().warn_below)) // _STEP * _STEP or None


def _warnings(
    memory: MemoryPlan | None, kv: KvPlan | None, chosen: int | None, context: int | None, concurrency: int
) -> list[BudgetWarning]:
    """What memory and model say about the window."""
    if chosen is not None and context is not None and chosen > context:
        text = _("The model knows at most {context} tokens: vLLM refuses a window of {window}.")
        return [_refusal("window-over-context", text.format(context=context, window=chosen))]
    if memory is not None and memory.requested_gib > memory.total_gib > 0:
        text = _("That takes {requested:.1f} GiB, and the GPU has {total:.1f}.")
        text = text.format(requested=memory.requested_gib, total=memory.total_gib)
        return [_refusal("memory-over-total", text)]
    if kv is not None and memory is not None and kv.max_model_len_fit < min(_STEP, context or _STEP):
        text = _("The memory holds no window: {available:.1f} GiB are left for the KV cache.")
        return [_refusal("no-kv-memory", text.format(available=memory.available_kv_gib or 0.0))]
    if chosen is None:
        text = _("vLLM chooses the window itself: opencode's limits are assumed until it is read back.")
        return [BudgetWarning(code="window-assumed", text=text)]
    if kv is not None and chosen > kv.max_model_len_fit:
        text = _("A window of {window} tokens does not fit in the memory; the longest is {longest}.")
        return [_refusal("window-does-not-fit", text.format(window=chosen, longest=kv.max_model_len_fit))]
    if kv is not None and kv.max_concurrency < concurrency:
        text = _(
            "The memory holds {fitting:.1f} whole windows at once, not {asked}: requests may have to wait."
        )
        text = text.format(fitting=kv.max_concurrency, asked=concurrency)
        return [BudgetWarning(code="concurrency-small", text=text)]
    return []


def _refusal(code: str, text: str) -> BudgetWarning:
    return BudgetWarning(code=code, text=text, refuses=True)
