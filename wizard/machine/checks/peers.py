"""Whether GPUs reach each other's memory, and what stands between them where no NVLink does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from wizard.i18n import N_, _
from wizard.machine.checks.subject import Subject
from wizard.machine.types import Check, Gpu, Machine

_REASONS = {
    "chipset-not-supported": N_("the chipset does not do it"),
    "gpu-not-supported": N_("these GPUs do not do it"),
    "topology-not-supported": N_("they hang at different processors"),
    "disabled-by-regkey": N_("it was switched off in the driver's settings"),
    "not-supported": N_("the driver does not do it for them"),
}
_COMMAND = "nvidia-smi topo -m; nvidia-smi topo -p2p r"


def peer_to_peer(subject: Subject) -> Check | None:
    """For two GPUs or more. Everything works without it, slower; only a half-working path hangs an engine."""
    machine = subject.machine
    usable = [gpu for gpu in machine.gpus if gpu.usable]
    if len(usable) < 2:
        return None
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
