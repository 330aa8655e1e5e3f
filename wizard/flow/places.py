"""Where a journey puts things: the real places, or a scratch folder that stands in for them."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from wizard import paths, rehearsal
from wizard.errors import UnknownNameError, WizardError
from wizard.flow.journey import Journey
from wizard.i18n import _
from wizard.plan import LaunchPlan, PlanEdit, apply
from wizard.serve import require_free_port


def prepare(journey: Journey) -> Journey:
    """A simulated journey gets its scratch folder here, before it writes anything."""
    if not journey.simulated or journey.scratch is not None:
        return journey
    return msgspec.structs.replace(journey, scratch=str(paths.scratch_dir()))


def runs_dir(journey: Journey) -> Path:
    """Where runs of vLLM keep their logs and records."""
    return paths.runs_dir() if journey.scratch is None else Path(journey.scratch) / "runs"


def receipt_path(journey: Journey) -> Path:
    """Where the receipt of this journey is kept."""
    return paths.receipt_path() if journey.scratch is None else Path(journey.scratch) / "receipt.toml"


def opencode_path(journey: Journey) -> Path | None:
    """The configuration file: the scratch one, the one asked for, or None for opencode's own rule."""
    if journey.scratch is not None:
        return Path(journey.scratch) / "opencode" / "opencode.json"
    path = journey.answers.opencode.path
    return None if path is None else paths.expanded(path)


def project_folder(journey: Journey) -> str | None:
    """The project a configuration can be for: the one asked for, else this folder; None: there is none."""
    if journey.simulated or journey.answers.opencode.path is not None:
        return None
    if journey.answers.opencode.project is not None:
        return journey.answers.opencode.project
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return None
    return None if here in (Path.home(), Path(here.anchor)) else str(here)


def client_environ(journey: Journey) -> Mapping[str, str]:
    """The environment opencode's settings are looked up in: a simulated journey has a home of its own."""
    if journey.scratch is None:
        return os.environ
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENCODE_", "SUDO_"))}
    return kept | {"HOME": journey.scratch, "XDG_CONFIG_HOME": journey.scratch}


def rehearsed(
    plan: LaunchPlan, pace_s: float, fault: str | None = None, tokens_per_second: float | None = None
) -> LaunchPlan:
    """The same plan, carried out by the stand-in server on a loopback port that is free right now.

    ``tokens_per_second`` is the pace of its answers; None: what it takes by itself. The plan that is shown
    and recorded stays the real one; only what is started differs.
    """
    if fault is not None and fault not in rehearsal.faults():
        raise UnknownNameError(_("fault"), fault, rehearsal.faults())
    words: dict[str, str | None] = {"--rehearsal-pace": f"{pace_s:g}", "--rehearsal-with-parent": None}
    if fault is not None:
        words["--rehearsal-fault"] = fault
    if tokens_per_second is not None:
        words["--rehearsal-tokens-per-second"] = f"{tokens_per_second:g}"
    try:
        require_free_port("127.0.0.1", plan.port)
        port = plan.port
    except WizardError:
        port = free_port()
    edit = PlanEdit(
        origin="tuning", title="rehearsal", set={"--host": "127.0.0.1", "--port": str(port), **words}
    )
    command = (*rehearsal.command(), "serve", plan.checkpoint)
    stand_in = msgspec.structs.replace(plan, command=command, host="127.0.0.1", port=port, base_env={})
    return apply(stand_in, edit)


def free_port() -> int:
    """A loopback port nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
