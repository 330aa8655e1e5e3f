"""How long opencode's first prompt will be here: by its version, by what the user adds, or measured."""

from __future__ import annotations

import functools
import threading

import msgspec

from wizard import paths
from wizard.budget import Limits, limits, output_cap
from wizard.errors import UsageError
from wizard.flow.journey import Journey
from wizard.flow.places import opencode_path
from wizard.i18n import _
from wizard.opencode import ExtraPart, extra_prompt, find_opencode, measure_prompt, opencode_version


class FirstPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about it. ``measured`` holds everything; else the version's own and ``extra`` add up."""

    opencode_version: str | None = None
    measured: int | None = None
    extra: int = 0
    cap: int | None = None
    """The longest answer opencode will ask for here; None: its own cap."""


def first_prompt(journey: Journey) -> FirstPrompt:
    """What holds for this journey; in a simulation neither programs nor files of this host count."""
    wanted = journey.answers.budget.extra_prompt_tokens
    measured = None if journey.prompt is None or wanted != "auto" else journey.prompt.tokens
    if journey.simulated:
        return FirstPrompt(measured=measured, extra=0 if wanted == "auto" else wanted)
    extra = sum(part.tokens for part in extra_parts(journey)) if wanted == "auto" else wanted
    return FirstPrompt(
        opencode_version=installed_version(journey), measured=measured, extra=extra, cap=output_cap()
    )


def limits_here(
    journey: Journey,
    window: int,
    *,
    thinks: bool,
    vllm_version: str | None,
    opencode_version: str | None = None,
) -> Limits:
    """opencode's limits for a window, with what the answers wish and is known of the first prompt."""
    prompt, wanted = first_prompt(journey), journey.answers.budget
    return limits(
        window,
        output=wanted.output,
        base_prompt_tokens=prompt.measured,
        extra_prompt_tokens=prompt.extra,
        trim_tools=wanted.trim_tools,
        thinks=thinks,
        opencode_version=opencode_version or prompt.opencode_version,
        vllm_version=vllm_version,
        cap=prompt.cap,
    )


def extra_parts(journey: Journey) -> tuple[ExtraPart, ...]:
    """Instruction files and MCP servers of the user that make the first prompt longer."""
    if journey.simulated:
        return ()
    project = journey.answers.opencode.project
    return extra_prompt(
        path=opencode_path(journey), project=None if project is None else paths.expanded(project)
    )


def installed_version(journey: Journey) -> str | None:
    """The version of the installed opencode, or None; it is asked once."""
    try:
        binary = find_opencode(journey.answers.opencode.binary)
    except UsageError:
        return None
    return None if binary is None else _version_of(binary)


@functools.cache
def _version_of(binary: str) -> str | None:
    return opencode_version(binary)


def measure_first_prompt(journey: Journey, cancel: threading.Event) -> Journey:
    """Let the installed opencode say what it sends first; a running server counts it.

    Raises UsageError without an opencode and in a simulation, RefusedError when it sends nothing.
    """
    if journey.simulated:
        raise UsageError(
            _("A rehearsal leaves the real opencode alone."), _("Enter the tokens as a number instead.")
        )
    binary = find_opencode(journey.answers.opencode.binary)
    if binary is None:
        raise UsageError(
            _("opencode is not installed here."), _("Install it with: npm install -g opencode-ai")
        )
    project = journey.answers.opencode.project
    size = measure_prompt(
        binary,
        server=journey.server,
        model=journey.choice.served_model_name if journey.choice else None,
        cwd=None if project is None else paths.expanded(project),
        cancel=cancel,
    )
    budget = msgspec.structs.replace(journey.answers.budget, extra_prompt_tokens="auto")
    answers = msgspec.structs.replace(journey.answers, budget=budget)
    return msgspec.structs.replace(journey, prompt=size, answers=answers)
