"""How vLLM splits the memory of one GPU before anything is measured.

vLLM takes a share of the whole GPU, loads the weights, runs a full batch to see the peak, and gives the rest
to the KV cache (vLLM 0.33.0 vllm/v1/worker/gpu_worker.py). Only its measurement is exact: with the weights
known, this estimate of the rest was within 0.25 GiB of 69 starts of vLLM 0.26.0 on H200; of two GPUs without
FlashInfer's buffers it expects 0.9 GiB too little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from wizard.catalog import Origin, memory_facts, quantizations, reached, vllm_facts
from wizard.machine import Gpu
from wizard.memory.activation import activation_bytes, graphs_bytes
from wizard.memory.kv import GIB
from wizard.memory.shape import read_shape
from wizard.memory.types import EngineSettings, MemoryPlan
from wizard.memory.weights import weights_gib as counted_weights

_BUSY_SHARE = 0.5
"""With less than this free, the GPU is planned as it will be once whoever holds it is gone."""


def on_gpu(settings: EngineSettings, gpu: Gpu) -> EngineSettings:
    """The settings with this GPU's generation, and with vLLM's batch limits for it where none are set."""
    capability = gpu.capability if gpu.compute_capability else None
    return msgspec.structs.replace(with_defaults(settings, gpu), capability=capability)


def with_defaults(settings: EngineSettings, gpu: Gpu) -> EngineSettings:
    """The settings with the batch limits vLLM chooses for this GPU, where none are set."""
    total, name = total_gib(gpu), gpu.name.lower()
    default = next(
        row
        for row in vllm_facts().batch_default
        if total >= row.min_memory_gib
        and gpu.capability not in row.except_capabilities
        and not any(part in name for part in row.except_names)
    )
    return msgspec.structs.replace(
        settings,
        max_num_batched_tokens=settings.max_num_batched_tokens or default.max_num_batched_tokens,
        max_num_seqs=settings.max_num_seqs or default.max_num_seqs,
    )


def memory_plan(
    gpu: Gpu,
    *,
    weights_gib: float | None,
    config: Mapping[str, object],
    settings: EngineSettings,
    weights_origin: Origin = "table",
) -> MemoryPlan:
    """The split of this GPU, for a checkpoint of ``weights_gib`` over all GPUs of the settings.

    Without ``weights_gib`` the weights are counted from ``config``, if its architecture is known. What
    depends on an unknown figure is None.
    """
    settings = with_defaults(settings, gpu)
    start, total = memory_facts().start, total_gib(gpu)
    share, share_origin = utilization(gpu, settings)
    origins: dict[str, Origin] = {"total_gib": gpu.memory_origin, "requested_gib": "computed"}
    if share_origin is not None:
        origins["gpu_memory_utilization"] = share_origin

    if weights_gib is None:
        weights_gib, weights_origin = counted_weights(config, _weight_bits(config, settings)), "computed"
    ranks = settings.tensor_parallel_size * settings.pipeline_parallel_size
    weights = None if weights_gib is None else weights_gib / ranks
    shape = read_shape(config)
    activation = None if shape is None else activation_bytes(shape, settings) / GIB
    graphs = None if shape is None else graphs_bytes(shape, settings) / GIB
    other = start.communicator_gib if ranks > 1 else start.context_gib
    origins["other_gib"] = "table"
    if graphs is not None:
        origins["graphs_gib"] = "computed"
    if weights is not None:
        origins["weights_gib"] = weights_origin
    if activation is not None:
        origins["activation_gib"] = "computed"

    requested = math.ceil(total * share * GIB) / GIB
    available = None
    if weights is not None and activation is not None and graphs is not None:
        available = requested - weights - activation - graphs - other
        origins["available_kv_gib"] = "computed"
    bars = memory_facts().errors
    errors = {
        "weights_gib": None if weights is None else bars.weights.of(weights),
        "activation_gib": None if activation is None else bars.activation.of(activation),
        "graphs_gib": bars.graphs.of(graphs) if graphs else None,
        "other_gib": (bars.other_together if ranks > 1 else bars.other).of(other),
    }
    known = {name: error for name, error in errors.items() if error is not None}
    if available is not None:
        known["available_kv_gib"] = sum(known.values())
    return MemoryPlan(
        errors=known,
        total_gib=total,
        requested_gib=requested,
        weights_gib=weights,
        activation_gib=activation,
        graphs_gib=graphs,
        other_gib=other,
        available_kv_gib=available,
        gpu_memory_utilization=share,
        origins=origins,
    )


def total_gib(gpu: Gpu) -> float:
    """What CUDA sees of the GPU: NVML also counts what the driver keeps, except where memory is shared."""
    reserve = 0 if gpu.unified else memory_facts().start.driver_reserve_mib
    return max(0, gpu.memory_mib - reserve) / 1024


def utilization(gpu: Gpu, settings: EngineSettings) -> tuple[float, Origin | None]:
    """The share vLLM takes of this GPU, and where the figure comes from; None: the user asked for it.

    vLLM refuses to start with less free memory than its share. So the default is lowered to what is free,
    less a reserve for the system where it shares the memory; a GPU that is mostly taken is planned as an
    empty one.
    """
    if settings.gpu_memory_utilization is not None:
        return settings.gpu_memory_utilization, None
    facts, start = vllm_facts(), memory_facts().start
    if gpu.unified:
        default, reserve = facts.unified_memory.utilization, start.system_reserve_gib
    else:
        known = [row for row in facts.memory_utilization if reached(settings.vllm_version, row.since)]
        default = (known or facts.memory_utilization)[-1].value
        # CUDA's own context is there before vLLM looks at what is free.
        reserve = start.context_gib
    total, free = total_gib(gpu), gpu.memory_free_mib / 1024
    usable = (free if free >= _BUSY_SHARE * total else total) - reserve
    fitting = math.floor(100 * usable / total) / 100 if total > 0 else default
    return (default, "table") if fitting >= default else (max(0.0, fitting), "computed")


def _weight_bits(config: Mapping[str, object], settings: EngineSettings) -> float:
    """Bits of a weight in the asked or the checkpoint's own format; an unknown format counts as 16 bit."""
    own = config.get("quantization_config")
    name = settings.quantization or (own.get("quant_method") if isinstance(own, Mapping) else None)
    return next((entry.bits for entry in quantizations() if entry.id == name), 16.0)
