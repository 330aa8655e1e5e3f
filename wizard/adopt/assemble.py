"""Puts the plan of an adopted server together from what was read of it."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from wizard.adopt.config import with_config_file
from wizard.adopt.types import Adopted
from wizard.budget import limits
from wizard.catalog import find_model, runtime_facts, vllm_facts
from wizard.i18n import _
from wizard.plan import AdoptedFrom, LaunchPlan, PlanReason
from wizard.plan.known import judged
from wizard.plan.words import ServerCall, tokens
from wizard.runtime import Runtime, RuntimeKind
from wizard.runtime.interpreter import environment_of, interpreter_of
from wizard.text import is_secret_name, one_line

_PORT = 8000
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - what vLLM binds by itself, compared and shown only
_INSTALLED = re.compile(r"vllm(?:_cpu)?-(?P<version>\d[^-]*)\.dist-info$")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of a server. ``kind`` and ``path`` are those of its runtime, as far as they are known."""

    call: ServerCall
    origin: AdoptedFrom
    env: Mapping[str, str] = {}
    kind: RuntimeKind = "command"
    path: str = ""
    version: str | None = None
    window: int | None = None
    """What the server says of its window, tokens."""
    published: tuple[str, int] | None = None
    """Address and port under which it is reached, where they are not those of its own options."""


def make_adopted(found: Found) -> Adopted:
    """The plan of a server that was found.

    What its version would refuse by the tables is only a warning: it may run all the same.
    """
    call, origin = with_config_file(found.call, found.origin)
    values = {option.flag: option.value for option in call.options}
    secrets = dict.fromkeys((*origin.secrets, *call.secrets, *filter(is_secret_name, found.env)))
    unread = origin.unread if call.model else (*origin.unread, _("Which model is served could not be read."))
    in_command = tuple(dict.fromkeys((*origin.in_command, *call.secrets)))
    origin = msgspec.structs.replace(origin, secrets=tuple(secrets), in_command=in_command, unread=unread)
    entry = find_model(call.model)
    window = tokens(values.get("--max-model-len")) or found.window
    host, port = found.published or (values.get("--host") or _EVERYWHERE, _number(values.get("--port")))
    plan = LaunchPlan(
        command=call.command,
        base_options=call.options,
        base_env={
            name: value
            for name, value in found.env.items()
            if not is_secret_name(name) and _means_something(name, value)
        },
        runtime_kind=found.kind,
        runtime_path=found.path,
        vllm_version=found.version,
        model=entry.id if entry is not None else call.model,
        checkpoint=call.model,
        served_model_name=values.get("--served-model-name") or call.model,
        parser=values.get("--tool-call-parser"),
        reasoning_parser=values.get("--reasoning-parser"),
        host=host,
        port=port,
        timeout_s=60 * vllm_facts().start_pace.patience_minutes,
        limits=None
        if window is None
        else limits(window, thinks=entry is not None and entry.thinks, vllm_version=found.version),
        memory=None,
        reasons=(
            PlanReason(
                subject="vLLM",
                why=_("Read from a server that runs or ran; nothing was chosen here."),
                source=f"{origin.kind}:{origin.name}",
            ),
        ),
        adopted_from=origin,
    )
    runtime = Runtime(kind=found.kind, path=found.path, command=(), version=found.version)
    plan = judged(plan, runtime)
    doubts = tuple(msgspec.structs.replace(reason, refuses=False) for reason in plan.refused)
    plan = msgspec.structs.replace(plan, refused=(), warnings=(*plan.warnings, *doubts))
    return Adopted(plan=plan, adopted_from=origin)


def of_its_own(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that change what vLLM does."""
    beginnings = runtime_facts().adoption.variables
    return {name: value for name, value in env.items() if name.startswith(beginnings)}


def _means_something(name: str, value: str) -> bool:
    """Whether a variable is more than what an image says of itself."""
    facts = runtime_facts().adoption
    noise = any(fnmatch.fnmatchcase(name, pattern) for pattern in facts.noise)
    return not noise and facts.usual.get(name) != value


def runtime_of(command: Sequence[str], env: Mapping[str, str]) -> tuple[RuntimeKind, str, str | None]:
    """Kind, folder and version of the vLLM a command starts, read from the disk; nothing is run."""
    program = next((place for place, word in enumerate(command) if Path(word).name == "vllm"), None)
    module = next((place for place, word in enumerate(command) if word == "-m"), None)
    python = None
    if program is not None:
        python = interpreter_of((command[program],), env)
    elif module:
        python = Path(command[module - 1])
    folder = environment_of(python) if python is not None and python.is_absolute() else None
    if folder is None:
        return "command", "" if program is None else command[program], None
    kind: RuntimeKind = "conda" if (folder / "conda-meta").is_dir() else "venv"
    names = (place.name for place in folder.glob("lib/python3*/site-packages/vllm*.dist-info"))
    versions = [match["version"] for name in names if (match := _INSTALLED.match(name))]
    return kind, str(folder), one_line(versions[0], 60) if versions else None


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else _PORT
