"""What a model's attention needs of a kernel."""

from __future__ import annotations

import msgspec

from wizard.catalog import AttentionKind, attention_facts
from wizard.memory import AttentionLayers, CacheLayout, LatentLayers


class Heads(msgspec.Struct, frozen=True, kw_only=True):
    """What a model's attention needs of a kernel. No sizes: they are not known."""

    kind: AttentionKind
    sizes: frozenset[int] = frozenset()
    sinks: bool = False
    only: str | None = None


def heads_of(layout: CacheLayout | None, architecture: str, capability: int, version: str) -> Heads:
    """What the model needs, from what its layers keep and from what is known of its architecture."""
    demands = [
        demand
        for demand in attention_facts().demand
        if architecture in demand.architectures and demand.where.holds(capability, version)
    ]
    layers = layout.buckets if layout else ()
    latent = [bucket for bucket in layers if isinstance(bucket, LatentLayers)]
    own: AttentionKind = "full"
    if latent:
        own = "sparse" if any(bucket.indexed for bucket in latent) else "latent"
    return Heads(
        kind=next((demand.layers for demand in demands if demand.layers), own),
        sizes=frozenset(bucket.head_dim for bucket in layers if isinstance(bucket, AttentionLayers)),
        sinks=any(demand.sinks for demand in demands),
        only=next((demand.only for demand in demands if demand.only), None),
    )
