"""What a model takes of a GPU: weights, the peak of a batch, and how many tokens the KV cache will hold."""

from wizard.memory.engine import memory_plan, on_gpu, with_defaults
from wizard.memory.kv import kv_plan, longest_window, read_bytes
from wizard.memory.layout import cache_layout, layer_kinds
from wizard.memory.shape import read_shape
from wizard.memory.types import (
    AttentionLayers,
    CacheLayers,
    CacheLayout,
    EngineSettings,
    KvPlan,
    LatentLayers,
    MemoryPlan,
    StateLayers,
)
from wizard.memory.weights import read_share, weights_gib

__all__ = [
    "AttentionLayers",
    "CacheLayers",
    "CacheLayout",
    "EngineSettings",
    "KvPlan",
    "LatentLayers",
    "MemoryPlan",
    "StateLayers",
    "cache_layout",
    "kv_plan",
    "layer_kinds",
    "longest_window",
    "memory_plan",
    "on_gpu",
    "read_bytes",
    "read_shape",
    "read_share",
    "weights_gib",
    "with_defaults",
]
