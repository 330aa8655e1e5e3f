"""What a journey looks like in words: the sentences and figures both front ends show.

Everything here is pure and returns plain text. Figures carry the letter of their origin.
"""

from __future__ import annotations

from collections import Counter

from screens.figures import count, gib, letter
from wizard.compat import badges
from wizard.flow import REHEARSAL_MACHINE, TITLES, ChosenEvent, Journey
from wizard.i18n import N_, _
from wizard.machine import Gpu, Machine
from wizard.plan import LaunchPlan
from wizard.runtime import Runtime
from wizard.text import one_line

LINE_WIDTH = 70
"""Columns of one line of a window at 80 columns."""
NAME_WIDTH = 12
"""Columns for the name of a recorded machine."""
MACHINE_WIDTH = 56
"""Columns for what it is: one line of a window at 80 columns."""

FEW_GPUS = 3
"""Up to this number each GPU has two lines of its own."""
BAR_WIDTH = 24
_TAKEN_BELOW = 0.9
"""Share of a GPU's memory; vLLM asks for about as much and does not start with less free."""

_STATUS = {"ok": N_("OK"), "warn": N_("WARN"), "fail": N_("FAIL"), "skip": N_("SKIP"), "no": N_("NO")}


def status_word(status: str) -> str:
    """The word that carries a status or a verdict."""
    return _(_STATUS[status])


def rehearsal(journey: Journey) -> str:
    """The label of a rehearsal, with the machine it plays on."""
    machine = journey.machine.simulated if journey.machine else None
    name = machine or journey.answers.machine.simulate or REHEARSAL_MACHINE
    return _("REHEARSAL on {machine} — nothing real is touched").format(machine=name)


def recorded_in(path: str) -> str:
    """Where this machine was written down."""
    return _("Saved in {path}. Read it before you send it.").format(path=one_line(path))


def machine_head(machine: Machine) -> str:
    """Product, system and driver on one line."""
    parts = [machine.arch, machine.os]
    if machine.driver:
        parts.append(_("driver {version}").format(version=machine.driver))
    if machine.cuda:
        parts.append(f"CUDA {machine.cuda}")
    return f"{machine.product or machine.hostname or _('this machine')}   {' · '.join(parts)}"


def recorded_line(name: str, machine: Machine) -> str:
    """A recorded machine to choose: its name, then what it is."""
    kinds = Counter((gpu.name, gpu.memory_mib) for gpu in machine.gpus)
    parts = []
    for (gpu, size_mib), number in kinds.items():
        many = f"{number} x " if number > 1 else ""
        parts.append(f"{many}{gpu} {gib(size_mib / 1024)} GiB")
    if not kinds:
        parts.append(_("no GPU"))
    if machine.product:
        parts.append(machine.product)
    return f"{name:<{NAME_WIDTH}} {one_line(' · '.join(parts), MACHINE_WIDTH)}"


def gpu_lines(machine: Machine, planned: tuple[int, ...] = ()) -> list[str]:
    """The GPUs: a few with their memory as a bar each, many by NVLink group, equal ones on one line."""
    if len(machine.gpus) <= FEW_GPUS:
        pairs = ((_gpu_line((gpu,), machine, planned), _memory_line(gpu)) for gpu in machine.gpus)
        return [line for pair in pairs for line in pair]
    groups: dict[tuple[object, ...], tuple[Gpu, ...]] = {}
    for gpu in machine.gpus:
        # A GPU that somebody uses stands on a line of its own, with what it has left.
        left = gpu.memory_free_mib if _taken(gpu) else None
        alike = (gpu.name, gpu.memory_mib, gpu.usable, _island(gpu, machine), gpu.index in planned, left)
        groups[alike] = (*groups.get(alike, ()), gpu)
    return [_gpu_line(gpus, machine, planned) for gpus in groups.values()]


def _gpu_line(gpus: tuple[Gpu, ...], machine: Machine, planned: tuple[int, ...]) -> str:
    """Equal GPUs: numbers, name, capability, memory of each, formats, NVLink group, whether planned."""
    gpu, many = gpus[0], len(machine.gpus) > FEW_GPUS
    size = f"{gib(gpu.memory_mib / 1024)} GiB{letter(gpu.memory_origin)}"
    if not gpu.memory_mib:
        size = _("memory unknown")
    elif gpu.unified:
        size = _("shared {size}").format(size=size)
    elif many and _taken(gpu):
        size = _("{size}, {free} free").format(size=size, free=gib(gpu.memory_free_mib / 1024))
    words = [f"GPU {numbers(tuple(each.index for each in gpus))}  {gpu.name}"]
    words += [f"cc {gpu.compute_capability or '?'}", size]
    if gpu.bandwidth_gbs is not None and len(gpus) == 1 and not (many and _taken(gpu)):
        words.append(f"{gpu.bandwidth_gbs:.0f} GB/s{letter('table')}")
    if many and not _taken(gpu):
        words.append(" ".join(badges(gpu.capability)))
    island = _island(gpu, machine)
    if island is not None:
        words.append(_("NVLink {name}").format(name=chr(ord("A") + island)))
    if gpu.index in planned:
        words.append(_("in the plan"))
    return "  ".join(words)


def _taken(gpu: Gpu) -> bool:
    """Whether a GPU has less free than vLLM takes of it when nobody says how much."""
    return gpu.memory_free_mib < _TAKEN_BELOW * gpu.memory_mib


def numbers(indices: tuple[int, ...]) -> str:
    """Ascending numbers in short: three and more in a row as a range."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    told = (f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
    return ",".join(told)


def _memory_line(gpu: Gpu) -> str:
    """The memory of a GPU as a bar of what is used, and the formats it computes in."""
    if not gpu.memory_mib:
        return ""
    used = max(0, gpu.memory_mib - gpu.memory_free_mib)
    filled = round(BAR_WIDTH * used / gpu.memory_mib)
    told = _("{used} used, {free} free").format(used=gib(used / 1024), free=gib(gpu.memory_free_mib / 1024))
    return f"       [{'#' * filled:.<{BAR_WIDTH}}] {told}   {' '.join(badges(gpu.capability))}"


def _island(gpu: Gpu, machine: Machine) -> int | None:
    """The number of the NVLink group a GPU belongs to."""
    return next((number for number, group in enumerate(machine.nvlink_groups) if gpu.index in group), None)


def runtime_line(runtime: Runtime, simulated: bool) -> str:
    """One vLLM on one line."""
    if simulated:
        return _("a stand-in that behaves like vLLM {version}").format(version=runtime.version)
    if runtime.kind == "assumed":
        return _("none installed: the plan is made for vLLM {version}").format(version=runtime.version)
    versions = [f"vLLM {runtime.version or '?'}"]
    if runtime.torch:
        versions.append(f"torch {runtime.torch}")
    if runtime.cuda:
        versions.append(f"CUDA {runtime.cuda}")
    if runtime.problem:
        versions = [runtime.problem]
    return f"{runtime.kind:<8} {runtime.path}  {' · '.join(versions)}"


def runtime_details(runtime: Runtime, simulated: bool) -> tuple[str, ...]:
    """What the highlighted vLLM said about itself, or what to do when there is none."""
    if simulated:
        return (_("A rehearsal starts it instead of a real vLLM. It needs no GPU and no model."),)
    if runtime.kind == "assumed":
        return (
            _("No installed vLLM was found here. Models and plans are shown for the version above."),
            _("A start needs one: the wizard shows how it is installed on this machine, and does it."),
        )
    if runtime.problem:
        return (runtime.problem,)
    parsers = _("{tools} tool-call parsers, {reasoning} reasoning parsers, {flags} options").format(
        tools=len(runtime.tool_parsers), reasoning=len(runtime.reasoning_parsers), flags=len(runtime.flags)
    )
    build = (_("CPU build: needs no GPU and is slow"),) if runtime.cpu_build else ()
    return (_("Called as: {command}").format(command=" ".join(runtime.command)), parsers, *build)


def install_hint() -> str:
    """What to do in the wizard where no vLLM is installed to be started."""
    return _("Go back to step Runtime: it installs one for this machine, or takes one that you name.")


def road_line(journey: Journey) -> str:
    """Every step of the road with its number and name, the current one in brackets."""
    named = [f"{number} {_(TITLES[step])}" for number, step in enumerate(journey.road, 1)]
    here = journey.road.index(journey.step)
    named[here] = f"[{named[here]}]"
    return _("Steps: {names}").format(names=" · ".join(named))


def chosen_lines(chosen: ChosenEvent) -> tuple[str, ...]:
    """What will be done, time and disk first."""
    lines = []
    time, disk = chosen.start_minutes, chosen.free_disk_gib
    lines.append(_("Download  {size}").format(size=_download(chosen.download_gib)))
    if time is not None:
        lines.append(
            _("Time      about {minutes:.0f} min to start{a}").format(
                minutes=max(1, time), a=letter("assumed")
            )
        )
    if disk is not None:
        text = _("Disk      {weights} GiB of weights; {free} GiB are free")
        lines.append(text.format(weights=gib(chosen.weights_gib), free=gib(disk, digits=0)))
    lines.append(
        _("Model     {checkpoint}, served as {name}").format(
            checkpoint=chosen.checkpoint, name=chosen.served_model_name
        )
    )
    lines.append(
        _("Tools     tool-call parser {parser}, reasoning parser {reasoning}").format(
            parser=chosen.parser or "-", reasoning=chosen.reasoning_parser or "-"
        )
    )
    limits = chosen.limits
    lines.append(
        _("Window    {window} tokens; opencode: {input} in, {output} out").format(
            window=_("vLLM decides") if chosen.max_model_len is None else count(chosen.max_model_len),
            input=count(limits["input"]),
            output=count(limits["output"]),
        )
    )
    return tuple(lines)


def _download(size_gib: float | None) -> str:
    if size_gib is None:
        return _("unknown")
    return _("{gib} GiB before the first start").format(gib=gib(size_gib)) if size_gib else _("none")


def command_lines(plan: LaunchPlan) -> tuple[str, ...]:
    """The command with its environment, an option a line."""
    lines = [f"{name}={value}" for name, value in sorted(plan.env.items())]
    lines.append(" ".join(plan.command))
    lines += [
        f"  {option.flag}{'' if option.value is None else ' ' + option.value}" for option in plan.options
    ]
    return tuple(lines)


def sourced(text: str, source: str) -> str:
    """A statement with where it was read."""
    return _("{text}\n  source: {source}").format(text=text, source=source)


def plan_reasons(plan: LaunchPlan) -> tuple[str, ...]:
    """Why each option and variable is there."""
    return tuple(sourced(f"{reason.subject}: {reason.why}", reason.source) for reason in plan.reasons)


def plan_verdict(plan: LaunchPlan, simulated: bool) -> tuple[str, ...]:
    """Why a plan must not be started, what to know about it, or that all is well."""
    lines = [f"{status_word('no')}  {reason.text}" for reason in plan.refused]
    if plan.runtime_kind == "assumed" and not simulated:
        missing = _("No vLLM is installed here: this plan can be read, and started once there is one.")
        lines.append(f"{status_word('warn')}  {missing}")
    lines += [f"{status_word('warn')}  {reason.text}" for reason in plan.warnings]
    return tuple(lines) or (f"{status_word('ok')}  {_('This plan can be started.')}",)
