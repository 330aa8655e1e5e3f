"""Chooses the ways to install vLLM on a machine: driver first, then compute capability, then the model."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from packaging.version import Version

from wizard.catalog import MachineKind, Road, host_facts, recipe_table, recipe_texts
from wizard.errors import UnknownNameError
from wizard.i18n import _
from wizard.machine import Machine
from wizard.recipe.fill import filled, values_for
from wizard.recipe.types import Offer, Recipe, Tools


def offer(
    machine: Machine, tools: Tools, *, base: Path, needs: str | None = None, needed_by: str = ""
) -> Offer:
    """The roads for a machine, best first; pure.

    ``base`` is the folder environments are made in. ``needs`` is the oldest vLLM that a model, ``needed_by``, can
    run on: roads that lead to an older one come last and say so. Where a container engine hands out GPUs, its
    road comes before those of the same version.
    """
    kind = _kind_of(machine)
    advice = [_(text) for text in kind.advice]
    if machine.wsl:
        advice.insert(0, _(recipe_table().wsl_advice))
    roads = [road for road in kind.road if not (problem := _without_library(machine, road, advice))]
    del problem
    roads.sort(key=lambda road: (not _reaches(road, needs), not _preferred(road, kind, tools)))
    recipes = [_recipe(machine, tools, road, base) for road in roads]
    if not recipes:
        return Offer(kind=kind.id, recipes=(_refusal(kind),), advice=tuple(advice), source=kind.source)
    if needs is not None and not _reaches(roads[0], needs):
        text = _("{model} needs vLLM {needed} or newer, and the newest one for this machine is {version}.")
        advice.insert(0, text.format(model=needed_by, needed=needs, version=roads[0].version))
    return Offer(kind=kind.id, recipes=tuple(recipes), advice=tuple(advice), source=kind.source)


def pick(found: Offer, route: str | None) -> Recipe:
    """The best recipe, or the best one of a route. Raises UnknownNameError for a route there is none of."""
    if route is None:
        return found.recipes[0]
    for recipe in found.recipes:
        if route in (recipe.route, recipe.id):
            return recipe
    raise UnknownNameError(_("route for this machine"), route, {recipe.route for recipe in found.recipes})
