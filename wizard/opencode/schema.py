"""Checks a configuration against opencode's own schema, because opencode ignores misspelt keys silently."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from wizard.i18n import _
from wizard.opencode.jsonc_edit import Path
from wizard.text import inert

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator


class SchemaReport(msgspec.Struct, frozen=True, kw_only=True):
    """Sentences about what does not fit the schema, without any value of the configuration."""

    errors: tuple[str, ...] = ()
    """On keys the wizard sets: they must not be written."""
    warnings: tuple[str, ...] = ()
    """On other keys: the user's business, worth a word."""
    unknown: tuple[str, ...] = ()
    """Keys at the root that are not in the schema."""


def check_schema(document: Mapping[str, object], ours: Iterable[Path]) -> SchemaReport:
    """What is wrong with a configuration; ``ours`` are the paths of the values the wizard sets."""
    own = tuple(ours)
    errors: list[str] = []
    warnings: list[str] = []
    unknown: list[str] = []
    checked: Any = document
    for error in _validator().iter_errors(checked):
        for path, sentence in _problems(error):
            on_ours = any(path == key[: len(path)] or key == path[: len(key)] for key in own)
            (errors if on_ours else warnings).append(sentence)
            if error.validator == "additionalProperties" and len(path) == 1:
                unknown.append(inert(path[0]))
    return SchemaReport(errors=tuple(errors), warnings=tuple(warnings), unknown=tuple(unknown))


@functools.cache
def _validator() -> Validator:
    from jsonschema import Draft202012Validator

    text = (resources.files("assets") / "opencode.schema.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


def _problems(error: ValidationError) -> Iterator[tuple[Path, str]]:
    """The keys an error is about, each with a sentence. The library's own message would quote values."""
    path = tuple(str(part) for part in error.absolute_path)
    rule: Any = error.validator_value
    instance = error.instance
    if error.validator == "additionalProperties" and isinstance(instance, Mapping):
        known = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
        for key in instance:
            if key not in known:
                yield (
                    (*path, str(key)),
                    _("{key}: opencode does not know this key.").format(key=_dotted((*path, key))),
                )
        return
    if error.validator == "required" and isinstance(instance, Mapping):
        for key in rule:
            if key not in instance:
                yield (*path, key), _("{key}: this key is missing.").format(key=_dotted((*path, key)))
        return
    if error.validator == "type":
        kinds = rule if isinstance(rule, str) else ", ".join(rule)
        yield path, _("{key}: opencode wants {kind} here.").format(key=_dotted(path), kind=kinds)
    elif error.validator == "enum":
        allowed = ", ".join(str(value) for value in rule)
        yield path, _("{key}: opencode wants one of: {allowed}.").format(key=_dotted(path), allowed=allowed)
    else:
        yield path, _("{key}: opencode does not accept this value.").format(key=_dotted(path))


def _dotted(path: Path) -> str:
    return inert(".".join(path)) or _("The configuration")
