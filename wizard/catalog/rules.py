"""The rules behind the compatibility matrix, as data."""

from __future__ import annotations

import functools

import msgspec

from wizard.catalog.load import quantizations
from wizard.catalog.source import bundled, overlay
from wizard.catalog.types import Rule
from wizard.errors import CorruptDataError, nearest_hint
from wizard.i18n import _
from wizard.paths import overlay_dir
from wizard.text import one_line


class _Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: tuple[Rule, ...]


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Every rule; one that the user only switched off keeps what it says. Raises CorruptDataError."""
    known = {entry.id: entry for entry in bundled("rules.toml", _Rules).rule}
    for added in overlay().rule:
        _check(added)
        own = known.get(added.id)
        known[added.id] = msgspec.structs.replace(own, disabled=True) if own and added.disabled else added
    return tuple(known.values())


def _check(added: Rule) -> None:
    """A rule of the user names weight formats there are, and its sentence what it can be given."""
    formats = [entry.id for entry in quantizations()]
    for name in added.quantizations:
        if name not in formats:
            raise CorruptDataError(
                _("{folder}: rule {rule} has the unknown weight format {name}.").format(
                    folder=overlay_dir(), rule=one_line(added.id), name=one_line(name)
                ),
                nearest_hint(name, formats),
            )
    try:
        added.text.format(capability="", version="")
    except (LookupError, ValueError, AttributeError) as error:
        raise CorruptDataError(
            _("{folder}: the text of rule {rule} cannot be filled in.").format(
                folder=overlay_dir(), rule=one_line(added.id)
            ),
            _("It may name {names}; other braces are written twice.").format(names="{capability}, {version}"),
        ) from error
