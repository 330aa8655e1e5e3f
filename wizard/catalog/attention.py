"""vLLM's attention kernels: where each runs, what its KV cache may hold, and the order they are tried in."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Literal

import msgspec

from wizard.catalog.source import bundled
from wizard.catalog.types import Sourced, VersionText
from wizard.catalog.version import within

AttentionKind = Literal["full", "latent", "sparse", "sparse-v4", "sparse-v4.1"]
"""What attention works on: keys and values, compressed vectors (MLA), or a chosen part of those."""


class Span(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GPUs (ten times the compute capability) and versions of vLLM, all ends included."""

    capability_min: int = 0
    capability_max: int = 9999
    since: VersionText | None = None
    until: VersionText | None = None

    def holds(self, capability: int, version: str) -> bool:
        """Whether it holds for this GPU and this vLLM."""
        fits = self.capability_min <= capability <= self.capability_max
        return fits and within(version, self.since, self.until)


class CacheTypes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Values of ``--kv-cache-dtype`` that a kernel takes, and where."""

    types: tuple[str, ...]
    where: Span = Span()
    head_sizes_not: tuple[int, ...] = ()
    sinks: bool = True
    """Whether it also holds for models with attention sinks."""


class AttentionBackend(Sourced, frozen=True, kw_only=True):
    """A kernel by the name ``--attention-backend`` takes."""

    name: str
    where: tuple[Span, ...]
    head_sizes: tuple[int, ...] = ()
    """Empty: any."""
    cache: tuple[CacheTypes, ...]
    sinks: tuple[Span, ...] = ()

    @property
    def cache_types(self) -> frozenset[str]:
        """Every type it keeps anywhere."""
        return frozenset(name for cache in self.cache for name in cache.types)

    def runs(self, capability: int, version: str) -> bool:
        """Whether this vLLM has it for this GPU."""
        return _any(self.where, capability, version)

    def floor(self, version: str) -> int | None:
        """The lowest capability this vLLM runs it on; None: this vLLM does not have it."""
        spans = [span for span in self.where if within(version, span.since, span.until)]
        return min((span.capability_min for span in spans), default=None)

    def has_sinks(self, capability: int, version: str) -> bool:
        """Whether it can serve a model with attention sinks there."""
        return _any(self.sinks, capability, version)


class AttentionOrder(Sourced, frozen=True, kw_only=True):
    """The kernels vLLM tries for a kind of attention, first to last."""

    layers: AttentionKind
    where: Span
    backends: tuple[str, ...]
    pin: bool = False
    """Name the first that fits on the command line: vLLM's own choice would be a worse one."""


class AttentionDemand(Sourced, frozen=True, kw_only=True):
    """What vLLM does for an architecture whatever its config.json says."""

    architectures: tuple[str, ...]
    where: Span = Span()
    layers: AttentionKind | None = None
    sinks: bool = False
    only: str | None = None
    """The one kernel vLLM takes for it."""


class AttentionFacts(Sourced, frozen=True, kw_only=True):
    """Everything known about attention where an installed vLLM cannot be asked."""

    demand: tuple[AttentionDemand, ...]
    order: tuple[AttentionOrder, ...]
    backend: tuple[AttentionBackend, ...]


@functools.cache
def attention_facts() -> AttentionFacts:
    """The table of kernels. Raises CorruptDataError for a damaged installation."""
    return bundled("attention.toml", AttentionFacts)


def _any(spans: Iterable[Span], capability: int, version: str) -> bool:
    return any(span.holds(capability, version) for span in spans)
