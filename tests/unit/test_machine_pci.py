"""Cards on a PCI bus laid out in a folder as sysfs does, and what they make of a missing driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from wizard.machine import PciCard, explain_problem, load_machine
from wizard.machine.pci import card_problems, pci_cards

NO_DRIVER = ("nvml-library-not-found",)


def device(root: Path, bus_id: str, vendor: str, kind: str, id: str, driver: str | None = None) -> None:
    folder = root / "sys/bus/pci/devices" / bus_id
    folder.mkdir(parents=True)
    for name, value in (("vendor", vendor), ("class", kind), ("device", id)):
        (folder / name).write_text(f"{value}\n")
    if driver:
        bound = root / "sys/bus/pci/drivers" / driver
        bound.mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(bound)


def test_display_devices_of_nvidia_are_found_with_their_drivers(tmp_path: Path) -> None:
    device(tmp_path, "0000:00:02.0", "0x8086", "0x030000", "0x3e92", "i915")
    device(tmp_path, "0000:01:00.0", "0x10de", "0x030200", "0x1db5", "nvidia")
    device(tmp_path, "0000:01:00.1", "0x10de", "0x040300", "0x10f0", "snd_hda_intel")
    device(tmp_path, "0000:02:00.0", "0x10de", "0x030000", "0x2684")
    device(tmp_path, "0000:c4:00.0", "0x10de", "0x068000", "0x22a3", "nvidia-nvswitch")
    assert pci_cards(tmp_path) == (
        PciCard(bus_id="0000:01:00.0", device="0x1db5", driver="nvidia"),
        PciCard(bus_id="0000:02:00.0", device="0x2684", driver=None),
    )


def test_a_bus_without_cards_is_empty_and_one_that_cannot_be_seen_is_unknown(tmp_path: Path) -> None:
    assert pci_cards(tmp_path) is None
    device(tmp_path, "0000:00:02.0", "0x8086", "0x030000", "0x3e92")
    assert pci_cards(tmp_path) == ()


def test_a_jetson_has_its_gpu_elsewhere(tmp_path: Path) -> None:
    device(tmp_path, "0000:00:00.0", "0x10de", "0x060400", "0x229c")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").write_text("# R36 (release)\n")
    assert pci_cards(tmp_path) is None


def test_under_wsl_the_card_belongs_to_windows(tmp_path: Path) -> None:
    device(tmp_path, "0000:00:00.0", "0x1414", "0x030200", "0x008e")
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("6.6.87.2-microsoft-standard-WSL2\n")
    assert pci_cards(tmp_path) is None


def card(driver: str | None) -> PciCard:
    return PciCard(bus_id="0000:01:00.0", device="0x2684", driver=driver)


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        (None, NO_DRIVER),
        ((), ("card-missing",)),
        ((card("nouveau"),), ("card-nouveau", *NO_DRIVER)),
        ((card("vfio-pci"), card("vfio-pci")), ("card-passed-through", *NO_DRIVER)),
        ((card(None),), ("card-without-driver", *NO_DRIVER)),
        ((card("nvidia"),), NO_DRIVER),
    ],
)
def test_the_driver_of_the_card_tells_the_cause(
    cards: tuple[PciCard, ...] | None, expected: tuple[str, ...]
) -> None:
    assert card_problems(cards, NO_DRIVER) == expected


def test_a_driver_that_waits_for_a_card_that_is_not_there_is_told_once() -> None:
    assert card_problems((), ("smi-timeout",)) == ("card-missing",)
    assert card_problems((card("nvidia"),), ("smi-timeout",)) == ("smi-timeout",)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("card-missing", "--simulate gb10"),
        ("card-nouveau", "blacklist"),
        ("card-passed-through", "virtual machine"),
        ("card-without-driver", "dkms status"),
        ("gpus-from-nvidia-smi", "ldconfig"),
    ],
)
def test_each_cause_has_its_advice(code: str, hint: str) -> None:
    explained = explain_problem(code, load_machine("no-gpu"))
    assert explained.meaning != code
    assert hint in explained.hint
