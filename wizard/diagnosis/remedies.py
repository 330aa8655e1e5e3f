"""Makes the remedies of a fault concrete: values filled in, what cannot help left out."""

from __future__ import annotations

import math
import re

import msgspec

from wizard import catalog
from wizard.diagnosis.context import Facts, in_range, suits
from wizard.diagnosis.types import Fault, Figure, Remedy, RemedyRule
from wizard.errors import nearest
from wizard.i18n import _
from wizard.plan import LaunchPlan, PlanEdit, instructions

Values = dict[str, str]
"""What is known, by the names that remedies use for it."""

_DEFAULT_PORT = "8000"


def values_of(plan: LaunchPlan | None) -> Values:
    """The values that hold for every fault, as far as they are known."""
    if plan is None:
        return {"port": _DEFAULT_PORT}
    model = catalog.find_model(plan.model)
    values = {
        "port": str(plan.port),
        "model": plan.checkpoint,
        "served_name": plan.served_model_name,
        "model_parser": (model and model.tool_parser) or "",
    }
    return {name: value for name, value in values.items() if value}


def remedies_for(
    fault: Fault, values: Values, plan: LaunchPlan | None, facts: Facts, stage: str
) -> tuple[Remedy, ...]:
    """The remedies that can be told with these values and that would change something, best first."""
    numbers = {
        figure.name: number for figure in fault.figures if (number := _figure(figure, values)) is not None
    }
    known = {"other_port": str(int(values["port"]) + 1), **values, **numbers}
    remedies = (
        _filled(rule, known, certain=suits(rule.when, facts, stage, known) is True)
        for rule in fault.remedy
        if _suits(rule, known, facts, stage)
    )
    told = (remedy for remedy in remedies if remedy is not None and not _changes_nothing(remedy, plan))
    return tuple(_instructed(remedy, plan) for remedy in told)


def edit_of(remedy: Remedy) -> PlanEdit | None:
    """The change of the launch plan that a remedy stands for; None when it lies outside the plan."""
    if not (remedy.set or remedy.unset or remedy.env):
        return None
    return PlanEdit(origin="remedy", title=remedy.title, set=remedy.set, unset=remedy.unset, env=remedy.env)


def _instructed(remedy: Remedy, plan: LaunchPlan | None) -> Remedy:
    """The remedy, with what is to be done for it where the server was started."""
    edit = edit_of(remedy)
    if plan is None or edit is None:
        return remedy
    return msgspec.structs.replace(remedy, instructions=instructions(plan, [edit]))


def _figure(figure: Figure, values: Values) -> str | None:
    operands = [values[name] for name in figure.of if name in values]
    if len(operands) < len(figure.of):
        return None
    if figure.rule == "nearest":
        wanted, choices = operands
        return next(iter(nearest(wanted, re.findall(r"[\w.-]+", choices))), None)
    number = float(operands[0].replace(",", ""))
    if figure.rule == "share":
        total = float(operands[1])
        number = number / total if total else 0.0
    steps = math.floor(number / figure.step + 1e-9)
    return f"{steps * figure.step:.2f}" if figure.step < 1 else f"{steps * figure.step:.0f}"


def _suits(rule: RemedyRule, known: Values, facts: Facts, stage: str) -> bool:
    answer = suits(rule.when, facts, stage, known)
    return in_range(rule.between, known) and (answer or (answer is None and not rule.only_known))


def _filled(rule: RemedyRule, values: Values, *, certain: bool) -> Remedy | None:
    """The remedy with its values, or None when one of them is not known."""
    try:
        return Remedy(
            title=_(rule.title).format_map(values),
            kind=rule.kind,
            certain=certain,
            set={
                flag: value.format_map(values) if isinstance(value, str) else None
                for flag, value in rule.set.items()
            },
            unset=tuple(flag.format_map(values) for flag in rule.unset),
            env={name: value.format_map(values) for name, value in rule.env.items()},
            commands=tuple(command.format_map(values) for command in rule.commands),
            effect=_(rule.effect).format_map(values) if rule.effect else "",
            until=_(rule.until) if rule.until else "",
            again=rule.again,
            manual=rule.manual,
        )
    except KeyError:
        return None


def _changes_nothing(remedy: Remedy, plan: LaunchPlan | None) -> bool:
    """Whether the plan is already what an edit would make it."""
    if plan is None or not (remedy.set or remedy.unset or remedy.env):
        return False
    options = {option.flag: option.value for option in plan.options}
    missing = object()
    return (
        all(options.get(flag, missing) == value for flag, value in remedy.set.items())
        and not any(flag in options for flag in remedy.unset)
        and all(plan.env.get(name) == value for name, value in remedy.env.items())
    )
