"""What a configuration that exists says about models on servers of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from wizard.i18n import _
from wizard.opencode.files import read_text
from wizard.opencode.jsonc import parse
from wizard.opencode.jsonc_edit import leaves
from wizard.opencode.locate import home
from wizard.opencode.overrides import overrides
from wizard.text import inert

_REFERENCE = re.compile(r"\{(?P<kind>env|file):(?P<name>[^}]+)\}")


class ConfiguredModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model of one provider with an address. Limits are tokens, 0 and None where nothing is set."""

    provider: str
    key: str
    sent_as: str
    """What opencode sends as ``model``: the ``id``, else the key."""
    base_url: str
    npm: str = ""
    """The package opencode talks to it with; empty where none is named."""
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
                    npm=inert(str(_table(block).get("npm") or "")),
                    context=_number(limit.get("context")) or 0,
                    input=_number(limit.get("input")),
                    output=_number(limit.get("output")) or 0,
                    reserved=reserved,
                )
            )
    return tuple(found)


def resolved_key(
    path: str | Path, provider: str, environ: Mapping[str, str] | None = None
) -> tuple[str | None, str]:
    """The key opencode would send for a provider, and why there is none; it is for asking, never for showing.

    None and an empty sentence where no key is named. Raises as ``configured_models``.
    """
    text = read_text(Path(path))
    block = _table(_table(_table(parse(text or "{}")).get("provider")).get(provider))
    named = _table(block.get("options")).get("apiKey")
    if not isinstance(named, str) or not named:
        return None, ""
    reference = _REFERENCE.fullmatch(named.strip())
    if reference is None:
        return named, ""
    if reference["kind"] == "env":
        variable = reference["name"]
        key = (os.environ if environ is None else environ).get(variable, "")
        missing = _("The configuration takes the key from the variable {name}, which is not set.")
        return (key, "") if key else (None, missing.format(name=inert(variable)))
    file = _beside(Path(path), reference["name"])
    try:
        return file.read_text(encoding="utf-8").strip(), ""
    except (OSError, UnicodeDecodeError):
        missing = _("The configuration takes the key from {path}, which cannot be read.")
        return None, missing.format(path=inert(str(file)))


def overridden(
    path: str | Path, models: Sequence[ConfiguredModel], *, cwd: Path | None = None
) -> tuple[str, ...]:
    """Sentences about what changes the providers of these models for an opencode started in ``cwd``."""
    document = _table(_table(parse(read_text(Path(path)) or "{}")).get("provider"))
    told: dict[str, None] = {}
    for provider in dict.fromkeys(model.provider for model in models):
        wanted = dict(leaves({"provider": {provider: document.get(provider, {})}}))
        told |= dict.fromkeys(overrides(path, wanted, cwd=cwd))
    return tuple(told)


def _beside(path: Path, name: str) -> Path:
    """A file as opencode finds it: from the home folder, or from the folder of the configuration."""
    return home() / name[2:] if name.startswith("~/") else path.parent / name


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
