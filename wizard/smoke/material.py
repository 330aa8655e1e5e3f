"""What the test asks and how it reads refusals: ``assets/smoke.toml``, typed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources

import msgspec


class Tool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool offered to the model; ``parameters`` is its JSON schema."""

    name: str
    description: str
    parameters: dict[str, object]


class ChatTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question that wants words."""

    prompt: str


class CallTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request that wants a call of ``wanted``; ``again`` is the plainer wording of the second try."""

    wanted: str
    prompt: str
    again: str
    arguments: str = ""
    """JSON of the call that is answered in the round trip when the model made none."""
    result: str = ""
    """What the tool answers in the round trip."""
    tools: tuple[Tool, ...]


class CallShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way to write a call, with ``tagged`` or without tags: a regular expression with ``$tool`` in it."""

    id: str
    pattern: str
    tagged: bool = False
    parsers: tuple[str, ...]
    source: str


class KnownError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a refusal is recognised: by status, by text, or both. ``ends``: further checks are pointless."""

    code: str
    status: int | None = None
    pattern: str = ""
    ends: bool = False
    source: str


class Material(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. Lengths are tokens, deadlines seconds by the id of the check."""

    source: str
    max_tokens: int
    max_tokens_thinking: int
    minimum_window: int
    swallowed_tokens: int
    deadlines_s: Mapping[str, float]
    chat: ChatTask
    call: CallTask
    many: CallTask
    shape: tuple[CallShape, ...]
    error: tuple[KnownError, ...]


@functools.cache
def material() -> Material:
    """The bundled material."""
    content = (resources.files("assets") / "smoke.toml").read_bytes()
    return msgspec.toml.decode(content, type=Material)
