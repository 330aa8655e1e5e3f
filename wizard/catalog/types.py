"""What the assets know, as frozen types. Every entry names its source."""

from __future__ import annotations

from typing import Literal

import msgspec

Origin = Literal["measured", "computed", "table", "assumed"]
"""Where a figure comes from; screens show its first letter beside the figure."""

ParserKind = Literal["tool", "reasoning"]


class Sourced(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every asset entry: ``source`` says where its facts were read."""

    source: str


class GpuModel(Sourced, frozen=True, kw_only=True):
    """A GPU as sold. NVML's own memory figure always wins over ``memory_mib``."""

    id: str
    product: str
    nvml_names: tuple[str, ...]
    compute_capability: str
    architecture: str
    memory_mib: int
    bandwidth_gbs: float | None = None
    unified: bool = False
    """Shares the host's memory (GB10, Jetson): NVML then refuses memory queries."""
    nvlink: str = ""
    notes: str = ""


class Parser(Sourced, frozen=True, kw_only=True):
    """A tool-call or reasoning parser of vLLM and the wire format it reads."""

    name: str
    kind: ParserKind
    wire_format: str
    first_version: str
    last_version: str
    markers: tuple[str, ...] = ()
    """Opening tags whose appearance in answered content means a call (or a thought) leaked."""


class WireFormat(Sourced, frozen=True, kw_only=True):
    """A format no registered parser reads, known only to recognise its leak."""

    id: str
    markers: tuple[str, ...]
    explanation: str


class Quantization(Sourced, frozen=True, kw_only=True):
    """A weight format: where it runs natively, where only as stored weights, where not at all.

    Capabilities are ten times the compute capability (sm_89 is 89).
    """

    id: str
    title: str
    bits: float
    """Bits a weight, scales included, for estimating a size nobody measured."""
    native_capability: int
    weight_only_capability: int | None = None
    """Lowest capability that runs it through weight-only kernels; None: native or not at all."""
    needs_bf16: bool = False
    last_version: str | None = None
    plugin: str | None = None
    """The package that provides it since it left vLLM's own tree."""
    notes: str = ""


class Variant(Sourced, frozen=True, kw_only=True):
    """One checkpoint of a model."""

    id: str
    checkpoint: str
    quantization: str
    weights_gib: float
    weights_origin: Origin = "table"
    min_vllm: str | None = None
    args: tuple[str, ...] = ()


class Model(Sourced, frozen=True, kw_only=True):
    """A model family member: what it needs on the command line and how good it is at agentic coding."""

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    rank: int
    """Order of preference for agentic coding, 1 is best."""
    params_b: float
    active_params_b: float
    context: int
    architecture: str
    tool_parser: str | None
    reasoning_parser: str | None = None
    thinks: bool = False
    """Thinks before it answers, so the output limit needs room for it."""
    min_vllm: str
    chat_template: str | None = None
    args: tuple[str, ...] = ()
    warning: str = ""
    """Why it cannot be recommended, shown with the verdict."""
    blocked: bool = False
    """Known not to work as an agent whatever the machine: the warning says why."""
    config: dict[str, object] = {}
    """The fields of its config.json that the memory arithmetic needs; empty: no figure is given."""
    variants: tuple[Variant, ...]
