"""A step in words: the same on the screens and in the command."""

from __future__ import annotations

from wizard.i18n import _
from wizard.recipe.types import Recipe, RecipeStep


def step_title(step: RecipeStep) -> str:
    """Its title, and what one should know before: a password, the network, patience."""
    marks = {_("sudo"): step.sudo, _("network"): step.network, _("long"): step.long}
    told = ", ".join(mark for mark, holds in marks.items() if holds)
    return f"{step.title} ({told})" if told else step.title


def step_facts(step: RecipeStep) -> tuple[str, ...]:
    """What it runs, what proves it, and what holds from there on; one line each."""
    facts = [f"$ {command}" for command in step.commands]
    facts.append(_("check: {command}").format(command=step.check.command))
    if step.check.expect:
        facts.append(_("must show: {pattern}").format(pattern=step.check.expect))
    if step.check.reject:
        facts.append(_("must not show: {pattern}").format(pattern=step.check.reject))
    for name, value in step.result_env.items():
        if name not in step.env:
            facts.append(_("from here on: {name}={value}").format(name=name, value=value))
    return tuple(facts)


def environment_facts(recipe: Recipe) -> tuple[str, ...]:
    """What the vLLM that is installed needs in its environment; the plan carries it."""
    text = _("vLLM then needs {name}={value}")
    return tuple(text.format(name=name, value=value) for name, value in recipe.env.items())
