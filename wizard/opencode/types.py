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
    vllm_version: str | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration file to edit."""

    path: str
    scope: Scope
    exists: bool
    fresh: bool
    """It does not exist, or holds nothing but ``$schema``: its root keys are nobody's choice yet."""
    owner: tuple[int, int] | None = None
    """User and group to write for, when the wizard runs through sudo; None: whoever runs it."""


class SideFile(msgspec.Struct, frozen=True, kw_only=True):
    """A small file of ours beside the configuration, made whole or not at all."""

    path: str
    purpose: str
    data: bytes
    mode: int
    before: bytes | None = None
    """An older one of ours; None: there is nothing at this place."""
    written: bool = False

    @property
    def sha256(self) -> str:
        """What an undo compares the file with before it deletes it."""
        return hashlib.sha256(self.data).hexdigest()


class KeyReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a key is in the configuration."""

    key: str
    """With dots, as it is nested."""
    why: str
    source: str


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """What the installed opencode makes of the configuration."""

    agrees: bool
    """It reads every key as written and lists the model."""
    detail: str
    hint: str = ""
    opencode_version: str
    differing: tuple[str, ...] = ()
    """Keys, with dots, that it reads otherwise."""


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
    settings: Mapping[str, object] = {}
    """Every key that is set, nested like the configuration; a key of the server is only named in it."""
    reasons: tuple[KeyReason, ...] = ()
    """Why each of them is set."""
    private: bool = False
    """Nothing was to leave the house."""
    contacts: tuple[str, ...] = ()
    """With ``private``: whom opencode may still contact, and what is left to do about it."""
    beside: tuple[SideFile, ...] = ()
    """Files that are written with it."""
    starter: str | None = None
    """The program that starts opencode with everything switched off that no setting switches off."""

    confirmed: Confirmation | None = None
    """What the installed opencode makes of it, once it is written."""

    @property
    def pending(self) -> bool:
        """Whether there is something left to write."""
        planned = self.action in ("created", "updated") and not self.written
        return planned or (self.action != "refused" and any(not file.written for file in self.beside))

    @property
    def touched(self) -> bool:
        """Whether anything was written, so that there is something to undo."""
        return self.written or any(file.written for file in self.beside)

    @property
    def command(self) -> str:
        """What a person types to work with this configuration."""
        return f"{self.starter or 'opencode'} -m {self.model}"

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
