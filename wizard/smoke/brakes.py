"""Conservative options in a plan: what each costs, and the change that takes it out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import msgspec

from wizard.catalog import Brake, speed_facts
from wizard.i18n import _
from wizard.plan import LaunchPlan, Option, PlanEdit
from wizard.smoke.rates import CostlyOption


class _Held(msgspec.Struct, frozen=True, kw_only=True):
    """A brake in a plan: how it is shown, and the change that takes it out."""

    shown: str
    set: Mapping[str, str | None] = {}
    unset: tuple[str, ...] = ()
    env: Mapping[str, str | None] = {}


def brakes_of(plan: LaunchPlan) -> tuple[CostlyOption, ...]:
    """The options and variables of a plan that trade speed for safety, the most expensive known one first."""
    found = [(brake, held) for brake in speed_facts().brake if (held := _held(brake, plan))]
    found.sort(key=lambda pair: -(pair[0].price_max or 0.0))
    return tuple(
        CostlyOption(
            id=brake.id,
            option=held.shown,
            title=_(brake.title),
            price_min=brake.price_min,
            price_max=brake.price_max,
            source=brake.source,
        )
        for brake, held in found
    )


def release(cost: CostlyOption, plan: LaunchPlan) -> PlanEdit:
    """The edit that leaves an option of ``brakes_of`` out of a plan that has it."""
    held = next(held for brake in speed_facts().brake if brake.id == cost.id and (held := _held(brake, plan)))
    title = _("Without {option}").format(option=cost.option)
    return PlanEdit(origin="tuning", title=title, set=held.set, unset=held.unset, env=held.env)


def unlimited_by(plan: LaunchPlan) -> str:
    """Why no limit holds for this plan: an option with which a reading of the weights is not one token."""
    flags = {option.flag.partition(".")[0] for option in plan.options}
    return next((_(entry.why) for entry in speed_facts().unlimited if entry.flag in flags), "")


def _held(brake: Brake, plan: LaunchPlan) -> _Held | None:
    """How the brake stands in the plan; None when it does not, or costs nothing there."""
    alone = plan.flag("--tensor-parallel-size") in (None, "1")
    if not brake.known_to(plan.vllm_version) or (brake.several_gpus and alone):
        return None
    if brake.variable is not None:
        value = plan.env.get(brake.variable)
        if value is None or not _brakes(brake, value):
            return None
        return _Held(shown=f"{brake.variable}={value}", env={brake.variable: None})
    return _as_option(brake, plan.options) or _in_json(brake, plan.options)


def _as_option(brake: Brake, options: Iterable[Option]) -> _Held | None:
    for option in options:
        flag, value = option.flag, option.value
        if brake.short is not None and flag.startswith(brake.short):
            flag, value = brake.flag or "", value or flag.removeprefix(brake.short).lstrip("=")
        if flag == brake.flag and _brakes(brake, value):
            return _Held(shown=" ".join(option.words[:2]), unset=(option.flag,))
    return None


def _in_json(brake: Brake, options: Iterable[Option]) -> _Held | None:
    """A key of a JSON option; the others of the option stay."""
    name, _dot, key = (brake.flag or "").partition(".")
    option = next((entry for entry in options if key and entry.flag == name), None)
    try:
        document = json.loads(option.value or "") if option is not None else None
    except ValueError:
        return None
    if not isinstance(document, dict) or key not in document or not _brakes(brake, document[key]):
        return None
    rest = {other: value for other, value in document.items() if other != key}
    shown = f"{brake.flag} {document[key]}"
    return _Held(shown=shown, set={name: json.dumps(rest)}) if rest else _Held(shown=shown, unset=(name,))


def _brakes(brake: Brake, value: object) -> bool:
    """Whether it brakes with this value; vLLM takes the names of modes in small letters as well."""
    return not brake.values or str(value).upper() in brake.values
