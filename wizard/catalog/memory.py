"""What is known about vLLM's memory arithmetic: cache layouts, element sizes, what a start takes."""

from __future__ import annotations

import functools
from typing import Literal

from wizard.catalog.source import bundled
from wizard.catalog.types import Sourced

LayoutKind = Literal["full", "sliding", "latent", "linear"]


class KvDtype(Sourced, frozen=True, kw_only=True):
    """Values of ``--kv-cache-dtype`` and the bytes one element takes."""

    names: tuple[str, ...]
    bytes: float


class Layout(Sourced, frozen=True, kw_only=True):
    """Architectures that keep their cache in one way.

    ``full``: keys and values of the whole window in every layer. ``sliding`` and ``linear``: only in every
    ``full_every``-th layer, unless the checkpoint lists its layers itself; the others keep a window or a
    state. ``latent``: one compressed vector a token.
    """

    kind: LayoutKind
    architectures: tuple[str, ...]
    full_every: int = 1


class Activation(Sourced, frozen=True, kw_only=True):
    """The peak of vLLM's trial run. Sampler figures are bytes a sequence and vocabulary entry."""

    sampler_bytes: int
    first_runner_sampler_bytes: int
    """With the older model runner, which sorts the whole vocabulary."""
    second_runner_dense_since: str
    second_runner_since: str
    second_runner_early: tuple[str, ...]
    """Mixtures of experts that got the newer model runner together with the dense models."""
    latent_workspace_tokens: int
    """Tokens that latent attention unpacks at once while it reads a prompt."""


class Start(Sourced, frozen=True, kw_only=True):
    """What is gone before the KV cache gets its share, beside weights and activations."""

    driver_reserve_mib: int
    """NVML counts it, CUDA does not see it."""
    context_gib: float
    """What CUDA and its libraries take outside PyTorch."""
    communicator_gib: float
    """NCCL's buffers, when GPUs work together."""
    graphs_gib: float
    """CUDA graphs, where vLLM counts them."""
    system_reserve_gib: float
    """Left to the system where it shares the memory with the GPU."""


class MemoryFacts(Sourced, frozen=True, kw_only=True):
    """How vLLM sizes its KV cache, by version."""

    group_growth: float
    in_flight_batches_since: str
    hybrid_prefix_caching_since: str
    kv_dtype: tuple[KvDtype, ...]
    layout: tuple[Layout, ...]
    activation: Activation
    start: Start


@functools.cache
def memory_facts() -> MemoryFacts:
    """The arithmetic of vLLM's KV cache and of a start."""
    return bundled("memory.toml", MemoryFacts)
