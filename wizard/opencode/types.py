"""A change of opencode's configuration, and the proof that it works."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from wizard.budget import Limits

Action = Literal["created", "updated", "unchanged", "refused"]
Globals = Literal["yes", "no", "ask"]


class ConfigRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What shall be in the configuration. Keys are only ever referenced, never written out."""

    provider: str
    provider_name: str
    base_url: str
    model_key: str
    model_name: str
    limits: Limits
    reasoning: bool = False
    interleaved: str | None = None
    api_key_file: str | None = None
    api_key_env: str | None = None
    globals: bool = False
    """Also set the root keys that touch other providers: default model, compaction, tool output."""
    private: bool = False
    opencode_version: str | None = None


class OpencodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """A planned or written change of one configuration file.

    ``before`` and ``after`` are the file's bytes; they are never shown, ``diff`` is.
    """

    path: str
    action: Action
    diff: str
    before: bytes | None
    after: bytes
    backup: str | None
    provider: str
    model: str
    """What ``opencode -m`` takes: ``provider/key``."""
    limit: Mapping[str, int]
    overridden_by: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    written: bool = False


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The real opencode performed a tool call with this configuration, or why not."""

    status: Literal["passed", "failed", "skipped"]
    detail: str
    opencode_version: str | None = None
    tool_executed: bool = False
    requests: int | None = None
    evidence: str = ""
    hint: str = ""
