"""Chooses the ways to install vLLM on a machine: driver first, then compute capability, then the model."""

from __future__ import annotations

from pathlib import Path

from packaging.version import Version

from wizard.catalog import MachineKind, Road, host_facts, recipe_table, recipe_texts
from wizard.errors import UnknownNameError
from wizard.i18n import _
from wizard.machine import Machine
from wizard.recipe.fill import fill
from wizard.recipe.types import Offer, Recipe, Tools


def offer(
    machine: Machine, tools: Tools, *, base: Path, needs: str | None = None, needed_by: str = ""
) -> Offer:
    """The roads for a machine, best first; pure.

    ``base`` is the folder environments are made in. ``needs`` is the oldest vLLM that a model, ``needed_by``,
    can run on: roads that lead to an older one come last, and the advice says so where all do. Where a
    container engine hands out GPUs, containers come first.
    """
    kind = _kind_of(machine)
    advice = [_(text) for text in kind.advice]
    if machine.wsl:
        advice.insert(0, _(recipe_table().wsl_advice))
    roads = list(kind.road)
    for road in kind.road:
        if trouble := _library_trouble(machine, road):
            roads.remove(road)
            advice.append(trouble)
    roads.sort(key=lambda road: (not _reaches(road, needs), tools.engine == "" or not _is_container(road)))
    if roads and needs is not None and not _reaches(roads[0], needs):
        text = _("{model} needs vLLM {needed} or newer, and the newest one for this machine is {version}.")
        newest = max((road.version for road in roads if road.version), key=Version)
        advice.insert(0, text.format(model=needed_by, needed=needs, version=newest))
    recipes = tuple(fill(recipe_texts()[road.recipe], road, machine, tools, base) for road in roads)
    return Offer(
        kind=kind.id,
        recipes=recipes or (_refusal(kind, machine),),
        advice=tuple(advice),
        source=kind.source,
    )


def pick(found: Offer, route: str | None) -> Recipe:
    """The best recipe, or the best one of a route. Raises UnknownNameError for a route there is none of."""
    if route is None:
        return found.recipes[0]
    for recipe in found.recipes:
        if recipe.route == route:
            return recipe
    raise UnknownNameError(
        _("road for this machine"), route, {recipe.route for recipe in found.recipes} - {"refuse"}
    )


def _kind_of(machine: Machine) -> MachineKind:
    found = _found(machine)
    branch = int((machine.driver or "0").partition(".")[0])
    capability = max((gpu.capability for gpu in machine.gpus), default=0)
    for kind in recipe_table().machine:
        if kind.found != found:
            continue
        if found != "gpu" or (
            kind.min_driver <= branch <= kind.max_driver
            and kind.min_capability <= capability <= kind.max_capability
            and (not kind.archs or machine.arch in kind.archs)
        ):
            return kind
    raise LookupError(f"no entry of the recipe table fits {machine.arch}, driver {branch}, {capability}")


def _found(machine: Machine) -> str:
    """GPUs that answer, or a card without a driver, or no card at all."""
    if any(gpu.capability for gpu in machine.gpus) and machine.driver:
        return "gpu"
    return "no-gpu" if not machine.gpus and not machine.cards else "no-driver"


def _reaches(road: Road, needs: str | None) -> bool:
    return needs is None or road.version is None or Version(road.version) >= Version(needs)


def _is_container(road: Road) -> bool:
    return recipe_texts()[road.recipe].route == "container"


def _library_trouble(machine: Machine, road: Road) -> str:
    """Why a ready-made build does not run on this system's C library; empty: it does, or nobody knows."""
    if recipe_texts()[road.recipe].route != "wheel" or machine.system.glibc is None or road.version is None:
        return ""
    version = Version(road.version)
    floors = [floor for floor in host_facts().glibc if Version(floor.since) <= version]
    if not floors or Version(machine.system.glibc) >= Version(floors[-1].floor):
        return ""
    text = _(
        "The ready-made build of vLLM {version} needs glibc {floor}, and this system has {found}: "
        "use a container."
    )
    return text.format(version=road.version, floor=floors[-1].floor, found=machine.system.glibc)


def _refusal(kind: MachineKind, machine: Machine) -> Recipe:
    return Recipe(
        route="refuse",
        id=kind.id,
        title=_("vLLM cannot be installed on this machine as it is."),
        version=None,
        why=" ".join(_(text) for text in kind.advice),
        steps=(),
        source=kind.source,
        machine=machine.simulated or "",
    )
