"""How a checkpoint outside the catalogue is understood: what its template, its names and its numbers tell."""

from __future__ import annotations

import functools

import msgspec

from wizard.catalog.source import bundled
from wizard.catalog.types import Sourced


class FormatReader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parser that reads a format, and the models it is for.

    ``families`` are parts of model type, architecture or name, in small letters without separators;
    ``tokens`` parts of a rendered conversation that no other family has.
    """

    parser: str
    families: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    usual: bool = False
    """Takes what no family claims."""


class CallFormat(Sourced, frozen=True, kw_only=True):
    """What a template makes of a tool call. The words in capitals of ``signature`` are filled in."""

    id: str
    signature: str
    bare: bool = False
    """Without a tag of its own: it must open the turn."""
    taught: str = ""
    """Pattern of what such a template tells the model about calls."""
    readers: tuple[FormatReader, ...]


class ThoughtFormat(Sourced, frozen=True, kw_only=True):
    """What a template makes of a thought, or how it opens one for the answer to come."""

    id: str
    signature: str
    opening: str = ""
    readers: tuple[FormatReader, ...]


class NoTemplate(Sourced, frozen=True, kw_only=True):
    """A kind of checkpoint, told by a file or its model type, whose conversation vLLM writes itself."""

    file: str = ""
    model_type: str = ""
    tool_parser: str
    reasoning_parser: str | None = None
    args: tuple[str, ...] = ()
    """What ``vllm serve`` must be told for it."""


class Trap(Sourced, frozen=True, kw_only=True):
    """Models that do not speak the format their template teaches."""

    families: tuple[str, ...]
    call: str
    warning: str


class StoredFormat(Sourced, frozen=True, kw_only=True):
    """How config.json names a weight format of ``quantization.toml``; None matches anything."""

    methods: tuple[str, ...]
    bits: int | None = None
    kind: str | None = None
    activations: bool | None = None
    quantization: str
    halved: bool = False
    """Loaded at half the size it has on disk."""


class CheckpointFacts(Sourced, frozen=True, kw_only=True):
    """The tables behind what is derived from a checkpoint."""

    context_keys: tuple[str, ...]
    scaled_rope: tuple[str, ...]
    """Position scalings whose factor is already in the window."""
    original_rope: tuple[str, ...]
    """Those vLLM starts at the window from before the scaling."""
    scaled_families: tuple[str, ...]
    """Model types whose window has every factor in it."""
    call: tuple[CallFormat, ...]
    thought: tuple[ThoughtFormat, ...]
    no_template: tuple[NoTemplate, ...]
    trap: tuple[Trap, ...]
    stored: tuple[StoredFormat, ...]


@functools.cache
def checkpoint_facts() -> CheckpointFacts:
    """Wire formats, weight formats and windows as checkpoints state them."""
    return bundled("checkpoints.toml", CheckpointFacts)
