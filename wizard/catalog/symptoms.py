"""What people say when something is broken, and where the answer is looked for: ``assets/symptoms.toml``."""

from __future__ import annotations

import functools
from typing import Literal

from wizard.catalog.source import bundled
from wizard.catalog.types import Sourced

Look = Literal["config", "smoke", "log"]


class Symptom(Sourced, frozen=True, kw_only=True):
    """A complaint in the words of a person; ``faults`` are what it may come of."""

    id: str
    title: str
    look: tuple[Look, ...]
    faults: tuple[str, ...]


class _Symptoms(Sourced, frozen=True, kw_only=True):
    source: str = "assets/symptoms.toml"
    symptom: tuple[Symptom, ...]


@functools.cache
def symptoms() -> tuple[Symptom, ...]:
    """The complaints, in the order they are offered."""
    return bundled("symptoms.toml", _Symptoms).symptom
