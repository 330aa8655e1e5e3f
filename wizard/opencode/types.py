"""A change of opencode's configuration, and the proof that it works."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

import msgspec

from wizard.budget import Limits

Action = Literal["created", "updated", "unchanged", "refused"]
Globals = Literal["yes", "no", "ask"]
Scope = Literal["global", "project", "path"]


class ConfigRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What shall be in the configuration. Keys are only ever referenced, never written out."""

    provider: str = "vllm"
    provider_explicit: bool = False
    """The user named this provider: a block of that name is updated even if it points to another server."""
    provider_name: str
    base_url: str
    model_key: str
    """The served name: the key of the model, or its ``id`` where opencode cannot use it as a key."""
    model_name: str
    limits: Limits
    reasoning: bool = False
    interleaved: str | None = None
    """The field vLLM reads earlier thinking from: see ``interleaved_field``."""
    api_key_file: str | None = None
    api_key_env: str | None = None
    globals: bool = False
    """Also set the root keys that touch other providers: default model, compaction, tool output."""
    default_model: bool = True
    """With ``globals``: make it the model opencode starts with."""
    private: bool = False
    """Nothing leaves the house: no sharing, no self-update, no web tools, no hosted models in the list."""
    denied_tools: tuple[str, ...] = ()
    """Tools the user agreed to do without, whatever the provider: opencode leaves them out of its prompt."""
    opencode_version: str | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration file to edit."""

    path: str
    scope: Scope
    exists: bool
    fresh: bool
    """It does not exist, or holds nothing but ``$schema``: its root keys are nobody's choice yet."""
    owner: tuple[int, int] | None = None
    """User and group to write for, when the wizard runs through sudo; None: whoever runs it."""


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
    sets_globals: bool = False
    """It also sets root keys that touch other providers."""
    scope: Scope = "global"
    owner: tuple[int, int] | None = None

    @property
    def sha256_after(self) -> str:
        """What an undo compares the file with before it touches it."""
        return hashlib.sha256(self.after).hexdigest()

    def __repr__(self) -> str:
        """Without the file's content, which may hold keys of other providers."""
        return f"OpencodeChange(path={self.path!r}, action={self.action!r}, model={self.model!r})"


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The real opencode performed a tool call with this configuration, or why not."""

    status: Literal["passed", "failed", "skipped"]
    detail: str
    opencode_version: str | None = None
    tool_executed: bool = False
    requests: int | None = None
    evidence: str = ""
    hint: str = ""
    exit_code: int | None = None
