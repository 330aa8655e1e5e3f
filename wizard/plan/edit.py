"""Changing a plan: every change is an edit that can be shown, applied and taken back."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wizard.plan.types import LaunchPlan, PlanEdit
from wizard.plan.words import read_options
from wizard.text import covered_env


def apply(plan: LaunchPlan, edit: PlanEdit) -> LaunchPlan:
    """The plan with one more edit on top; the plan itself is unchanged."""
    return _with_edits(plan, (*plan.edits, edit))


def take_back(plan: LaunchPlan, edit: PlanEdit) -> LaunchPlan:
    """The plan without an edit, as if it had never been applied; unknown edits change nothing."""
    return _with_edits(plan, tuple(kept for kept in plan.edits if kept != edit))


def _with_edits(plan: LaunchPlan, edits: tuple[PlanEdit, ...]) -> LaunchPlan:
    """The plan with these edits, and its own fields as the options now say: address, names, parsers."""
    changed = msgspec.structs.replace(plan, edits=edits)
    port = changed.flag("--port") or ""
    return msgspec.structs.replace(
        changed,
        host=changed.flag("--host") or plan.host,
        port=int(port) if port.isdecimal() else plan.port,
        served_model_name=changed.flag("--served-model-name") or plan.served_model_name,
        parser=changed.flag("--tool-call-parser"),
        reasoning_parser=changed.flag("--reasoning-parser"),
    )


def leave_out(words: Sequence[str], edit: PlanEdit) -> tuple[str, ...]:
    """Extra arguments of a person once an edit has taken some out, or parts of them; nothing is added.

    The words are unchanged where the edit concerns none of them.
    """
    options = read_options(words)
    left = [
        msgspec.structs.replace(option, value=edit.set.get(option.flag, option.value))
        for option in options
        if option.flag not in edit.unset
    ]
    return tuple(words) if list(options) == left else tuple(word for option in left for word in option.words)


def difference(before: LaunchPlan, after: LaunchPlan) -> tuple[str, ...]:
    """What a start differs in, as lines: ``-`` as it was, ``+`` as it becomes; options first, then variables.

    Empty for plans that start the same.
    """
    lines: list[str] = []
    old = {option.flag: option.value for option in before.options}
    new = {option.flag: option.value for option in after.options}
    for flag in dict.fromkeys((*old, *new)):
        if flag not in new or flag not in old or old[flag] != new[flag]:
            lines += [f"- {_words(flag, old[flag])}"] if flag in old else []
            lines += [f"+ {_words(flag, new[flag])}"] if flag in new else []
    was, becomes = covered_env(before.env), covered_env(after.env)
    for name in sorted({*was, *becomes}):
        if was.get(name) != becomes.get(name):
            lines += [f"- {name}={was[name]}"] if name in was else []
            lines += [f"+ {name}={becomes[name]}"] if name in becomes else []
    return tuple(lines)


def _words(flag: str, value: str | None) -> str:
    return flag if value is None else f"{flag} {value}"


def describe(edit: PlanEdit) -> tuple[str, ...]:
    """An edit as lines of a change: ``+`` set, ``-`` unset."""
    lines = [f"+ {flag} {value}" if value is not None else f"+ {flag}" for flag, value in edit.set.items()]
    lines += [f"- {flag}" for flag in edit.unset]
    lines += [f"+ {name}={value}" if value is not None else f"- {name}" for name, value in edit.env.items()]
    return tuple(lines)
