"""Room on the three paths an installation fills: models, home, temporary files."""

from __future__ import annotations

import shlex

from wizard.catalog import host_facts
from wizard.i18n import _
from wizard.machine.checks.subject import Subject
from wizard.machine.types import Check, CheckStatus, Disk, Machine


def models(subject: Subject) -> Check:
    """Room where huggingface_hub keeps models."""
    disk = _find(subject.machine, "models")
    if disk is None:
        return Check(id="disk", status="skip", detail=_("The room for models is not known."))
    detail = _("{free} GiB free where models go ({path}).").format(
        free=f"{disk.free_gib:.0f}", path=disk.path
    )
    if disk.free_gib >= host_facts().disk.models_gib:
        return Check(id="disk", status="ok", detail=detail, command=_df(disk))
    hint = _("Set HF_HOME to a folder on a larger disk, or remove models you no longer need (hf cache).")
    status: CheckStatus = "fail" if disk.free_gib < host_facts().disk.software_gib else "warn"
    return Check(id="disk", status=status, detail=detail, hint=hint, command=_df(disk))


def home(subject: Subject) -> Check:
    """Room for vLLM's environment and for what it compiles, which goes below the home folder."""
    disk = _find(subject.machine, "home")
    if disk is None:
        return Check(id="disk-home", status="skip", detail=_("The room in the home folder is not known."))
    detail = _("{free} GiB free in the home folder ({path}).").format(
        free=f"{disk.free_gib:.0f}", path=disk.path
    )
    wanted = host_facts().disk.software_gib
    if disk.free_gib >= wanted:
        return Check(id="disk-home", status="ok", detail=detail, command=_df(disk))
    hint = _(
        "vLLM and what it compiles take about {gib:.0f} GiB: install it on a larger disk, and move its "
        "caches there with UV_CACHE_DIR, VLLM_CACHE_ROOT and TRITON_CACHE_DIR."
    ).format(gib=wanted)
    return Check(id="disk-home", status="warn", detail=detail, hint=hint, command=_df(disk))


def temporary(subject: Subject) -> Check:
    """Room for temporary files, from which programs must be allowed to start."""
    disk, noexec = _find(subject.machine, "temporary"), subject.machine.system.temporary_noexec
    if disk is None:
        detail = _("The room for temporary files is not known.")
        return Check(id="disk-temporary", status="skip", detail=detail)
    detail = _("{free} GiB free for temporary files ({path}).").format(
        free=f"{disk.free_gib:.0f}", path=disk.path
    )
    elsewhere = _("Point TMPDIR to a folder on another disk, for vLLM and for what installs it.")
    if noexec:
        detail += " " + _(
            "Programs may not be started from there (noexec), which kernels compiled at run time need."
        )
        command = f"findmnt -T {shlex.quote(disk.path)}"
        return Check(id="disk-temporary", status="warn", detail=detail, hint=elsewhere, command=command)
    status: CheckStatus = "ok" if disk.free_gib >= host_facts().disk.temporary_gib else "warn"
    hint = "" if status == "ok" else elsewhere
    return Check(id="disk-temporary", status=status, detail=detail, hint=hint, command=_df(disk))


def _find(machine: Machine, purpose: str) -> Disk | None:
    return next((disk for disk in machine.disks if disk.purpose == purpose), None)


def _df(disk: Disk) -> str:
    return f"df -h {shlex.quote(disk.path)}"
