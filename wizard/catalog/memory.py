"""What is known about vLLM's memory arithmetic: cache layouts, element sizes, what a start takes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Literal

import msgspec

from wizard.catalog.source import bundled
from wizard.catalog.types import Sourced

LayerKind = Literal["full", "window", "chunk", "latent", "indexed", "state", "mlp", "moe"]
"""What a layer keeps: keys and values of the whole context, of a window or a chunk of it; one compressed
vector a token, with an index beside it or without; a state of fixed size. Layers with a feed-forward only
(``mlp`` and ``moe``) keep nothing."""


class KvDtype(Sourced, frozen=True, kw_only=True):
    """Values of ``--kv-cache-dtype`` and the bytes one element takes."""

    names: tuple[str, ...]
    bytes: float


class LatentBlock(Sourced, frozen=True, kw_only=True):
    """Tokens of a block where compressed vectors are read by a kernel that wants its own number."""

    capability_min: int
    capability_max: int
    kv_dtypes: tuple[str, ...] = ()
    """Values of ``--kv-cache-dtype`` it holds for; none: for all."""
    block_size: int


class LayerFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of config.json that size a layer; of several the first that is set counts."""

    kv_heads: tuple[str, ...] = ("num_key_value_heads", "num_attention_heads")
    head_dim: tuple[str, ...] = ("head_dim",)
    value_dim: tuple[str, ...] = ()
    """Width of a value head, where it is not that of a key head."""
    length: tuple[str, ...] = ("sliding_window", "sliding_window_size")
    """Tokens of the window."""
    chunk: tuple[str, ...] = ("attention_chunk_size",)


class StateFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of config.json that size the state of a layer with linear attention."""

    kernel: str
    groups: str
    state_dim: str
    heads: str
    head_dim: str
    dtype: str = ""
    """Where vLLM takes the type of the state from; empty: it has the type of the weights."""
    default_dtype: str = "auto"
    """``auto``: the 16 bit of the rest."""
    checkpoint_blocks: int = 0
    """State blocks a request keeps beside the usual ones where prefixes are cached."""


class Layout(Sourced, frozen=True, kw_only=True):
    """Architectures that keep their cache in one way.

    What each layer keeps is read from the first of ``listed`` that the checkpoint has; without a list every
    ``full_every``-th layer is a ``main`` one and the rest are ``other``.
    """

    architectures: tuple[str, ...]
    main: LayerKind = "full"
    other: LayerKind | None = None
    """None: all layers are alike."""
    full_every: int | None = None
    """None: where layers differ, the checkpoint must list them."""
    full_every_fields: tuple[str, ...] = ()
    """Fields of config.json that take the place of ``full_every``."""
    listed: tuple[str, ...] = ("layer_types",)
    names: Mapping[str, LayerKind] = {}
    """Names in the list, beside those every checkpoint uses."""
    fields: LayerFields = LayerFields()
    window_fields: LayerFields | None = None
    """Where layers with a window are of another size than the others."""
    state: StateFields | None = None
    window_when_set: bool = False
    """All layers have a window as soon as the checkpoint states one."""
    unless: tuple[str, ...] = ()
    """Fields of config.json whose presence makes it something else."""
    gated: bool = True
    """Feed-forward layers have a gate: three matrices instead of two."""
    countable: bool = True
    """Its weights can be counted from config.json; the cache alone can always."""


class Activation(Sourced, frozen=True, kw_only=True):
    """The peak of vLLM's trial run."""

    fixed_mib: int
    """Workspace of the matrix library."""
    usual_hidden_copies: int
    hidden_copies: Mapping[str, int]
    """Copies of the hidden state beside a dense feed-forward, where an architecture is not like most."""
    experts_in_place: tuple[str, ...]
    """Architectures whose experts need no buffers of their own."""
    ungated_experts: tuple[str, ...]
    gathered_scores: float
    """Copies of the scores where several GPUs hold parts of the vocabulary."""
    sorted_score_bytes: int
    """A sequence and vocabulary entry, with the older model runner, which sorts the whole vocabulary."""
    sequence_bytes: int
    """A sequence, with the older model runner."""
    entry_bytes: int
    """A vocabulary entry, with the older model runner."""
    second_runner_dense_since: str
    second_runner_since: str
    second_runner_early: tuple[str, ...]
    """Mixtures of experts that got the newer model runner together with the dense models."""
    latent_workspace_tokens: int
    """Tokens that latent attention unpacks at once while it reads a prompt."""


class Graphs(Sourced, frozen=True, kw_only=True):
    """What vLLM sets aside for CUDA graphs before it has captured them, MiB."""

    layer_mib: float
    """A graph and layer."""
    base_mib: float
    sequence_mib: float
    """A sequence of the largest batch that is captured."""
    largest_batch: int
    largest_batches: Mapping[str, int]
    """Where an architecture captures larger ones."""
    second_runner_since: str
    """First version whose newer model runner sets something aside."""


class ErrorBar(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a figure may be off: the larger of a share of it and an amount, GiB."""

    share: float
    gib: float

    def of(self, figure: float) -> float:
        """GiB up or down."""
        return max(self.share * figure, self.gib)


class Errors(Sourced, frozen=True, kw_only=True):
    """How far the parts of a start's memory were off at worst."""

    weights: ErrorBar
    activation: ErrorBar
    graphs: ErrorBar
    other: ErrorBar
    other_together: ErrorBar
    """When GPUs work together: FlashInfer's buffers may be missing."""


class Start(Sourced, frozen=True, kw_only=True):
    """What is gone before the KV cache gets its share, beside weights, activations and graphs."""

    driver_reserve_mib: int
    """NVML counts it, CUDA does not see it."""
    context_gib: float
    """What CUDA and its libraries take outside PyTorch, on a GPU that works alone."""
    communicator_gib: float
    """What is counted of it, and of the buffers for exchanging results, when GPUs work together."""
    system_reserve_gib: float
    """Left to the system where it shares the memory with the GPU."""


class MemoryFacts(Sourced, frozen=True, kw_only=True):
    """How vLLM sizes its KV cache, by version."""

    group_growth: float
    in_flight_batches_since: str
    hybrid_prefix_caching_since: str
    latent_block_step: int
    """Blocks of a model that mixes compressed vectors with states are whole multiples of this, tokens."""
    index_bytes: int
    """Bytes a token and layer of the index beside compressed vectors."""
    indexed_packed_bytes: int
    """Bytes a token and layer of a compressed vector that has an index, in its usual packed form."""
    indexed_plain_types: tuple[str, ...]
    """Values of ``--kv-cache-dtype`` with which it is not packed."""
    indexed_block_size: int
    latent_block: tuple[LatentBlock, ...]
    kv_dtype: tuple[KvDtype, ...]
    layer_names: Mapping[str, LayerKind]
    layout: tuple[Layout, ...]
    activation: Activation
    graphs: Graphs
    errors: Errors
    start: Start


@functools.cache
def memory_facts() -> MemoryFacts:
    """The arithmetic of vLLM's KV cache and of a start."""
    return bundled("memory.toml", MemoryFacts)
