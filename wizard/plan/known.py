"""Whether the vLLM of a plan knows the options and variables in it, and what changed about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from wizard.catalog import Flag, flag_facts, reached, vllm_facts
from wizard.compat import Reason
from wizard.errors import nearest_hint
from wizard.i18n import _
from wizard.plan.types import LaunchPlan, Option, PlanReason
from wizard.plan.words import canonical_flag
from wizard.runtime import Runtime
from wizard.text import one_line

_PARSERS = {"--tool-call-parser": "--tool-parser-plugin", "--reasoning-parser": "--reasoning-parser-plugin"}
"""Options that name a parser, and those that bring parsers nobody can know beforehand."""


def canonical(flag: str, runtime: Runtime) -> str:
    """A long option as the runtime writes it, see ``canonical_flag``."""
    return canonical_flag(flag, runtime.flags)


def judged(plan: LaunchPlan, runtime: Runtime) -> LaunchPlan:
    """The plan, with a refusal or a warning for each name the runtime does not know, and what changed else.

    What the installed vLLM told of itself decides; the tables speak for one that was not asked.
    """
    refused, warnings = list(plan.refused), list(plan.warnings)
    for option in plan.options:
        for problem in _problems(option, plan, runtime):
            (refused if problem.refuses else warnings).append(problem)
    warnings += _unknown_variables(plan, runtime)
    return msgspec.structs.replace(
        plan,
        refused=tuple(refused),
        warnings=tuple(warnings),
        reasons=(*plan.reasons, *_history(plan, runtime)),
    )


def _problems(option: Option, plan: LaunchPlan, runtime: Runtime) -> Iterator[Reason]:
    head = option.flag.partition(".")[0]
    entry = _entry(head)
    if option.flag.startswith(flag_facts().spelling.attached):
        return
    if runtime.flags:
        if head not in runtime.flags:
            yield _unknown(option.flag, runtime, entry, nearest_hint(head, runtime.flags))
            return
    elif entry is not None:
        if not entry.known_to(runtime.version):
            yield _unknown(option.flag, runtime, entry, "")
            return
    elif head not in (recorded := flag_facts().recorded).names:
        text = _("vLLM {version} has no option {flag}.").format(
            version=recorded.version, flag=one_line(option.flag)
        )
        text = f"{text} {nearest_hint(head, recorded.names)}".strip()
        yield Reason(code="flag-unrecorded", text=text, source=recorded.source)
    if option.value is not None:
        yield from _value_problems(option, option.value, plan, runtime)


def _value_problems(option: Option, value: str, plan: LaunchPlan, runtime: Runtime) -> Iterator[Reason]:
    entry = _entry(f"{option.flag} {value}")
    allowed = _allowed(option, plan, runtime)
    if entry is not None and not entry.known_to(runtime.version):
        yield _unknown(entry.name, runtime, entry, "")
    elif allowed and value.casefold() not in {choice.casefold() for choice in allowed}:
        text = _("{flag} does not take {value} in vLLM {version}.").format(
            flag=option.flag, value=one_line(value), version=_version(runtime)
        )
        yield Reason(
            code="value-unknown",
            text=f"{text} {nearest_hint(value, allowed)}".strip(),
            source=_asked(runtime),
            refuses=True,
        )


def _allowed(option: Option, plan: LaunchPlan, runtime: Runtime) -> Sequence[str]:
    """The values an option takes, as far as the runtime told; empty: any."""
    if option.flag == "--attention-backend" and runtime.attention_backends:
        return ("auto", *runtime.attention_backends)
    if option.flag not in _PARSERS:
        return runtime.choices.get(option.flag, ())
    brought = any(other.flag == _PARSERS[option.flag] for other in plan.options)
    chosen = option.value in (plan.parser, plan.reasoning_parser)
    if brought or chosen:
        return ()
    return runtime.tool_parsers if option.flag == "--tool-call-parser" else runtime.reasoning_parsers


def _unknown(name: str, runtime: Runtime, entry: Flag | None, near: str) -> Reason:
    text = _("vLLM {version} does not know {flag}.").format(version=_version(runtime), flag=one_line(name))
    told = _told(entry) if entry is not None else near
    return Reason(
        code="flag-unknown",
        text=f"{text} {told}".strip(),
        source=entry.source if entry is not None else _asked(runtime),
        refuses=True,
    )


def _unknown_variables(plan: LaunchPlan, runtime: Runtime) -> Iterator[Reason]:
    """Variables vLLM would overlook; it only warns of them in its log."""
    for name in plan.env:
        entry = _entry(name)
        known = entry is None or entry.known_to(runtime.version)
        if name.startswith("VLLM_") and runtime.variables:
            known = name in runtime.variables
        if not known:
            text = _("vLLM {version} overlooks the variable {name}.").format(
                version=_version(runtime), name=one_line(name)
            )
            told = _told(entry) if entry is not None else nearest_hint(name, runtime.variables)
            source = entry.source if entry is not None else _asked(runtime)
            yield Reason(code="variable-unknown", text=f"{text} {told}".strip(), source=source)


def _history(plan: LaunchPlan, runtime: Runtime) -> Iterator[PlanReason]:
    """What is different about the names of the plan in other versions than this one."""
    newest = vllm_facts().newest
    if runtime.version is not None and not reached(newest, runtime.version.partition("+")[0]):
        text = _("vLLM {version} is newer than {newest}, the newest one the tables were checked against.")
        yield PlanReason(
            subject="vLLM",
            why=text.format(version=runtime.version, newest=newest),
            source=vllm_facts().source,
        )
    used = [(option.flag.partition(".")[0], option.value) for option in plan.options]
    for name, value in (*used, *((name, None) for name in plan.env)):
        for entry in filter(None, (_entry(name), _entry(f"{name} {value}"))):
            if entry.known_to(runtime.version):
                yield PlanReason(subject=entry.name, why=_told(entry), source=entry.source)


def _told(entry: Flag) -> str:
    """An entry's history in whole sentences."""
    told = []
    if entry.since is not None:
        told.append(_("It came with vLLM {since}.").format(since=entry.since))
    if entry.changed is not None:
        told.append(_("It changed in vLLM {changed}.").format(changed=entry.changed))
    if entry.until is not None:
        told.append(_("It is gone after vLLM {until}.").format(until=entry.until))
    if entry.instead:
        told.append(_("Use {other} instead.").format(other=entry.instead))
    if entry.notes:
        told.append(_(entry.notes))
    return " ".join(told)


def _entry(name: str) -> Flag | None:
    facts = flag_facts()
    return next((entry for entry in (*facts.flag, *facts.variable) if entry.name == name), None)


def _version(runtime: Runtime) -> str:
    return runtime.version or vllm_facts().newest


def _asked(runtime: Runtime) -> str:
    return _("asked of vLLM {version} itself").format(version=_version(runtime))
