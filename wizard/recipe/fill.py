"""Puts the values of this machine into the text of a recipe."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from packaging.version import Version

from wizard.catalog import (
    RecipeText,
    Road,
    StepCheck,
    StepText,
    host_facts,
    recipe_table,
    runtime_facts,
)
from wizard.i18n import _
from wizard.machine import Machine
from wizard.recipe.types import Recipe, RecipeStep, Tools

_MIB_IN_GIB = 1024
_NEWEST = "999"


def fill(text: RecipeText, road: Road, machine: Machine, tools: Tools, base: Path) -> Recipe:
    """The recipe of a road for this machine; pure. Environments and code go into folders of ``base``."""
    values = _values(text, road, machine, tools, base)
    # Known to hold from the first step on; what a step brings holds from its own check on.
    env = _filled(text.env, values) | _filled(road.env, values)
    steps: list[RecipeStep] = []
    for step in text.step:
        if step.since is None or Version(step.since) <= Version(road.version or _NEWEST):
            after = env | _filled(step.env, values)
            steps.append(_step(step, values, env, after))
            env = after
    return Recipe(
        route=text.route,
        id=text.id,
        title=_(text.title).format_map(values),
        version=road.version,
        why=_(road.why),
        steps=tuple(steps),
        env=env,
        command=tuple(shlex.split(word.format_map(values))[0] for word in text.command),
        notes=tuple(_(note).format_map(values) for note in text.notes),
        source=text.source,
        machine=machine.simulated or "",
    )


def _step(
    step: StepText, values: Mapping[str, str], env: Mapping[str, str], after: Mapping[str, str]
) -> RecipeStep:
    return RecipeStep(
        id=step.id,
        title=_(step.title).format_map(values),
        why=_(step.why).format_map(values),
        commands=tuple(line.format_map(values) for line in step.commands),
        check=StepCheck(
            command=step.check.command.format_map(values),
            expect=step.check.expect.format_map(values),
            reject=step.check.reject.format_map(values),
        ),
        help=_(step.help).format_map(values) if step.help else "",
        sudo=step.sudo,
        network=step.network,
        long=step.long,
        deadline_s=60 * step.minutes,
        env=env,
        result_env=after,
    )


def _filled(env: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    return {name: value.format_map(values) for name, value in env.items()}


def _values(text: RecipeText, road: Road, machine: Machine, tools: Tools, base: Path) -> dict[str, str]:
    version = road.version or ""
    folder = base / (f"vllm-{version}-built" if text.route == "source" else f"vllm-{version}")
    values = {
        "version": version,
        "version_pattern": re.escape(version),
        "venv": shlex.quote(str(folder)),
        "code": shlex.quote(str(base / f"vllm-{version}-source")),
        "jobs": str(_jobs(machine)),
        "managed": " --break-system-packages" if tools.managed else "",
        **_python_range(version),
        **_engine(tools, base),
        **text.values,
        **road.values,
    }
    installer = next(one for one in recipe_table().installer if one.name == ("uv" if tools.uv else "pip"))
    values["options"] = road.options.get(installer.name, "")
    values["python"] = recipe_table().python
    values["make_venv"] = installer.venv.format_map(values)
    values["install"] = installer.install.format_map(values)
    return values


def _python_range(version: str) -> dict[str, str]:
    """The interpreters a version takes, as pairs Python can compare with."""
    ranges = [row for row in host_facts().python if Version(row.since) <= Version(version or _NEWEST)]
    row = ranges[-1] if ranges else host_facts().python[0]
    return {"python_floor": row.floor.replace(".", ", "), "python_below": row.below.replace(".", ", ")}


def _engine(tools: Tools, base: Path) -> dict[str, str]:
    """How a container is run: by the engine that answers, or as it would be by Docker."""
    facts = runtime_facts()
    engine = next((one for one in facts.engine if one.name == tools.engine), facts.engine[0])
    toolkit = next(one for one in recipe_table().engine if one.name == engine.name)
    hub = base / ".cache" / "huggingface"
    return {
        "engine": engine.name,
        "gpus": engine.gpus,
        "run_options": " ".join(
            shlex.quote(word) for word in (word.format(hub=hub) for word in facts.container.run)
        ),
        "toolkit_set_up": toolkit.set_up,
        "toolkit_check": toolkit.check,
        "toolkit_expect": toolkit.expect,
    }


def _jobs(machine: Machine) -> int:
    """As many compilers as there are cores, and as the memory bears at their worst."""
    table = recipe_table()
    bearable = int(machine.memory.total_mib / _MIB_IN_GIB / table.gib_per_job)
    return max(1, min(table.max_jobs, machine.cpu_count or 1, bearable))
