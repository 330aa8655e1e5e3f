"""What works on a machine, why, and what was chosen from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Verdict = Literal["ok", "warn", "no"]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One statement behind a verdict: a stable code, a sentence, where it was read."""

    code: str
    text: str
    source: str
    refuses: bool = False
    """Whether the combination cannot work, so that the verdict is ``no``."""
    doubts: bool = False
    """Whether nobody can promise it, so that the verdict is ``warn`` at best."""
    args: tuple[str, ...] = ()
    """What ``vllm serve`` must be told because of it."""
    env: Mapping[str, str] = {}
    """What vLLM needs in its environment because of it."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the compatibility matrix."""

    model: str
    variant: str
    name: str
    checkpoint: str
    quantization: str
    weights_gib: float
    """GiB of all weights once loaded, on however many GPUs."""
    fits: bool
    max_context: int | None
    """Longest window that fits at once, tokens; None when the architecture is unknown."""
    parser: str | None
    reasoning_parser: str | None
    gpus: tuple[int, ...]
    tensor_parallel_size: int
    pipeline_parallel_size: int
    verdict: Verdict
    reasons: tuple[Reason, ...]
    tokens_per_second: float | None = None
    """Of one stream, at most: what the bandwidth of the memory allows; None when too little is known."""
    download_gib: float | None = None
    """GiB of the checkpoint's files, where more than ``weights_gib``."""

    @property
    def files_gib(self) -> float:
        """GiB of the checkpoint's files."""
        return self.download_gib or self.weights_gib


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The model to serve: a matrix row, or a checkpoint the user named."""

    model: str
    """Catalogue id, or the name the user gave."""
    variant: str
    checkpoint: str
    """Hub id or local folder: what ``vllm serve`` is given."""
    architecture: str = ""
    """The class vLLM runs it with; empty: not known."""
    served_model_name: str
    quantization: str
    parser: str | None
    reasoning_parser: str | None
    family_parser: str | None = None
    """The tool-call parser that the tables or the checkpoint's template name, whatever was asked for."""
    thinks: bool
    weights_gib: float | None
    config: dict[str, object]
    """The checkpoint's config.json fields; empty: the architecture is unknown and no figure is given."""
    context: int | None
    gpus: tuple[int, ...]
    tensor_parallel_size: int
    pipeline_parallel_size: int
    args: tuple[str, ...]
    env: Mapping[str, str] = {}
    """What vLLM needs in its environment for this model."""
    reasons: tuple[Reason, ...]
    download_gib: float | None = None
    """GiB of the checkpoint's files, where more than ``weights_gib``."""

    @property
    def files_gib(self) -> float | None:
        """GiB of the checkpoint's files; None: not known."""
        return self.download_gib or self.weights_gib
