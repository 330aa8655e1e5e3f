"""NVIDIA cards as the kernel lists them on the PCI bus: there with any driver, or with none at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wizard.machine.host import is_wsl
from wizard.machine.smi import TIMEOUT
from wizard.machine.types import PciCard
from wizard.text import one_line

_VENDOR = "0x10de"
_DISPLAY_CLASS = "0x03"
"""Class 0x0300xx is a graphics card, 0x0302xx one without outputs; NVSwitches are of another class."""
_BOARDS = ("etc/nv_tegra_release", "proc/device-tree/model")
"""Files of boards whose GPU is not on the PCI bus."""
_FOREIGN = {"nouveau": "card-nouveau", "nova": "card-nouveau", "vfio-pci": "card-passed-through"}


def pci_cards(root: Path = Path("/")) -> tuple[PciCard, ...] | None:
    """The NVIDIA display devices, by bus id; None where the bus does not tell, as on Jetson and under WSL."""
    if is_wsl(root):
        return None
    devices = root / "sys/bus/pci/devices"
    try:
        folders = sorted(devices.iterdir())
    except OSError:
        return None
    cards = tuple(
        PciCard(bus_id=one_line(folder.name), device=_word(folder / "device"), driver=_driver(folder))
        for folder in folders
        if _word(folder / "vendor") == _VENDOR and _word(folder / "class").startswith(_DISPLAY_CLASS)
    )
    if not cards and (not folders or any((root / file).exists() for file in _BOARDS)):
        return None
    return cards


def card_problems(cards: Sequence[PciCard] | None, problems: Sequence[str]) -> tuple[str, ...]:
    """The problems of a host on which no GPU answered, made more precise by what the bus shows.

    Without a card a driver that is missing, or waits for one, is no problem of its own; with one, the driver
    bound to it tells the cause.
    """
    if cards is None:
        return tuple(problems)
    if not cards:
        explained = ("nvml-library-not-found", TIMEOUT)
        rest = (problem for problem in problems if problem not in explained)
        return ("card-missing", *rest)
    drivers = {card.driver for card in cards}
    found = tuple(dict.fromkeys(problem for name, problem in _FOREIGN.items() if name in drivers))
    return (*(found or (("card-without-driver",) if drivers == {None} else ())), *problems)


def _driver(folder: Path) -> str | None:
    link = folder / "driver"
    return one_line(link.resolve().name) if link.exists() else None


def _word(file: Path) -> str:
    try:
        return one_line(file.read_text(encoding="ascii", errors="replace")).lower()
    except OSError:
        return ""
