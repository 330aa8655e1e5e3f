"""Whether GPUs reach each other's memory, and what stands between them where no NVLink does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from wizard.catalog import host_facts
from wizard.i18n import N_, _
from wizard.machine.checks.subject import Subject, unread
from wizard.machine.types import LINKS, Check, CheckStatus, Gpu, Machine

_REASONS = {
    "chipset-not-supported": N_("the chipset does not do it"),
    "gpu-not-supported": N_("these GPUs do not do it"),
    "topology-not-supported": N_("they hang at different processors"),
    "disabled-by-regkey": N_("it was switched off in the driver's settings"),
    "not-supported": N_("the driver does not do it for them"),
}
_COMMAND = "nvidia-smi topo -m; nvidia-smi topo -p2p r"
_BAR1_COMMAND = "nvidia-smi -q -d MEMORY"


def peer_to_peer(subject: Subject) -> Check | None:
    """For two GPUs or more. Everything works without it, slower; only a half-working path hangs an engine."""
    machine = subject.machine
    usable = [gpu for gpu in machine.gpus if gpu.usable]
    if len(usable) < 2:
        return None
    if any(LINKS in gpu.unread for gpu in usable):
        return _unknown()
    joined = _("NVLink joins: {groups}.").format(groups=_groups(machine)) if machine.nvlink_groups else ""
    apart = [pair for pair in combinations(usable, 2) if not _linked(machine, pair)]
    if not apart:
        return Check(id="p2p", status="ok", detail=joined, command=_COMMAND)
    blocked = [(a, b) for a, b in apart if str(b.index) in a.state.blocked_peers]
    details = [joined] if joined else [_("No NVLink joins the GPUs: they talk over PCIe.")]
    if blocked:
        details.append(_blocked(blocked))
    elif machine.system.iommu == "translating":
        details.append(
            _("An IOMMU translates their traffic, which can make it slow, wrong, or stop it altogether.")
        )
        hint = _(
            "If an engine on several GPUs hangs at its start: NCCL_P2P_DISABLE=1 gets round it. The cure is "
            "the kernel option iommu=pt, and ACS switched off in the firmware."
        )
        return Check(id="p2p", status="warn", detail=" ".join(details), hint=hint, command=_COMMAND)
    else:
        return Check(id="p2p", status="ok", detail=" ".join(details), command=_COMMAND)
    hint = _(
        "Prefer one GPU, or GPUs that NVLink joins; across the others traffic goes through the host's memory."
    )
    return Check(id="p2p", status="warn", detail=" ".join(details), hint=hint, command=_COMMAND)


def _unknown() -> Check:
    detail = _("Whether NVLink joins the GPUs could not be read.")
    hint = _("See for yourself: NV and a number between two GPUs is NVLink.")
    return Check(id="p2p", status="skip", detail=detail, hint=hint, command=_COMMAND)


def bar1(subject: Subject) -> Check | None:
    """The windows to each other's memory, for GPUs that reach it over PCIe. Over NVLink none is needed."""
    machine, facts = subject.machine, host_facts().bar1
    usable = [gpu for gpu in machine.gpus if gpu.usable]
    pairs = [pair for pair in combinations(usable, 2) if not _linked(machine, pair)]
    over_pcie = [pair for pair in pairs if str(pair[1].index) not in pair[0].state.blocked_peers]
    gpus = {gpu.index: gpu for pair in over_pcie for gpu in pair}.values()
    known = [(gpu, gpu.state.bar1_mib) for gpu in gpus if gpu.state.bar1_mib]
    if not over_pcie:
        return None
    if not known or any(LINKS in gpu.unread for gpu in usable):
        return unread("bar1", _BAR1_COMMAND)
    small = [(gpu.index, mib) for gpu, mib in known if mib <= facts.small_mib < gpu.memory_mib]
    full = [
        gpu.index for gpu, mib in known if 100 * (gpu.state.bar1_used_mib or 0) >= facts.full_percent * mib
    ]
    if full:
        text = _("The window (BAR1) to the memory of GPU {indices} is full: no other GPU can be let in.")
        hint = _("Stop the programs that share memory between GPUs, then look again: nvidia-smi")
        return _window("warn", text.format(indices=", ".join(map(str, full))), hint)
    if small:
        text = _("Other GPUs reach the memory of GPU {indices} through a window (BAR1) of {mib} MiB only.")
        hint = _(
            "Switch Above 4G Decoding and Resizable BAR on in the firmware (BIOS). Not every card can; "
            "without it several GPUs work, more slowly."
        )
        indices = ", ".join(str(index) for index, _mib in small)
        return _window("warn", text.format(indices=indices, mib=max(mib for _index, mib in small)), hint)
    sizes = sorted({mib for _gpu, mib in known})
    text = _("The windows to each other's memory (BAR1) are wide enough: {sizes} MiB.")
    return _window("ok", text.format(sizes=", ".join(map(str, sizes))))


def _window(status: CheckStatus, detail: str, hint: str = "") -> Check:
    return Check(id="bar1", status=status, detail=detail, hint=hint, command=_BAR1_COMMAND)


def _linked(machine: Machine, pair: tuple[Gpu, Gpu]) -> bool:
    return any({gpu.index for gpu in pair} <= set(group) for group in machine.nvlink_groups)


def _groups(machine: Machine) -> str:
    return "; ".join(", ".join(map(str, group)) for group in machine.nvlink_groups)


def _blocked(pairs: Sequence[tuple[Gpu, Gpu]]) -> str:
    """The pairs that cannot reach each other, counted where they are many, with the first one's reason."""
    first, second = pairs[0]
    code = first.state.blocked_peers[str(second.index)]
    reason = _(_REASONS[code]) if code in _REASONS else code
    text = _("{count} pairs of GPUs, such as {a} and {b}, cannot reach each other's memory: {reason}.")
    if len(pairs) == 1:
        text = _("GPUs {a} and {b} cannot reach each other's memory: {reason}.")
    return text.format(count=len(pairs), a=first.index, b=second.index, reason=reason)
