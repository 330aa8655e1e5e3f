"""What the kernel's log remembers of an earlier run: engines killed for memory, GPUs that failed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wizard.catalog import host_facts
from wizard.i18n import _
from wizard.machine.checks.subject import Probe, Subject
from wizard.machine.types import Check
from wizard.text import one_line

_COMMAND = 'journalctl -k | grep -Ei "out of memory|oom-killer|xid"'
_READERS = (("journalctl", "-k", "-b", "-q", "--no-pager", "-n", "20000"), ("dmesg",))
_REMARK = "-- "
"""Begins what journalctl itself has to say: "-- No entries --" to who may not see the kernel's."""
_XID_CODE = re.compile(r"Xid \([^)]*\): (\d+)")
_VICTIM = re.compile(r"Killed process \d+ \(([^)]*)\)|(\S+) invoked oom-killer")


def kernel_log(subject: Subject) -> Check:
    """Since the last start of the machine. Many systems show the log to root only."""
    probe = subject.probe
    lines = _read(probe)
    if lines is None:
        return Check(
            id="kernel-log",
            status="skip",
            detail=_("This user may not read the kernel's log."),
            hint=_("Look yourself: sudo dmesg | grep -Ei 'out of memory|oom-killer|xid'"),
            command=_COMMAND,
        )
    facts = host_facts().kernel_log
    killed = [line for line in lines if any(mark in line for mark in facts.oom)]
    failed = [line for line in lines if facts.xid in line]
    if not killed and not failed:
        detail = _("It tells of no program killed for memory and of no GPU error.")
        return Check(id="kernel-log", status="ok", detail=detail, command=_COMMAND)
    details, hints = [], []
    if killed:
        details.append(
            _("The kernel killed {program} because memory ran out.").format(program=_victim(killed))
        )
        hints.append(_("Leave more to the system: a smaller --gpu-memory-utilization or a smaller model."))
    if failed:
        details.append(_("The GPU driver reported: {errors}.").format(errors=_xids(failed)))
        hints.append(_("https://docs.nvidia.com/deploy/xid-errors says what each number asks for."))
    return Check(
        id="kernel-log", status="warn", detail=" ".join(details), hint=" ".join(hints), command=_COMMAND
    )


def _read(probe: Probe) -> Sequence[str] | None:
    """Lines of the log, from the first reader that is allowed to show them; None when none is."""
    for argv in _READERS:
        if probe.which(argv[0]) is None:
            continue
        outcome = probe.run(*argv)
        lines = [line for line in outcome.output.splitlines() if not line.startswith(_REMARK)]
        if outcome.code == 0 and lines:
            return lines
    return None


def _victim(lines: Sequence[str]) -> str:
    """The program that was killed, or made the kernel look for one; the newest line that names it."""
    for line in reversed(lines):
        found = _VICTIM.search(line)
        if found:
            return one_line(found[1] or found[2])
    return _("a program")


def _xids(lines: Sequence[str]) -> str:
    """The error numbers, each once, with what the known ones mean."""
    meanings = {entry.code: entry.meaning for entry in host_facts().xid}
    codes = dict.fromkeys(int(found[1]) for line in lines if (found := _XID_CODE.search(line)))
    named = (f"Xid {code} ({_(meanings[code])})" if code in meanings else f"Xid {code}" for code in codes)
    return ", ".join(named) or "Xid"
