"""The token budget: vLLM's window on one side, opencode's limits on the other. Everything in tokens."""

from __future__ import annotations

from typing import Literal

import msgspec

from wizard.memory import KvPlan, MemoryPlan


class ToolOutputCap(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a tool's result opencode hands to the model."""

    max_bytes: int
    max_lines: int


class BudgetWarning(msgspec.Struct, frozen=True, kw_only=True):
    """Something about the limits a person must know; ``refuses`` when it must not be written at all."""

    code: str
    text: str
    refuses: bool = False


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """opencode's limits for a window of ``context`` tokens."""

    context: int
    input: int
    output: int
    reserved: int
    tool_output: ToolOutputCap | None
    """None: opencode's own cap stays, because it does or because this opencode has no such setting."""
    base_prompt_tokens: int
    """What opencode sends before the user typed a word, tokens."""
    base_prompt_origin: Literal["measured", "assumed"]
    extra_prompt_tokens: int = 0
    """What of it the user's own instructions and tool servers are taken to need; 0 where all was measured."""
    denied_tools: tuple[str, ...] = ()
    """Tools of opencode the limits count on being denied: they are not in its first prompt then."""
    room_tokens: int
    """What is left for the user's own files and talk before the first tidying up."""
    warnings: tuple[BudgetWarning, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether opencode would loop or fail with these limits."""
        return any(warning.refuses for warning in self.warnings)

    @property
    def tidies_up_at(self) -> int:
        """Size of a conversation at which opencode replaces it by a summary."""
        return self.input - self.reserved


class Residual(msgspec.Struct, frozen=True, kw_only=True):
    """By how much an earlier start of the same differed from its estimate; per GPU, GiB (binary)."""

    kv_gib: float
    """What was left for the KV cache, less what had been expected."""
    weights_gib: float | None = None
    """The weights as they were loaded."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Memory, KV cache and tokens of one choice. ``memory`` and ``kv`` are None where nothing is known."""

    max_model_len: int | None
    """The window to ask vLLM for; None: ``auto``, vLLM decides and it is read back."""
    memory: MemoryPlan | None
    kv: KvPlan | None
    opencode: Limits
    residual: Residual | None = None
    """What ``memory`` was corrected by."""
