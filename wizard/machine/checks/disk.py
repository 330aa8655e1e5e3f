"""Room on the paths an installation fills, and the kind of disk that models lie on."""

from __future__ import annotations

import shlex

from wizard.catalog import host_facts
from wizard.i18n import N_, _
from wizard.machine.checks.subject import Subject, unread
from wizard.machine.types import Check, CheckStatus, Disk, Machine

_ENGINES = {"docker": "Docker", "podman": "Podman"}
_LOCAL_DISK = N_("Set HF_HOME to a folder on a disk of this machine.")
_BAD_PLACES = {
    "network": (N_("Every start reads all weights over the network, which takes long."), _LOCAL_DISK),
    "container": (
        N_("It belongs to the container: what is downloaded there is gone with it."),
        N_("Mount a folder of the host and set HF_HOME to it: docker run -v ~/.cache/huggingface:..."),
    ),
    "memory": (
        N_("It lies in the memory, which the model needs itself, and is empty after a restart."),
        _LOCAL_DISK,
    ),
    "foreign": (
        N_("It knows no symbolic links as Linux makes them, so that every file may be stored twice."),
        N_("Set HF_HOME to a folder on a disk with a file system of Linux, such as ext4 or xfs."),
    ),
    "shared": (N_("It is a folder of another system, which is read slowly."), _LOCAL_DISK),
    "windows": (
        N_("It is a drive of Windows, which is read slowly from Linux."),
        N_("Set HF_HOME to a folder of the Linux side, such as ~/.cache/huggingface."),
    ),
}
"""What is wrong with a kind of file system, and what helps."""


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


def images(subject: Subject) -> Check | None:
    """Room where Docker or Podman would pull vLLM's image to."""
    found = [(name, disk) for purpose, name in _ENGINES.items() if (disk := _find(subject.machine, purpose))]
    if not found:
        return None
    wanted = host_facts().disk.images_gib
    text = _("{free} GiB free where {program} keeps images ({path}).")
    details = [text.format(free=f"{disk.free_gib:.0f}", program=name, path=disk.path) for name, disk in found]
    if any(disk.assumed for _name, disk in found):
        details.append(
            _("Docker's service could not be asked; that path is from its settings, or the usual one.")
        )
    command = "; ".join(("docker info | grep 'Root Dir'", *(_df(disk) for _name, disk in found)))
    if all(disk.free_gib >= wanted for _name, disk in found):
        return Check(id="disk-images", status="ok", detail=" ".join(details), command=command)
    hint = _(
        "vLLM's image takes about {gib:.0f} GiB. Remove images you no longer need (docker image prune -a), "
        "or move them to a larger disk: data-root in /etc/docker/daemon.json, root in "
        "/etc/containerd/config.toml, or graphroot in Podman's storage.conf."
    ).format(gib=wanted)
    return Check(id="disk-images", status="warn", detail=" ".join(details), hint=hint, command=command)


def file_system(subject: Subject) -> Check:
    """Whether models lie on a kind of file system that serves them badly."""
    disk = _find(subject.machine, "models")
    if disk is None or disk.file_system is None:
        return unread("file-system", "findmnt -T ~/.cache/huggingface")
    command = f"findmnt -T {shlex.quote(disk.path)}"
    detail = _("Models lie on {kind}.").format(kind=disk.file_system)
    name = disk.file_system.lower()
    kinds = [entry.kind for entry in host_facts().file_system if name in entry.names]
    if not kinds:
        return Check(id="file-system", status="ok", detail=detail, command=command)
    windows = subject.machine.wsl and kinds[0] == "shared"
    reason, hint = _BAD_PLACES["windows" if windows else kinds[0]]
    detail = f"{detail} {_(reason)}"
    return Check(id="file-system", status="warn", detail=detail, hint=_(hint), command=command)


def _find(machine: Machine, purpose: str) -> Disk | None:
    return next((disk for disk in machine.disks if disk.purpose == purpose), None)


def _df(disk: Disk) -> str:
    return f"df -h {shlex.quote(disk.path)}"
