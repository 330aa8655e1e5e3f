"""A checkpoint as its own files describe it, and what that says about its parsers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from wizard.catalog import Origin

Place = Literal["folder", "cache", "hub"]
"""Where it was read: a folder of the user's, the Hugging Face cache, or the hub itself."""

Sureness = Literal["sure", "likely", "unknown"]


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a checkpoint before anything of its weights is read. All texts are inert."""

    name: str
    place: Place
    architecture: str
    model_type: str
    quantization: str
    """Id of the weight format; empty when it is none that is known."""
    weights_gib: float | None
    """Once loaded, on however many GPUs, GiB (binary); None when nothing tells."""
    weights_origin: Origin
    parameters: int | None
    context: int | None
    """The longest window vLLM serves by itself, tokens."""
    config: dict[str, object]
    template: str
    """The chat template vLLM takes when tools are offered; empty without one."""
    tokens: Mapping[str, str]
    """The special tokens a template may name: ``bos_token`` and the like."""
    marks: tuple[str, ...] = ()
    """Files without which vLLM would handle it differently, such as a tokenizer of another kind."""
    notes: tuple[str, ...] = ()
    """What could not be read, or is not what it seems; whole sentences."""
    missing: str = ""
    """Which of the weight files that its index names are not there, a whole sentence; empty: none."""


class ParserGuess(msgspec.Struct, frozen=True, kw_only=True):
    """The parsers a checkpoint needs, how sure that is, and why, in whole sentences."""

    tool_parser: str | None
    reasoning_parser: str | None
    sureness: Sureness
    why: str
    source: str
    args: tuple[str, ...] = ()
    """What ``vllm serve`` must be told besides the parsers."""
