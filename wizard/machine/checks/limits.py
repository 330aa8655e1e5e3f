"""Limits and settings of the operating system on which engines were seen to fail."""

from __future__ import annotations

from packaging.version import Version

from wizard.catalog import host_facts
from wizard.i18n import _
from wizard.machine.checks.subject import Subject, newest_for, unread
from wizard.machine.types import Check


def limits(subject: Subject) -> Check:
    """Open files, locked memory, threads and stack of what is started from here."""
    system, floors = subject.machine.system, host_facts().limits
    command = "ulimit -n; ulimit -l; ulimit -u; ulimit -s; cat /sys/fs/cgroup/pids.max"
    if system.open_files is None and system.open_files_hard is None and system.locked_memory_kib is None:
        return unread("limits", command)
    low, hints = [], []
    if system.open_files is not None and system.open_files < floors.open_files:
        low.append(_("{count} open files").format(count=system.open_files))
        if system.open_files_hard is None or system.open_files_hard >= floors.open_files:
            hints.append(_("Before the launch: ulimit -n {count}").format(count=floors.open_files))
        else:
            hints.append(_("Raise nofile in /etc/security/limits.conf, or LimitNOFILE= in the service."))
    if system.tasks is not None and system.tasks < floors.tasks:
        low.append(_("{count} processes and threads").format(count=system.tasks))
        hints.append(_("Raise TasksMax= of the service, or --pids-limit of the container."))
    if system.processes is not None and system.processes < floors.tasks:
        low.append(_("{count} processes and threads of this user").format(count=system.processes))
        hints.append(_("Raise nproc in /etc/security/limits.conf, or LimitNPROC= in the service."))
    if system.stack_kib is not None and system.stack_kib < floors.stack_kib:
        low.append(_("{kib} KiB of stack a thread").format(kib=system.stack_kib))
        hints.append(_("Before the launch: ulimit -s {kib}").format(kib=floors.stack_kib))
    locked = (
        _("Locked memory: {mib} MiB.").format(mib=system.locked_memory_kib // 1024)
        if system.locked_memory_kib is not None
        else _("Locked memory: as much as wanted.")
    )
    if not low:
        return Check(id="limits", status="ok", detail=locked, command=command)
    detail = _("A process may have only {limits}.").format(limits=", ".join(low))
    return Check(
        id="limits", status="warn", detail=f"{detail} {locked}", hint=" ".join(hints), command=command
    )


def overcommit(subject: Subject) -> Check:
    """Whether the kernel hands out addresses for memory that is reserved and never used."""
    value, command = subject.machine.system.overcommit, "sysctl vm.overcommit_memory"
    if value is None:
        return unread("overcommit", command)
    if value != host_facts().limits.overcommit_refuses:
        detail = _("Large reservations of memory are granted.")
        return Check(id="overcommit", status="ok", detail=detail, command=command)
    return Check(
        id="overcommit",
        status="warn",
        detail=_("The kernel refuses reservations larger than the memory; CUDA makes such."),
        hint=_("Set it back: sudo sysctl vm.overcommit_memory=0"),
        command=command,
    )


def governor(subject: Subject) -> Check:
    """How the processor's clock is set: it prepares every token that the GPU computes."""
    system, facts = subject.machine.system, host_facts().governor
    command = "cat /sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
    if not system.governors:
        detail = _(
            "Not known: the system does not show how the processor's clock is set, as in a virtual machine."
        )
        return Check(id="governor", status="skip", detail=detail, command=command)
    words = {"names": ", ".join(system.governors), "driver": system.frequency_driver or "?"}
    if not set(system.governors) & set(facts.slow):
        detail = _("The processor's clock is set by {names} ({driver}).").format(**words)
        return Check(id="governor", status="ok", detail=detail, command=command)
    if system.frequency_driver in facts.on_demand_drivers:
        detail = _("The processor's clock is set by {names}, which under {driver} rises on demand.")
        return Check(id="governor", status="ok", detail=detail.format(**words), command=command)
    return Check(
        id="governor",
        status="warn",
        detail=_("The processor is kept at its lowest clock ({names}), which delays every token.").format(
            **words
        ),
        hint=_("Until the next restart: sudo cpupower frequency-set -g performance"),
        command=command,
    )


def glibc(subject: Subject) -> Check:
    """Whether ready-made builds of the newest vLLM run with this C library."""
    found, command = subject.machine.system.glibc, "ldd --version"
    if found is None:
        return unread("glibc", command)
    newest = newest_for(host_facts().glibc, subject.machine)
    words = {"found": found, "floor": newest.floor, "version": newest.since}
    try:
        enough = Version(found) >= Version(newest.floor)
    except ValueError:
        return unread("glibc", command)
    if enough:
        detail = _("glibc {found}; vLLM from {version} on needs {floor}.").format(**words)
        return Check(id="glibc", status="ok", detail=detail, command=command)
    return Check(
        id="glibc",
        status="warn",
        detail=_("glibc {found} is too old for vLLM from {version} on, which needs {floor}.").format(**words),
        hint=_("Run vLLM in a container, or upgrade the distribution."),
        command=command,
    )


def secure_boot(subject: Subject) -> Check:
    """Secure Boot refuses a kernel module that nobody signed: then there is no driver."""
    on, command = subject.machine.system.secure_boot, "mokutil --sb-state"
    if on is None:
        return unread("secure-boot", command)
    if not on:
        detail = _("Secure Boot is off.")
        return Check(id="secure-boot", status="ok", detail=detail, command=command)
    if subject.machine.driver is not None:
        detail = _("Secure Boot is on, and the NVIDIA driver is loaded all the same.")
        return Check(id="secure-boot", status="ok", detail=detail, command=command)
    return Check(
        id="secure-boot",
        status="warn",
        detail=_(
            "Secure Boot is on: a driver module is loaded only if its signature is known to the firmware."
        ),
        hint=_(
            "Use the distribution's signed driver, or enrol its key: sudo mokutil --import KEY, then confirm "
            "on the machine's own screen at the next start (not possible over SSH)."
        ),
        command=command,
    )
