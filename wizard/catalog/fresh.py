"""Forgetting what was read of the tables."""

from __future__ import annotations

from wizard.catalog import load
from wizard.catalog.rules import rules
from wizard.catalog.source import overlay


def clear_cache() -> None:
    """Forget what was read, so that a changed overlay is seen."""
    overlay.cache_clear()
    rules.cache_clear()
    load.forget()
