"""Recording a host: nothing of its owner is left, and simulating it gives what detecting it gave."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wizard.cli import main
from wizard.errors import UsageError
from wizard.flow import prepare
from wizard.machine import (
    Disk,
    GpuProcess,
    GpuReading,
    GpuState,
    Machine,
    MemoryReading,
    MigInstance,
    PciCard,
    Reading,
    SystemReading,
    load_machine,
    machine_from,
    write_recording,
)
from wizard.machine.record import redacted
from wizard.machine.recorded import decode_machine_file

OWNED = Reading(
    hostname="alice-workstation.example.org",
    arch="x86_64",
    os="Ubuntu 24.04.3 LTS",
    kernel="6.8.0-90-generic",
    product="Supermicro AS-4125GS",
    cpu_count=64,
    driver="580.159.04",
    cuda="13.0",
    gpus=(
        GpuReading(
            index=0,
            name="NVIDIA H200",
            uuid="GPU-8f1c2a33-dead-beef-0000-123456789abc",
            bus_id="00000000:18:00.0",
            compute_capability="9.0",
            memory_mib=143771,
            memory_free_mib=120000,
            links={"1": 18},
            display_active=False,
            power_limit_w=700.0,
            processes=(
                GpuProcess(pid=4242, name="python3.12", used_mib=20000),
                GpuProcess(pid=4243, name="acme-secret-project", used_mib=512),
            ),
            state=GpuState(
                ecc=True, power_default_w=700.0, fabric="completed", busy_percent=97, bar1_mib=262144
            ),
            errors={"display_active": "NotSupported"},
        ),
        GpuReading(
            index=1,
            name="NVIDIA H200",
            uuid="GPU-99aa55cc-0000-4000-8000-cafecafecafe",
            memory_mib=143771,
            links={"0": 18},
            mig=True,
            processes=(GpuProcess(pid=4242, name="python3.12"),),
            state=GpuState(
                instances=(MigInstance(uuid="MIG-77777777-aaaa", name="MIG 1g.18gb", memory_mib=16384),)
            ),
        ),
        GpuReading(index=2, name="", errors={"device": "GpuIsLost"}),
    ),
    memory=MemoryReading(total_mib=257811, available_mib=250000, free_mib=100000),
    disks=(
        Disk(purpose="models", path="/data/alice/acme/hub", total_gib=3000.5, free_gib=1200.25),
        Disk(purpose="home", path="/home/alice", total_gib=900, free_gib=100),
        Disk(purpose="temporary", path="/scratch/alice", total_gib=10, free_gib=9),
        Disk(purpose="docker", path="/data/alice/docker", total_gib=900, free_gib=100, file_system="xfs"),
        Disk(purpose="something new", path="/home/alice/x", total_gib=1, free_gib=1),
    ),
    shm=Disk(purpose="shm", path="/dev/shm", total_gib=62.9, free_gib=62.9),
    system=SystemReading(glibc="2.39", secure_boot=True, iommu="passthrough", open_files=1048576),
    cards=(PciCard(bus_id="0000:18:00.0", device="0x2335", driver="nvidia"),),
    visible_devices="GPU-99aa55cc,GPU-8f1c",
    problems=("nvml-timeout",),
)
SECRETS = ("alice", "example.org", "8f1c2a33", "99aa55cc", "cafecafe", "77777777", "acme", "4242", "scratch")


def like_redacted(machine: Machine) -> Machine:
    """The machine with exactly those fields made equal that a recording may change."""
    return msgspec.structs.replace(
        machine,
        hostname=None,
        gpus=tuple(
            msgspec.structs.replace(
                gpu,
                uuid="",
                processes=tuple(
                    msgspec.structs.replace(process, pid=0, name="") for process in gpu.processes
                ),
                state=msgspec.structs.replace(
                    gpu.state,
                    instances=tuple(msgspec.structs.replace(part, uuid="") for part in gpu.state.instances),
                ),
            )
            for gpu in machine.gpus
        ),
        disks=tuple(msgspec.structs.replace(disk, path="") for disk in machine.disks),
        visible_devices=None,
        simulated=None,
    )


def test_a_simulated_recording_is_the_machine_it_was_made_of(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    write_recording(OWNED, path)
    again, before = load_machine(str(path)), machine_from(OWNED)
    assert like_redacted(again) == like_redacted(before)
    assert [gpu.hidden for gpu in again.gpus] == [gpu.hidden for gpu in before.gpus] == [False, False, True]
    assert again.simulated == str(path)


def test_nothing_of_the_owner_is_left(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    write_recording(OWNED, path)
    text = path.read_text()
    assert [secret for secret in SECRETS if secret in text] == []
    document = json.loads(text)
    assert document["provenance"]["source"] == "vllm-opencode detect --record"
    assert [process["name"] for process in document["machine"]["gpus"][0]["processes"]] == [
        "python",
        "program",
    ]
    assert [process["pid"] for process in document["machine"]["gpus"][1]["processes"]] == [1]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", ""),
        ("1,0", "1,0"),
        ("-1", "-1"),
        ("GPU-8f1c", "GPU-00000000-0000-0000-0000-000000000000"),
        ("MIG-77777777-aaaa", "MIG-redacted"),
        ("GPU-unknown,alice", "redacted,redacted"),
    ],
)
def test_visible_devices_keep_their_meaning(value: str | None, expected: str | None) -> None:
    reading = msgspec.structs.replace(OWNED, visible_devices=value)
    assert redacted(reading).visible_devices == expected
    hidden = [gpu.hidden for gpu in machine_from(reading).gpus]
    assert [gpu.hidden for gpu in machine_from(redacted(reading)).gpus] == hidden


def test_a_recording_is_for_others_to_read_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    write_recording(OWNED, path)
    assert path.stat().st_mode & 0o777 == 0o644
    assert [file.name for file in tmp_path.iterdir()] == ["machine.json"]


@pytest.mark.parametrize("what", ["file", "folder", "link", "no folder"])
def test_where_nothing_is_written(tmp_path: Path, what: str) -> None:
    path = tmp_path / "machine.json"
    if what == "file":
        path.write_text("mine")
    elif what == "folder":
        path.mkdir()
    elif what == "link":
        path.symlink_to(tmp_path / "nowhere")
    else:
        path = tmp_path / "none" / "machine.json"
    with pytest.raises(UsageError) as caught:
        write_recording(OWNED, path)
    assert caught.value.exit_code == 2
    assert str(tmp_path) in caught.value.message
    if what == "file":
        assert path.read_text() == "mine"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """This host answers with a fixed reading; how often it was read is counted."""
    count: list[int] = []

    def read() -> Reading:
        count.append(1)
        return OWNED

    monkeypatch.setattr(prepare, "read_host", read)
    return lambda: len(count)


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)["machine"]


def test_detect_records_what_it_shows(
    tmp_path: Path, here: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "machine.json"
    first = main(["--json", "detect", "--record", str(path)])
    shown = printed(capsys)
    assert here() == 1
    second = main(["--json", "--simulate", str(path), "detect"])
    simulated = printed(capsys)
    assert first == second
    same = set(shown) - {"hostname", "gpus", "disks", "visible_devices", "simulated"}
    assert {key: shown[key] for key in same} == {key: simulated[key] for key in same}
    assert shown["hostname"] == OWNED.hostname
    for a, b in zip(shown["gpus"], simulated["gpus"], strict=True):
        own = set(a) - {"uuid", "processes", "state"}
        assert {key: a[key] for key in own} == {key: b[key] for key in own}


def test_wrong_destinations_end_before_the_host_is_read(
    tmp_path: Path, here: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["detect", "--record", str(tmp_path)]) == 2
    assert main(["detect", "--record", str(tmp_path / "a" / "b")]) == 2
    assert main(["--simulate", "gb10", "detect", "--record", str(tmp_path / "c.json")]) == 2
    assert here() == 0
    assert main(["detect", "--record", ""]) == 2
    assert "needs the name of a file" in capsys.readouterr().err
    assert main(["detect", "--record", "~nobody-of-this-name/m.json"]) == 2
    assert here() == 0
    assert not list(tmp_path.iterdir())
    capsys.readouterr()


def test_a_recording_can_be_printed_and_is_then_the_whole_output(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    code = main(["detect", "--record", "-"])
    printed = capfdbinary.readouterr().out
    assert code in (0, 1)
    recorded = decode_machine_file(printed, "printed").machine
    assert (recorded.hostname, recorded.arch) == (None, platform.machine())
    assert main(["--simulate", "gb10", "detect", "--record", "-"]) == 2
    assert capfdbinary.readouterr().out == b""
