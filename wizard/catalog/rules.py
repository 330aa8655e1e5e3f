"""The rules behind the compatibility matrix, as data."""

from __future__ import annotations

import functools

import msgspec

from wizard.catalog.source import bundled, overlay
from wizard.catalog.types import Rule


class _Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: tuple[Rule, ...]


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Every rule; one that the user only switched off keeps what it says."""
    known = {entry.id: entry for entry in bundled("rules.toml", _Rules).rule}
    for added in overlay().rule:
        own = known.get(added.id)
        known[added.id] = msgspec.structs.replace(own, disabled=True) if own and added.disabled else added
    return tuple(known.values())
