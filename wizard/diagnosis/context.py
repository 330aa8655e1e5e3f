"""What is known around a text (machine, plan, versions, what a log says of itself), and what suits it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from wizard.diagnosis.types import Condition
from wizard.machine import Machine
from wizard.plan import LaunchPlan


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts for conditions. Empty or None: unknown."""

    capabilities: tuple[int, ...] = ()
    arch: str = ""
    unified: bool | None = None
    container: bool | None = None
    gpus: int | None = None
    vllm: str = ""
    torch: str = ""
    driver: str = ""
    model: str = ""
    flags: Mapping[str, str] | None = None


def facts_of(
    said: Mapping[str, str],
    machine: Machine | None,
    plan: LaunchPlan | None,
    vllm_version: str | None,
) -> Facts:
    """All that is known; what was given outweighs what the log says.

    ``said`` are facts that lines name.
    """
    usable = [gpu for gpu in machine.gpus if gpu.usable or gpu.capability] if machine else []
    named = _tens(said.get("capability", ""))
    return Facts(
        capabilities=tuple(gpu.capability for gpu in usable) or ((named,) if named else ()),
        arch=machine.arch if machine else "",
        unified=any(gpu.unified for gpu in usable) if usable else None,
        container=_container(machine, plan),
        gpus=len(usable) if machine else None,
        vllm=vllm_version or (plan and plan.vllm_version) or said.get("vllm", ""),
        torch=said.get("torch", ""),
        driver=(machine and machine.driver) or said.get("driver", ""),
        model=plan.checkpoint if plan is not None else "",
        flags=None if plan is None else {option.flag: option.value or "" for option in plan.options},
    )


def suits(condition: Condition, facts: Facts, stage: str, values: Mapping[str, str]) -> bool | None:
    """Whether a condition holds at a line; None when that is not known (an empty condition holds)."""
    answers = list(_answers(condition, facts, stage, values))
    if False in answers:
        return False
    return None if None in answers else True


def in_range(between: Mapping[str, tuple[float, float]], values: Mapping[str, str]) -> bool:
    """Whether all these values are known and in their range, the upper end excluded."""
    return all(
        name in values and low <= float(values[name].replace(",", "")) < high
        for name, (low, high) in between.items()
    )


def _answers(
    condition: Condition, facts: Facts, stage: str, values: Mapping[str, str]
) -> Iterable[bool | None]:
    if condition.capability is not None:
        low, high = condition.capability
        yield any(low <= one <= high for one in facts.capabilities) if facts.capabilities else None
    if condition.gpus is not None:
        low, high = condition.gpus
        yield None if facts.gpus is None else low <= facts.gpus <= high
    if condition.arch:
        yield facts.arch == condition.arch if facts.arch else None
    for wanted, known in ((condition.unified, facts.unified), (condition.container, facts.container)):
        if wanted is not None:
            yield None if known is None else known == wanted
    for specifier, version in (
        (condition.vllm, facts.vllm),
        (condition.torch, facts.torch),
        (condition.driver, facts.driver),
    ):
        if specifier:
            yield _version_in(version, specifier)
    if condition.model:
        yield bool(re.search(condition.model, facts.model, re.IGNORECASE)) if facts.model else None
    if condition.stage:
        yield stage in condition.stage if stage else None
    for flag, pattern in condition.flags.items():
        yield _flag_is(facts.flags, flag, pattern)
    if condition.between:
        yield in_range(condition.between, values) if condition.between.keys() <= values.keys() else None


def _flag_is(flags: Mapping[str, str] | None, flag: str, pattern: str) -> bool | None:
    if flags is None:
        return None
    return flag in flags and bool(re.search(pattern, flags[flag], re.IGNORECASE))


def _version_in(version: str, specifier: str) -> bool | None:
    """Whether a version is in a range; candidates count as their release, unreadable ones as unknown."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        return Version(Version(version).base_version) in SpecifierSet(specifier)
    except InvalidVersion:
        return None


def _container(machine: Machine | None, plan: LaunchPlan | None) -> bool | None:
    if plan is not None and plan.runtime_kind == "container":
        return True
    return None if machine is None else bool(machine.container)


def _tens(capability: str) -> int:
    """Ten times a compute capability, from ``12.1``, ``121`` or ``sm_121a``; 0 for anything else."""
    if match := re.fullmatch(r"(\d+)\.(\d)", capability):
        return int(match[1]) * 10 + int(match[2])
    match = re.fullmatch(r"(?:sm_)?(\d{2,3})[af]?", capability)
    return int(match[1]) if match else 0
