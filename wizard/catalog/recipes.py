"""Which ways of installing vLLM fit which machine, and the steps of each way."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Literal

import msgspec

from wizard.catalog.source import bundled, bundled_folder
from wizard.catalog.types import Positive, Size, Sourced, VersionText

RouteKind = Literal["container", "wheel", "source"]
Found = Literal["gpu", "no-driver", "no-gpu"]


class StepCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command that proves a step. It must succeed, show ``expect`` and not show ``reject``.

    Both are regular expressions that Python and ``grep -E`` read alike.
    """

    command: str
    expect: str = ""
    reject: str = ""


class StepText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of a recipe. Commands are lines of bash; ``{name}`` stands for a value of this machine."""

    id: str
    title: str
    why: str
    commands: tuple[str, ...] = ()
    check: StepCheck
    help: str = ""
    """What to do when it does not work."""
    sudo: bool = False
    network: bool = False
    long: bool = False
    """Worth outliving a lost connection."""
    minutes: Size = 10.0
    """After this long it is given up."""
    since: VersionText | None = None
    """The first version of vLLM that has this step."""
    env: Mapping[str, str] = {}
    """What every later command needs in its environment, this step's check included, and vLLM itself."""


class RecipeText(Sourced, frozen=True, kw_only=True):
    """The steps of one way. ``env`` holds from the first step on, and for vLLM itself."""

    id: str
    route: RouteKind
    title: str
    command: tuple[str, ...]
    """How the vLLM it installs is called; empty: it is no program of this host."""
    env: Mapping[str, str] = {}
    values: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()
    step: tuple[StepText, ...]


class Road(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recipe for the machines of an entry, with the version it installs and why somebody would take it."""

    recipe: str
    version: VersionText | None = None
    """None: only the image itself knows."""
    why: str
    values: Mapping[str, str] = {}
    options: Mapping[str, str] = {}
    """Words for the installer beside the package, by the installer's name."""
    env: Mapping[str, str] = {}


class MachineKind(Sourced, frozen=True, kw_only=True):
    """Machines that are served alike, and their roads, best first. None of the roads: refused.

    Capabilities are counted as vLLM does (121 for 12.1), drivers by their branch.
    """

    id: str
    found: Found = "gpu"
    archs: tuple[str, ...] = ()
    """Empty: any."""
    min_capability: int = 0
    max_capability: int = 999
    min_driver: int = 0
    max_driver: int = 9999
    advice: tuple[str, ...] = ()
    """What to know, or to do, first."""
    road: tuple[Road, ...] = ()


class Installer(Sourced, frozen=True, kw_only=True):
    """A program that makes an environment and installs into it."""

    name: str
    venv: str
    install: str


class Toolkit(Sourced, frozen=True, kw_only=True):
    """How NVIDIA's toolkit is set up for a container engine, and what proves it."""

    name: str
    set_up: str
    check: str
    expect: str


class RecipeTable(Sourced, frozen=True, kw_only=True):
    """The decision: the first machine kind that fits holds."""

    python: str
    """The interpreter that uv fetches where it may choose."""
    gib_per_job: Size
    max_jobs: Positive
    managed_os: tuple[str, ...]
    """Patterns of systems whose own Python refuses packages (PEP 668)."""
    wsl_advice: str
    installer: tuple[Installer, ...]
    engine: tuple[Toolkit, ...]
    machine: tuple[MachineKind, ...]


@functools.cache
def recipe_table() -> RecipeTable:
    """Which roads fit which machine."""
    return bundled("recipes.toml", RecipeTable)


@functools.cache
def recipe_texts() -> Mapping[str, RecipeText]:
    """Every recipe by its id."""
    return {recipe.id: recipe for recipe in bundled_folder("recipes", RecipeText)}
