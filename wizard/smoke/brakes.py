"""Conservative options in a plan: what each costs, and the change that takes it out."""

from __future__ import annotations

from wizard.catalog import Brake, speed_facts
from wizard.i18n import _
from wizard.plan import LaunchPlan, PlanEdit
from wizard.smoke.rates import CostlyOption


def brakes_of(plan: LaunchPlan) -> tuple[CostlyOption, ...]:
    """The options and variables of a plan that trade speed for safety, the most expensive known one first."""
    found = [(brake, option) for brake in speed_facts().brake if (option := _in_plan(brake, plan))]
    found.sort(key=lambda pair: -(pair[0].price_max or 0.0))
    return tuple(
        CostlyOption(
            id=brake.id,
            option=option,
            title=_(brake.title),
            price_min=brake.price_min,
            price_max=brake.price_max,
            source=brake.source,
        )
        for brake, option in found
    )


def release(cost: CostlyOption) -> PlanEdit:
    """The edit that leaves an option of ``brakes_of`` out."""
    brake = next(entry for entry in speed_facts().brake if entry.id == cost.id)
    title = _("Without {option}").format(option=cost.option)
    if brake.flag is not None:
        return PlanEdit(origin="tuning", title=title, unset=(brake.flag,))
    return PlanEdit(origin="tuning", title=title, env={brake.variable or "": None})


def unlimited_by(plan: LaunchPlan) -> str:
    """Why no limit holds for this plan: an option with which a reading of the weights is not one token."""
    flags = {option.flag.partition(".")[0] for option in plan.options}
    return next((_(entry.why) for entry in speed_facts().unlimited if entry.flag in flags), "")


def _in_plan(brake: Brake, plan: LaunchPlan) -> str:
    """How the brake is written in the plan, or nothing."""
    alone = plan.flag("--tensor-parallel-size") in (None, "1")
    if not brake.known_to(plan.vllm_version) or (brake.several_gpus and alone):
        return ""
    if brake.variable is not None:
        value = plan.env.get(brake.variable)
        held = value is not None and (not brake.values or value in brake.values)
        return f"{brake.variable}={value}" if held else ""
    option = next((entry for entry in plan.options if entry.flag == brake.flag), None)
    if option is None or (brake.values and option.value not in brake.values):
        return ""
    return option.flag if option.value is None else f"{option.flag} {option.value}"
