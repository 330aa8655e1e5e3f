"""Reading a plan back: the record of a run, or what ``plan --format json`` printed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from wizard.budget import Limits
from wizard.catalog import vllm_facts
from wizard.errors import CorruptDataError, UsageError
from wizard.i18n import _
from wizard.memory import MemoryPlan
from wizard.plan.build import parse_arguments
from wizard.plan.types import LaunchPlan


class _Printed(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the printed plan that a plan is made of."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    runtime: Mapping[str, str | None]
    model: str
    checkpoint: str
    served_model_name: str
    limits: Limits
    memory: MemoryPlan | None = None


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    plan: _Printed


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
        printed = msgspec.json.decode(content, type=_Document).plan
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CorruptDataError(
            _("{path} is not a launch plan: {reason}.").format(path=path, reason=error),
            _("Give the plan.json of a run, or what `plan --format json` printed."),
        ) from error
    return _from_printed(printed)


def _from_printed(printed: _Printed) -> LaunchPlan:
    words = printed.argv
    serve = words.index("serve") if "serve" in words else 0
    start = next((place for place in range(serve, len(words)) if words[place].startswith("--")), len(words))
    options = parse_arguments(words[start:])
    values = {option.flag: option.value for option in options}
    return LaunchPlan(
        command=words[:start],
        base_options=options,
        base_env=printed.env,
        runtime_kind=printed.runtime.get("kind") or "command",
        runtime_path=printed.runtime.get("path") or "",
        vllm_version=printed.runtime.get("version"),
        model=printed.model,
        checkpoint=printed.checkpoint,
        served_model_name=printed.served_model_name,
        parser=values.get("--tool-call-parser"),
        reasoning_parser=values.get("--reasoning-parser"),
        host=values.get("--host") or "127.0.0.1",
        port=int(values.get("--port") or 8000),
        timeout_s=60 * vllm_facts().start_pace.patience_minutes,
        limits=printed.limits,
        memory=printed.memory,
        reasons=(),
    )
