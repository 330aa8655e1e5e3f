"""Reading a plan back: the record of a run, or what ``plan --format json`` printed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from wizard.budget import Limits
from wizard.catalog import vllm_facts
from wizard.errors import CorruptDataError, UsageError
from wizard.i18n import _
from wizard.memory import MemoryPlan
from wizard.plan.types import AdoptedFrom, LaunchPlan
from wizard.plan.words import ServerCall, read_call
from wizard.text import HIDDEN


class _Printed(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the printed plan that a plan is made of."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    runtime: Mapping[str, str | None]
    model: str
    checkpoint: str
    served_model_name: str
    base_url: str = "http://127.0.0.1:8000/v1"
    limits: Limits | None = None
    memory: MemoryPlan | None = None


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    plan: _Printed
    adopted_from: AdoptedFrom | None = None


def read_plan(path: Path) -> LaunchPlan:
    """The plan in a file. Raises UsageError when it cannot be read, CorruptDataError when it is no plan."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            _("Cannot read the plan {path}: {reason}.").format(path=path, reason=error.strerror),
            _("Give the plan.json of a run, or what `plan --format json` printed."),
        ) from error
    try:
        return msgspec.json.decode(content, type=LaunchPlan)
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        return _from_printed(msgspec.json.decode(content, type=_Document))
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(
            _("{path} is not a launch plan: {reason}.").format(path=path, reason=error),
            _("Give the plan.json of a run, or what `plan --format json` printed."),
        ) from error


def _from_printed(document: _Document) -> LaunchPlan:
    printed, origin = document.plan, document.adopted_from
    call = read_call(printed.argv) or ServerCall(command=printed.argv, model=printed.checkpoint, options=())
    address = urlsplit(printed.base_url)
    values = {option.flag: option.value for option in call.options}
    return LaunchPlan(
        command=call.command,
        base_options=call.options,
        base_env={name: value for name, value in printed.env.items() if value != HIDDEN},
        runtime_kind=printed.runtime.get("kind") or "command",
        runtime_path=printed.runtime.get("path") or "",
        vllm_version=printed.runtime.get("version"),
        model=printed.model,
        checkpoint=printed.checkpoint,
        served_model_name=printed.served_model_name,
        parser=values.get("--tool-call-parser"),
        reasoning_parser=values.get("--reasoning-parser"),
        host=address.hostname or "127.0.0.1",
        port=address.port or 8000,
        timeout_s=60 * vllm_facts().start_pace.patience_minutes,
        limits=printed.limits,
        memory=printed.memory,
        reasons=(),
        adopted_from=origin,
    )
