"""What kind of machine this is, where that changes what to do: DGX Spark and its twins, WSL, containers."""

from __future__ import annotations

from wizard.catalog import host_facts
from wizard.i18n import _
from wizard.machine.checks.subject import Subject
from wizard.machine.types import Check, Machine

_GB10 = "gb10"


def identity(subject: Subject) -> Check:
    """The product by its maker's name, and what is special about it."""
    machine = subject.machine
    words = [machine.product or _("The maker left no name."), *_notes(machine)]
    return Check(
        id="identity",
        status="ok",
        detail=" · ".join(words),
        command="cat /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name",
    )


def _notes(machine: Machine) -> list[str]:
    notes = []
    if any(_GB10 in gpu.name.lower().split() for gpu in machine.gpus):
        notes.append(_twin(machine.product))
    if machine.wsl:
        notes.append(
            _("Linux under Windows (WSL): the driver is Windows', and the memory is what Windows grants.")
        )
    if machine.container:
        notes.append(
            _("In a container ({kind}): driver, services and limits are the host's.").format(
                kind=machine.container
            )
        )
    return notes


def _twin(product: str) -> str:
    """The GPU tells the family; the maker's string only tells whose."""
    known = next(
        (twin for twin in host_facts().gb10_twin if any(mark in product.lower() for mark in twin.marks)), None
    )
    if known is None:
        return _("it has the GB10 of a DGX Spark, so what is said of that holds here too.")
    if known.name.lower() in product.lower().replace("_", " "):
        return _("GB10, as in a DGX Spark.")
    return _("{name}: GB10, as in a DGX Spark.").format(name=known.name)
