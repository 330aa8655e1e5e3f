"""Decides by the wire-format tables, where no vLLM is installed to be asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from wizard.catalog import CallFormat, WireFormat, parsers, reached
from wizard.checkpoint import readers_of
from wizard.i18n import _
from wizard.smoke.finder.types import Candidate


def by_table(
    found: CallFormat | WireFormat | None, family: str, version: str | None, names: Collection[str]
) -> tuple[Candidate, ...]:
    """Every tool-call parser of a version, those first that read the format, in the order to prefer them.

    ``names`` are the parsers the runtime is known to have; empty: those the tables know for ``version``.
    """
    known = names or [entry.name for entry in parsers("tool") if reached(version, entry.first_version)]
    reading = readers_of(found, family) if isinstance(found, CallFormat) else ()
    fitting = [_fitting(name) for name in reading if name in known]
    others = [_other(name) for name in sorted(known) if name not in reading]
    return (*fitting, *others)


def too_new(found: CallFormat | WireFormat | None, family: str, known: Collection[str]) -> Sequence[str]:
    """Parsers that read the format, of which this vLLM has none."""
    reading = readers_of(found, family) if isinstance(found, CallFormat) else ()
    return () if any(name in known for name in reading) else reading


def _fitting(name: str) -> Candidate:
    text = _("Reads this form by the table; not tried.")
    return Candidate(parser=name, extracted=True, ok=True, exact=True, clean=True, detail=text)


def _other(name: str) -> Candidate:
    entry = next((entry for entry in parsers("tool") if entry.name == name), None)
    form = entry.wire_format if entry is not None else _("a form the table does not know")
    return Candidate(
        parser=name, extracted=False, ok=False, detail=_("By the table it reads: {form}").format(form=form)
    )
