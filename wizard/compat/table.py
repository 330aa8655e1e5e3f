"""The rules of assets/rules.toml: those that are matched against a row, and the switch of every other."""

from __future__ import annotations

from collections.abc import Iterable

from wizard.catalog import Model, Rule, Variant, rules, vllm_facts, within
from wizard.compat.heads import heads_of
from wizard.compat.types import Reason
from wizard.i18n import _
from wizard.memory import CacheLayout, layer_kinds
from wizard.runtime import Runtime


def table_rules(
    model: Model, variant: Variant, layout: CacheLayout | None, capability: int, runtime: Runtime
) -> tuple[Reason, ...]:
    """What the table says about this variant on this generation of GPU with this vLLM.

    ``layout`` is that of the model; None: unknown.
    """
    version = runtime.version or vllm_facts().newest
    families = _families(model) | {heads_of(layout, model.architecture, capability, version).kind}
    return tuple(
        Reason(
            code=rule.id,
            text=_(rule.text).format(capability=f"{capability // 10}.{capability % 10}", version=version),
            source=rule.source,
            refuses=rule.effect == "refuse",
            doubts=rule.effect == "warn",
            args=rule.args,
        )
        for rule in rules()
        if rule.text and _holds(rule, families, variant, capability, version)
    )


def in_force(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """The reasons without those of rules that the user switched off."""
    off = {rule.id for rule in rules() if rule.disabled}
    return tuple(reason for reason in reasons if reason.code not in off)


def _holds(rule: Rule, families: frozenset[str], variant: Variant, capability: int, version: str) -> bool:
    return (
        rule.capability_min <= capability <= rule.capability_max
        and (not rule.capabilities or capability in rule.capabilities)
        and capability not in rule.capabilities_not
        and (not rule.quantizations or variant.quantization in rule.quantizations)
        and (not rule.families or not families.isdisjoint(rule.families))
        and within(version, rule.since, rule.until)
    )


def _families(model: Model) -> frozenset[str]:
    """Its id, architecture, what its layers keep, and whether only a part of it works on each token."""
    names: set[str] = {model.id, model.architecture, *(layer_kinds(model.config) or ())}
    if model.active_params_b and model.params_b and model.active_params_b < model.params_b:
        names.add("experts")
    return frozenset(names)
