"""A way to install vLLM on this machine, and how far it has come."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

import msgspec

from wizard.catalog import StepCheck

Route = Literal["container", "wheel", "source", "refuse"]


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """What this host has to install with. ``managed``: its own Python refuses packages (PEP 668)."""

    uv: bool = False
    engine: str = ""
    """A container engine that answers and hands out GPUs; empty: none does."""
    managed: bool = False


class RecipeStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step, ready for this machine: lines of bash, and the check that proves them.

    A step without commands only looks.
    """

    id: str
    title: str
    why: str
    commands: tuple[str, ...]
    check: StepCheck
    help: str
    sudo: bool
    network: bool
    long: bool
    deadline_s: float
    env: Mapping[str, str]
    """The environment of its commands."""
    result_env: Mapping[str, str]
    """The environment of its check and of everything after it."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of one way, and what the vLLM they install needs in its environment, for good."""

    route: Route
    id: str
    title: str
    version: str | None
    why: str
    steps: tuple[RecipeStep, ...]
    env: Mapping[str, str] = {}
    command: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ""
    machine: str = ""
    """The recorded machine it is for: nothing of it is ever run."""

    @property
    def key(self) -> str:
        """A name for its folder: equal for equal steps."""
        content = msgspec.json.encode([(step.id, step.commands) for step in self.steps])
        return f"{self.id}-{hashlib.sha256(content).hexdigest()[:8]}"


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What there is for a machine: recipes, best first, and what to know before any of them.

    ``kind`` is the entry of the table that decided. There is always a recipe; one of the route ``refuse``
    has no steps, and the advice says what to do instead.
    """

    kind: str
    recipes: tuple[Recipe, ...]
    advice: tuple[str, ...]
    source: str


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """A vLLM that a recipe put here, with what it needs in its environment."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    version: str | None


class StepStarted(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="step"):
    """A step begins, or was found running. ``commands`` is empty where it only looks."""

    id: str
    title: str
    number: int
    of: int
    log: str
    resumed: bool = False


class StepOutput(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="output"):
    """A line it wrote, inert."""

    text: str


class StepDone(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="done"):
    """It is proved. ``before``: it was so already, and nothing was run."""

    id: str
    evidence: str
    before: bool = False


RecipeEvent = StepStarted | StepOutput | StepDone
