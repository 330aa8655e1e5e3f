"""Host checks: what would stand in the way of an installation on this machine, each with what to do."""

from __future__ import annotations

import socket
import sys
from collections import Counter

from wizard.i18n import _
from wizard.machine.problems import explain_problem
from wizard.machine.types import Check, CheckStatus, Gpu, Machine
from wizard.text import one_line

_LOOPBACK = ("127.0.0.1", "localhost")
_CACHE_WORTH_DROPPING_MIB = 8 * 1024
"""Page cache on unified memory below this is lost in the noise of a start."""
_RAM_TO_LOAD_MIB = 16 * 1024
"""A weights file of up to 8 GiB passes through the host's memory, beside what the engine needs itself."""
_SOFTWARE_GIB = 15
"""vLLM's environment with torch and CUDA libraries, and its download."""
_MODELS_GIB = 100
"""Room for one of the larger coding models."""
_SHM_GIB = 1.0
"""Docker's own default, 64 MiB, breaks NCCL; its documentation asks for 1 GiB."""
_SWAP_MIB = 4 * 1024
"""More swap than this lets unified memory be overcommitted until the machine stands still."""


def checks(machine: Machine, port: int = 8000, live: bool = True) -> tuple[Check, ...]:
    """All checks, in the order in which one would look.

    The ``live`` ones (port, proxy) look at this very host: for a simulated machine they are skipped.
    """
    found = [_gpus(machine), _driver(machine)]
    if machine.gpus:
        found.append(_busy(machine))
    found += [_memory(machine), _disk(machine), _shm(machine)]
    if any(gpu.unified for gpu in machine.gpus):
        found.append(_swap(machine))
    if live and machine.simulated is None:
        return (*found, _port(port), _proxy())
    skipped = _("Not looked at: this is not the machine it runs on.")
    return (*found, *(Check(id=id, status="skip", detail=skipped) for id in ("port", "proxy")))


def _gpus(machine: Machine) -> Check:
    """GPUs that can be used, and what is the matter with the driver as a whole and with single GPUs."""
    details, hints = [], []
    usable = [gpu for gpu in machine.gpus if gpu.usable]
    if usable:
        details.append(_summary(usable))
    for code in machine.problems:
        explained = explain_problem(code, machine)
        details.append(explained.meaning)
        hints.append(explained.hint)
    for gpu in machine.gpus:
        for code in gpu.problems:
            explained = explain_problem(code, machine)
            text = _("GPU {index} ({name}): {problem}.")
            details.append(text.format(index=gpu.index, name=gpu.name or "?", problem=explained.meaning))
            hints.append(explained.hint)
    status: CheckStatus = "warn" if hints else "ok"
    return Check(
        id="gpu",
        status=status if usable else "fail",
        detail=" ".join(details) or _("No NVIDIA GPU was found."),
        hint=" ".join(dict.fromkeys(hint for hint in hints if hint)),
    )


def _summary(gpus: list[Gpu]) -> str:
    """Equal GPUs counted: ``2 x NVIDIA H200, 140.4 GiB.``"""
    kinds = Counter((gpu.name, gpu.memory_mib, gpu.unified) for gpu in gpus)
    own, shared = _("{count} x {name}, {gib} GiB."), _("{count} x {name}, {gib} GiB shared with the system.")
    return " ".join(
        (shared if unified else own).format(count=count, name=name, gib=_gib(memory_mib))
        for (name, memory_mib, unified), count in kinds.items()
    )


def _busy(machine: Machine) -> Check:
    """Programs that hold memory of a GPU; in containers and under WSL the driver hides them."""
    users = [
        _("GPU {index}: {program} ({pid})").format(
            index=gpu.index, program=process.name or "?", pid=process.pid
        )
        for gpu in machine.gpus
        for process in gpu.processes
    ]
    if not users:
        return Check(id="busy", status="ok", detail=_("No other program is seen on the GPUs."))
    hint = _("Stop these programs, or give vLLM other GPUs: what they hold is missing for the model.")
    return Check(id="busy", status="warn", detail=", ".join(users), hint=hint)


def _driver(machine: Machine) -> Check:
    if machine.driver is None:
        if not machine.gpus:
            return Check(id="driver", status="skip", detail=_("No driver answered."))
        detail = _("The driver does not tell its version.")
        return Check(id="driver", status="warn", detail=detail, hint=_("Try nvidia-smi."))
    if machine.cuda is None:
        return Check(id="driver", status="ok", detail=_("Driver {driver}.").format(driver=machine.driver))
    text = _("Driver {driver}, for CUDA up to {cuda}.").format(driver=machine.driver, cuda=machine.cuda)
    return Check(id="driver", status="ok", detail=text)


def _memory(machine: Machine) -> Check:
    memory = machine.memory
    detail = _("{available} of {total} GiB available.").format(
        available=_gib(memory.available_mib), total=_gib(memory.total_mib)
    )
    cache_mib = 0 if memory.free_mib is None else memory.available_mib - memory.free_mib
    if not any(gpu.unified for gpu in machine.gpus):
        if memory.available_mib >= _RAM_TO_LOAD_MIB:
            return Check(id="memory", status="ok", detail=detail)
        hint = _("Weights pass through this memory when they are loaded: close other programs first.")
        return Check(id="memory", status="warn", detail=detail, hint=hint)
    if cache_mib < _CACHE_WORTH_DROPPING_MIB:
        return Check(id="memory", status="ok", detail=detail)
    return Check(
        id="memory",
        status="warn",
        detail=detail
        + " "
        + _("The page cache holds {gib} GiB, which CUDA counts as taken.").format(gib=_gib(cache_mib)),
        hint=_("Just before the launch: sync; echo 3 | sudo tee /proc/sys/vm/drop_caches"),
    )


def _disk(machine: Machine) -> Check:
    disk = next((disk for disk in machine.disks if disk.purpose == "models"), None)
    if disk is None:
        return Check(id="disk", status="skip", detail=_("The room for models is not known."))
    detail = _("{free} GiB free where models go ({path}).").format(
        free=f"{disk.free_gib:.0f}", path=disk.path
    )
    if disk.free_gib >= _MODELS_GIB:
        return Check(id="disk", status="ok", detail=detail)
    hint = _("Set HF_HOME to a folder on a larger disk, or remove models you no longer need (hf cache).")
    status: CheckStatus = "fail" if disk.free_gib < _SOFTWARE_GIB else "warn"
    return Check(id="disk", status=status, detail=detail, hint=hint)


def _shm(machine: Machine) -> Check:
    if machine.shm is None:
        return Check(id="shm", status="skip", detail=_("This system has no /dev/shm."))
    size = _("{total} GiB of shared memory.").format(total=f"{machine.shm.total_gib:.1f}")
    if len(machine.gpus) < 2 or machine.shm.total_gib >= _SHM_GIB:
        return Check(id="shm", status="ok", detail=size)
    hint = _("Several GPUs talk through it: start the container with --ipc=host or --shm-size=16g.")
    return Check(id="shm", status="warn", detail=size, hint=hint)


def _swap(machine: Machine) -> Check:
    total_mib = machine.memory.swap_total_mib
    detail = _("{total} GiB of swap, {used} in use.").format(
        total=_gib(total_mib), used=_gib(machine.memory.swap_used_mib)
    )
    if total_mib <= _SWAP_MIB:
        return Check(id="swap", status="ok", detail=detail)
    hint = _(
        "GPU and system share the memory: with much swap an overcommit slows everything to a standstill. "
        "Try: sudo swapoff -a"
    )
    return Check(id="swap", status="warn", detail=detail, hint=hint)


def _port(port: int) -> Check:
    """Whether a server could listen there, found by doing so for a moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        if sys.platform != "win32":
            # As servers do: connections that are closing must not count. On Windows it would steal the port.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_LOOPBACK[0], port))
        except PermissionError:
            detail = _("This user may not listen on port {port}.").format(port=port)
            return Check(id="port", status="fail", detail=detail, hint=_("Choose a port above 1023."))
        except OSError:
            owner = _port_owner(port) or _("a program this user cannot see")
        else:
            return Check(id="port", status="ok", detail=_("Port {port} is free.").format(port=port))
    detail = _("Port {port} is taken by {owner}.").format(port=port, owner=owner)
    hint = _("Choose another port, or connect to what runs there if it is vLLM.")
    return Check(id="port", status="warn", detail=detail, hint=hint)


def _port_owner(port: int) -> str | None:
    """Name and process id of who listens on the port; None when the system does not tell this user."""
    import psutil

    try:
        for connection in psutil.net_connections(kind="tcp"):
            address = connection.laddr
            if (
                connection.status == psutil.CONN_LISTEN
                and address
                and address.port == port
                and connection.pid
            ):
                return one_line(f"{psutil.Process(connection.pid).name()} ({connection.pid})")
    except (psutil.Error, OSError):
        return None
    return None


def _proxy() -> Check:
    """Whether programs that obey the proxy variables would send calls to this very machine to a proxy."""
    from urllib.request import getproxies_environment

    proxies = getproxies_environment()
    if not ({"http", "all"} & set(proxies)):
        return Check(id="proxy", status="ok", detail=_("No proxy is set."))
    exempt = {entry.strip().lower() for entry in proxies.get("no", "").split(",")}
    if "*" in exempt or exempt.issuperset(_LOOPBACK):
        return Check(id="proxy", status="ok", detail=_("A proxy is set, and this machine is exempt from it."))
    return Check(
        id="proxy",
        status="warn",
        detail=_("The proxy variables also catch calls to this very machine, such as opencode's to vLLM."),
        hint=_("Set NO_PROXY=localhost,127.0.0.1,::1 (and no_proxy likewise) where opencode is started."),
    )


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f}"
