"""A plan as something a person can paste, or as the JSON of the contract."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

import msgspec

from wizard.plan.types import LaunchPlan
from wizard.text import covered_env, is_secret_name


def shell(plan: LaunchPlan) -> str:
    """The plan as one POSIX shell command, an option a line; the key, if any, is read from its file."""
    words = [_assignment(name, value) for name, value in sorted(plan.env.items())]
    if plan.api_key_file is not None:
        words.append(f'VLLM_API_KEY="$(cat {shlex.quote(plan.api_key_file)})"')
    words += [_assignment(name, "") for name in secrets_of(plan)]
    words.append(shlex.join(plan.call))
    words += [shlex.join(option.words) for option in plan.options]
    return " \\\n  ".join(words)


def secrets_of(plan: LaunchPlan) -> tuple[str, ...]:
    """Variables with secrets that an adopted server needs and whose values are not part of its plan."""
    return plan.adopted_from.secrets if plan.adopted_from is not None else ()


def _assignment(name: str, value: str) -> str:
    """A variable for the command line; a secret is taken from the shell that runs it instead of shown."""
    return f'{name}="${name}"' if is_secret_name(name) else f"{name}={shlex.quote(value)}"


def document(plan: LaunchPlan) -> dict[str, object]:
    """The plan as the contract's ``{plan, reasons, refused}``."""
    fields: dict[str, object] = {
        "id": plan.id,
        "runtime": {"kind": plan.runtime_kind, "path": plan.runtime_path, "version": plan.vllm_version},
        "model": plan.model,
        "checkpoint": plan.checkpoint,
        "argv": plan.argv,
        "env": covered_env(plan.env),
        "files": {"api_key": plan.api_key_file} if plan.api_key_file else {},
        "served_model_name": plan.served_model_name,
        "base_url": plan.base_url,
        "limits": plan.limits,
        "memory": plan.memory,
        "edits": plan.edits,
        "warnings": plan.warnings,
    }
    told: dict[str, object] = {"plan": fields, "reasons": plan.reasons, "refused": plan.refused}
    if plan.adopted_from is not None:
        told["adopted_from"] = plan.adopted_from
    built: dict[str, object] = msgspec.to_builtins(told)
    return built


FORMATS: Mapping[str, Callable[[LaunchPlan], str]] = {"shell": shell}
"""Renderings for people, by the name ``plan --format`` takes."""
