"""GPUs: which can be used, what holds them down, who is on them already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from wizard.catalog import host_facts
from wizard.i18n import N_, _
from wizard.machine.checks.subject import Subject, newest_for
from wizard.machine.problems import explain_problem
from wizard.machine.types import PROCESSES, Check, CheckStatus, Gpu, GpuProcess, GpuState, Machine, PciCard
from wizard.text import one_line

_SLOWDOWNS = {
    "thermal": N_("it is too hot"),
    "power-brake": N_("its power supply holds it back"),
    "hardware": N_("the hardware slows it down"),
}
"""A power cap is left out: every busy GPU reaches it."""
_BUSY_COMMAND = "nvidia-smi"
_SHOWN = 40
"""Characters shown of a variable, which can have thousands."""
_POWER_TOLERANCE_W = 1.0


def gpu(subject: Subject) -> Check:
    """GPUs that can be used, and what is the matter with the driver as a whole and with single GPUs."""
    machine = subject.machine
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
        if gpu.state.instances:
            parts = ", ".join(f"{part.name} ({part.uuid})" for part in gpu.state.instances)
            details.append(_("Its parts: {parts}.").format(parts=parts))
    for card in _uncounted(machine):
        text = _("An NVIDIA card at {bus_id} is not counted (kernel driver: {driver}).")
        details.append(text.format(bus_id=card.bus_id, driver=card.driver or _("none")))
        hints.append(_("See why: lspci -k -d 10de:; sudo dmesg | grep NVRM"))
    if machine.gpus and not usable and not hints:
        details.append(_("Every GPU is hidden by CUDA_VISIBLE_DEVICES."))
        hints.append(_("Start the wizard without it: env -u CUDA_VISIBLE_DEVICES vllm-opencode"))
    status: CheckStatus = "warn" if hints else "ok"
    return Check(
        id="gpu",
        status=status if usable else "fail",
        detail=" ".join(details) or _("No NVIDIA GPU was found."),
        hint="\n".join(dict.fromkeys(hint for hint in hints if hint)),
        command="nvidia-smi -L" if machine.gpus else "lspci -k -d 10de:",
    )


def _summary(gpus: Sequence[Gpu]) -> str:
    """Equal GPUs counted: ``2 x NVIDIA H200, 140.4 GiB.``"""
    kinds = Counter((gpu.name, gpu.memory_mib, gpu.unified) for gpu in gpus)
    own, shared = _("{count} x {name}, {gib} GiB."), _("{count} x {name}, {gib} GiB shared with the system.")
    return " ".join(
        (shared if unified else own).format(count=count, name=name, gib=f"{memory_mib / 1024:.1f}")
        for (name, memory_mib, unified), count in kinds.items()
    )


def _uncounted(machine: Machine) -> Iterator[PciCard]:
    """Cards on the bus that NVML does not list. A container sees cards there that are not handed to it."""
    if not machine.gpus or machine.container:
        return
    counted = {_slot(gpu.bus_id) for gpu in machine.gpus}
    if "" not in counted:
        yield from (card for card in machine.cards or () if _slot(card.bus_id) not in counted)


def _slot(bus_id: str) -> str:
    """A bus id without the leading zeros of its domain: NVML writes eight digits, sysfs four."""
    return bus_id.lower().lstrip("0")


def driver(subject: Subject) -> Check:
    """The driver's version, and whether ready-made builds of the newest vLLM run on it."""
    machine = subject.machine
    command = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"
    if machine.driver is None:
        if not machine.gpus:
            return Check(id="driver", status="skip", detail=_("No driver answered."), command=command)
        detail = _("The driver does not tell its version.")
        return Check(id="driver", status="warn", detail=detail, hint=_("Try nvidia-smi."), command=command)
    detail = _("Driver {driver}.").format(driver=machine.driver)
    if machine.cuda is not None:
        detail = _("Driver {driver}, for CUDA up to {cuda}.").format(driver=machine.driver, cuda=machine.cuda)
    floor = newest_for(host_facts().driver, machine)
    branch = machine.driver.partition(".")[0]
    if not branch.isdecimal() or int(branch) >= floor.floor:
        return Check(id="driver", status="ok", detail=detail, command=command)
    older = _("Ready-made vLLM from {version} on brings CUDA {cuda} and needs driver {floor} or newer.")
    hint = _("Update the driver, or take an older vLLM or one of its builds for the older CUDA.")
    if machine.wsl:
        hint = _("Update the NVIDIA driver on Windows.")
    return Check(
        id="driver",
        status="warn",
        detail=f"{detail} {older.format(version=floor.since, cuda=floor.cuda, floor=floor.floor)}",
        hint=hint,
        command=command,
    )


def busy(subject: Subject) -> Check | None:
    """What holds memory of a GPU: programs the driver names, and those it hides, told by their memory."""
    machine = subject.machine
    if not machine.gpus:
        return None
    shown = [gpu.index for gpu in machine.gpus if gpu.display_active]
    screen = _("GPU {index} drives a screen.").format(index=", ".join(map(str, shown))) if shown else ""
    users = ", ".join(_user(gpu, process) for gpu in machine.gpus for process in gpu.processes)
    out_of_sight = [_out_of_sight(gpu, mib) for gpu in machine.gpus if (mib := _unexplained_mib(gpu))]
    if not users and not out_of_sight:
        return _nobody(machine, screen)
    hints = []
    if users:
        hints.append(
            _("Stop these programs, or give vLLM other GPUs: what they hold is missing for the model.")
        )
    if out_of_sight:
        hints.append(
            _(
                "They belong to another user, container or system: ask there (on the host: "
                "sudo nvidia-smi) before you load a model."
            )
        )
    details = (f"{users}." if users and (screen or out_of_sight) else users, *out_of_sight, screen)
    return Check(
        id="busy",
        status="warn",
        detail=" ".join(filter(None, details)),
        hint=" ".join(hints),
        command=_BUSY_COMMAND,
    )


def _nobody(machine: Machine, screen: str) -> Check:
    status: CheckStatus = "ok"
    detail = _("No other program is seen on the GPUs.")
    if machine.container or machine.wsl:
        detail = _("No other program is seen on the GPUs; from in here, programs outside are hidden.")
    elif any(PROCESSES in gpu.unread for gpu in machine.gpus if gpu.usable):
        status, detail = "skip", _("Which programs use the GPUs could not be read; their memory is free.")
    return Check(id="busy", status=status, detail=f"{detail} {screen}".strip(), command=_BUSY_COMMAND)


def _unexplained_mib(gpu: Gpu) -> int:
    """MiB taken that no named program explains; 0 below what driver and screen take of every GPU.

    Nothing can be said of a GPU in the host's memory or split with MIG, nor where a program hides its share.
    """
    known = [process.used_mib for process in gpu.processes if process.used_mib is not None]
    if gpu.unified or gpu.mig or len(known) < len(gpu.processes):
        return 0
    taken = gpu.memory_mib - gpu.memory_free_mib - sum(known)
    return taken if taken >= host_facts().busy.unexplained_mib else 0


def _out_of_sight(gpu: Gpu, mib: int) -> str:
    text = _("GPU {index}: {gib:.1f} of {total:.1f} GiB are taken by programs out of sight.")
    return text.format(index=gpu.index, gib=mib / 1024, total=gpu.memory_mib / 1024)


def _user(gpu: Gpu, process: GpuProcess) -> str:
    words = {"index": gpu.index, "program": process.name or "?", "pid": process.pid}
    if process.used_mib is None:
        return _("GPU {index}: {program} ({pid})").format(**words)
    used = _("GPU {index}: {program} ({pid}), {gib:.1f} GiB")
    return used.format(gib=process.used_mib / 1024, **words)


def state(subject: Subject) -> Check | None:
    """What slows a GPU down or keeps a second engine off it. Nothing here stops a start."""
    machine = subject.machine
    if not machine.gpus:
        return None
    found = [remark for gpu in machine.gpus for remark in _remarks(gpu)]
    command = "nvidia-smi -q -d PERFORMANCE,POWER,COMPUTE,ECC"
    if not found:
        asked = any(gpu.state != GpuState() for gpu in machine.gpus)
        first = _("Nothing holds the GPUs down.") if asked else _("How the GPUs are set up is not known.")
        detail = " ".join((first, *_facts(machine)))
        return Check(id="gpu-state", status="ok" if asked else "skip", detail=detail, command=command)
    details, hints = zip(*found, strict=True)
    return Check(
        id="gpu-state",
        status="warn",
        detail=" ".join(details),
        hint=" ".join(dict.fromkeys(hints)),
        command=command,
    )


def _remarks(gpu: Gpu) -> Iterator[tuple[str, str]]:
    """What is the matter with the GPU's state, each with its remedy."""
    state = gpu.state
    for reason in state.slowdowns:
        if reason in _SLOWDOWNS:
            text = _("GPU {index} runs slowly now: {reason}.")
            yield (
                text.format(index=gpu.index, reason=_(_SLOWDOWNS[reason])),
                _("Check cooling, dust and the power cables."),
            )
    cap, default = gpu.power_limit_w, state.power_default_w
    if cap is not None and default is not None and cap < default - _POWER_TOLERANCE_W:
        text = _("GPU {index} is capped at {cap:.0f} W of {default:.0f} W.")
        yield (
            text.format(index=gpu.index, cap=cap, default=default),
            _("If the cap is not meant: sudo nvidia-smi -pl WATTS"),
        )
    if state.compute_mode == "exclusive-process":
        text = _("GPU {index} takes one program at a time.")
        yield (
            text.format(index=gpu.index),
            _("For a second engine beside the first: sudo nvidia-smi -c DEFAULT"),
        )


def _facts(machine: Machine) -> Iterator[str]:
    """What is good to know and nothing to act on."""
    modes = {gpu.state.ecc for gpu in machine.gpus}
    if modes == {True}:
        yield _("Memory errors are corrected (ECC).")
    if any(gpu.state.persistence is False for gpu in machine.gpus):
        yield _("Without persistence mode the first program after a pause starts slowly.")


def visible(subject: Subject) -> Check | None:
    """What CUDA_VISIBLE_DEVICES hides; it is respected, and a plan for some of the GPUs sets its own."""
    machine = subject.machine
    if machine.visible_devices is None or not machine.gpus:
        return None
    command = "echo $CUDA_VISIBLE_DEVICES"
    seen = [str(gpu.index) for gpu in machine.gpus if not gpu.hidden]
    detail = _("CUDA_VISIBLE_DEVICES={value} leaves GPUs {seen} of {count}.").format(
        value=one_line(machine.visible_devices, _SHOWN), seen=", ".join(seen) or "-", count=len(machine.gpus)
    )
    if "MIG-" in machine.visible_devices:
        detail += " " + _("It names a part of a split GPU: an engine sees that part only, as its one GPU.")
    if len({gpu.name for gpu in machine.gpus if gpu.name}) > 1:
        hint = _(
            "The GPUs differ, and CUDA numbers them by speed unless told otherwise: set "
            "CUDA_DEVICE_ORDER=PCI_BUS_ID too, or name them by UUID."
        )
        return Check(id="visible", status="warn", detail=detail, hint=hint, command=command)
    return Check(id="visible", status="ok", detail=detail, command=command)
