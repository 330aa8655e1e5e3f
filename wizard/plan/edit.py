"""Changing a plan: every change is an edit that can be shown, applied and taken back."""

from __future__ import annotations

import msgspec

from wizard.plan.types import LaunchPlan, PlanEdit


def apply(plan: LaunchPlan, edit: PlanEdit) -> LaunchPlan:
    """The plan with one more edit on top; the plan itself is unchanged."""
    return msgspec.structs.replace(plan, edits=(*plan.edits, edit))


def take_back(plan: LaunchPlan, edit: PlanEdit) -> LaunchPlan:
    """The plan without an edit, as if it had never been applied; unknown edits change nothing."""
    return msgspec.structs.replace(plan, edits=tuple(kept for kept in plan.edits if kept != edit))


def describe(edit: PlanEdit) -> tuple[str, ...]:
    """An edit as lines of a change: ``+`` set, ``-`` unset."""
    lines = [f"+ {flag} {value}" if value is not None else f"+ {flag}" for flag, value in edit.set.items()]
    lines += [f"- {flag}" for flag in edit.unset]
    lines += [f"+ {name}={value}" if value is not None else f"- {name}" for name, value in edit.env.items()]
    return tuple(lines)
