"""Memory of the host: what weights pass through, and on unified memory what the engine lives in."""

from __future__ import annotations

from wizard.catalog import host_facts
from wizard.i18n import _
from wizard.machine.checks.subject import Subject, gib
from wizard.machine.types import Check

_COMMAND = "free -m"


def memory(subject: Subject) -> Check:
    """Enough for weights on their way to a GPU; on unified memory, what the page cache holds."""
    memory, floors = subject.machine.memory, host_facts().memory
    detail = _("{available} of {total} GiB available.").format(
        available=gib(memory.available_mib), total=gib(memory.total_mib)
    )
    cache_mib = 0 if memory.free_mib is None else memory.available_mib - memory.free_mib
    if not any(gpu.unified for gpu in subject.machine.gpus):
        if memory.available_mib >= floors.ram_to_load_mib:
            return Check(id="memory", status="ok", detail=detail, command=_COMMAND)
        hint = _("Weights pass through this memory when they are loaded: close other programs first.")
        if memory.total_mib < floors.ram_to_load_mib:
            hint = _(
                "Weights pass through this memory when they are loaded, and the machine has no more: if a "
                "load is killed, add swap or memory, or take a smaller model."
            )
        if subject.machine.wsl:
            hint = _(
                "Windows gives WSL half of its memory: allow more with memory= in %UserProfile%\\.wslconfig, "
                "then run: wsl --shutdown"
            )
        return Check(id="memory", status="warn", detail=detail, hint=hint, command=_COMMAND)
    if cache_mib < floors.cache_worth_dropping_mib:
        return Check(id="memory", status="ok", detail=detail, command=_COMMAND)
    return Check(
        id="memory",
        status="warn",
        detail=detail
        + " "
        + _("The page cache holds {gib} GiB, which CUDA counts as taken.").format(gib=gib(cache_mib)),
        hint=_("Just before the launch: sync; echo 3 | sudo tee /proc/sys/vm/drop_caches"),
        command=_COMMAND,
    )


def swap(subject: Subject) -> Check | None:
    """Much swap, where GPU and system share the memory."""
    if not any(gpu.unified for gpu in subject.machine.gpus):
        return None
    memory = subject.machine.memory
    detail = _("{total} GiB of swap, {used} in use.").format(
        total=gib(memory.swap_total_mib), used=gib(memory.swap_used_mib)
    )
    command = "swapon --show"
    if memory.swap_total_mib <= host_facts().memory.swap_mib:
        return Check(id="swap", status="ok", detail=detail, command=command)
    hint = _(
        "GPU and system share the memory: with much swap an overcommit slows everything to a standstill. "
        "Try: sudo swapoff -a"
    )
    return Check(id="swap", status="warn", detail=detail, hint=hint, command=command)


def shm(subject: Subject) -> Check:
    """Shared memory, through which the processes of several GPUs talk."""
    machine, command = subject.machine, "df -h /dev/shm"
    if machine.shm is None:
        return Check(id="shm", status="skip", detail=_("This system has no /dev/shm."), command=command)
    size = _("{total} GiB of shared memory.").format(total=f"{machine.shm.total_gib:.1f}")
    if len(machine.gpus) < 2 or machine.shm.total_gib >= host_facts().memory.shm_gib:
        return Check(id="shm", status="ok", detail=size, command=command)
    hint = _("Several GPUs talk through it: start the container with --ipc=host or --shm-size=16g.")
    return Check(id="shm", status="warn", detail=size, hint=hint, command=command)
