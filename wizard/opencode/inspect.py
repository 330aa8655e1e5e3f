"""What a configuration that exists says about models on servers of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from wizard.opencode.files import read_text
from wizard.opencode.jsonc import parse
from wizard.text import inert


class ConfiguredModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model of one provider with an address. Limits are tokens, 0 and None where nothing is set."""

    provider: str
    key: str
    sent_as: str
    """What opencode sends as ``model``: the ``id``, else the key."""
    base_url: str
    context: int
    input: int | None
    output: int
    reserved: int | None
    """The root key ``compaction.reserved``."""


def configured_models(path: str | Path) -> tuple[ConfiguredModel, ...]:
    """The models in a configuration file whose provider names an address; none for a file that is not there.

    Raises RefusedError for a file that cannot be read, JsoncError for one that is not valid.
    """
    text = read_text(Path(path))
    if text is None:
        return ()
    document = parse(text)
    reserved = _number(_table(_table(document).get("compaction")).get("reserved"))
    found = []
    for provider, block in _table(_table(document).get("provider")).items():
        url = _table(_table(block).get("options")).get("baseURL")
        if not isinstance(url, str):
            continue
        for key, entry in _table(_table(block).get("models")).items():
            limit = _table(_table(entry).get("limit"))
            sent_as = _table(entry).get("id", key)
            found.append(
                ConfiguredModel(
                    provider=inert(provider),
                    key=inert(key),
                    sent_as=inert(str(sent_as)),
                    base_url=inert(url),
                    context=_number(limit.get("context")) or 0,
                    input=_number(limit.get("input")),
                    output=_number(limit.get("output")) or 0,
                    reserved=reserved,
                )
            )
    return tuple(found)


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
