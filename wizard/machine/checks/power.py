"""GPUs that can be stuck at low power: seen only while something keeps them busy."""

from __future__ import annotations

from wizard.catalog import LowPower, gpu_by_name, host_facts
from wizard.i18n import _
from wizard.machine.checks.subject import Subject
from wizard.machine.types import Check, CheckStatus, Gpu

ID = "low-power"
COMMAND = "nvidia-smi --query-gpu=utilization.gpu,power.draw,clocks.sm --format=csv"
_WORST_FIRST = ("warn", "skip", "ok")
_NAMED_REASONS = {"thermal", "power-brake", "hardware"}
"""Slowdowns that the driver owns up to, and the check of the GPU's state tells."""


def low_power(subject: Subject) -> Check | None:
    """Judged from the last reading, and only if the GPU was busy then; for kinds of GPU that get stuck."""
    traps = ((gpu, _trap(gpu)) for gpu in subject.machine.gpus if gpu.usable)
    found = [_judge(gpu, trap) for gpu, trap in traps if trap is not None]
    return min(found, key=lambda check: _WORST_FIRST.index(check.status), default=None)


def _trap(gpu: Gpu) -> LowPower | None:
    model = gpu_by_name(gpu.name, gpu.memory_mib)
    return next((trap for trap in host_facts().low_power if model and trap.gpu == model.id), None)


def _judge(gpu: Gpu, trap: LowPower) -> Check:
    state = gpu.state
    busy, watts, mhz = state.busy_percent, state.power_w, state.sm_clock_mhz
    under_load = _("Whether it is stuck at low power can be judged under load only.")
    if busy is None or watts is None or mhz is None:
        unknown = _("GPU {index}: how busy it is, its power or its clock could not be read.")
        return _found("skip", unknown.format(index=gpu.index), under_load)
    figures = _("GPU {index}: {busy} % busy, {watts:.0f} W, {mhz} MHz.").format(
        index=gpu.index, busy=busy, watts=watts, mhz=mhz
    )
    if busy < trap.busy_percent:
        return _found("skip", figures, under_load, _("Look again while vLLM writes a long answer."))
    if watts >= trap.below_w or mhz >= trap.below_mhz:
        return _found("ok", figures, _("It is not stuck at low power."))
    if _NAMED_REASONS & set(state.slowdowns):
        text = _("It is slow for a reason that the driver names, so that it cannot be judged.")
        return _found("skip", figures, text, _("Cure that first: see the GPU's state."))
    text = _("Under load it should reach {usual} MHz: it seems stuck at low power.")
    hint = _(
        "Look again in a moment: just after a load it looks the same. If it stays so, take machine and power "
        "brick off the mains for {seconds} seconds (a restart does not help), and use the brick it came with."
    )
    return _found("warn", figures, text.format(usual=trap.usual_mhz), hint.format(seconds=trap.off_mains_s))


def _found(status: CheckStatus, figures: str, text: str, hint: str = "") -> Check:
    return Check(id=ID, status=status, detail=f"{figures} {text}", hint=hint, command=COMMAND)
