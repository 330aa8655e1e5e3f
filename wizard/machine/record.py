"""Writes this host down as a machine file to give away: what identifies it or its owner is taken out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from wizard import __version__
from wizard.catalog import host_facts
from wizard.errors import UsageError
from wizard.i18n import _
from wizard.machine.types import (
    Disk,
    GpuProcess,
    GpuReading,
    MachineFile,
    MigInstance,
    Provenance,
    Reading,
)
from wizard.paths import write_atomic
from wizard.text import one_line

_PLACES = {
    "models": "/home/operator/.cache/huggingface/hub",
    "home": "/home/operator",
    "temporary": "/tmp",  # noqa: S108 - written into a file, not used
    "shm": "/dev/shm",  # noqa: S108
    "docker": "/var/lib/docker",
    "podman": "/home/operator/.local/share/containers/storage",
}
"""What stands for the real paths, which hold names of people and projects."""
_ANY_PLACE = "/redacted"
_ANY_PROGRAM = "program"


def check_destination(path: Path) -> None:
    """Raises UsageError where a recording must not, or cannot, be written; before anything is read."""
    if os.path.lexists(path):
        raise UsageError(
            _("{path} exists already and is not overwritten.").format(path=one_line(str(path))),
            _("Give another name, or move it away."),
        )
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(
            _("There is no folder {path}.").format(path=one_line(str(folder))),
            _("Create it first, or give another path."),
        )


def write_recording(reading: Reading, path: Path) -> None:
    """Write the reading, redacted, as a machine file that ``load_machine`` reads; whole or not at all.

    Raises UsageError when the file exists or cannot be written.
    """
    check_destination(path)
    write_atomic(path, recording(reading), mode=0o644)


def recording(reading: Reading) -> bytes:
    """The content of the machine file that gives the reading away, redacted."""
    content = MachineFile(
        machine=redacted(reading),
        provenance=Provenance(
            description=f"Recorded by its owner with vllm-opencode {__version__}.",
            recorded="Everything but what is redacted.",
            derived="Redacted: host name, UUIDs, paths, process ids, names of unknown programs.",
            source="vllm-opencode detect --record",
        ),
    )
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def redacted(reading: Reading) -> Reading:
    """The reading without host name, UUIDs, paths, process ids and telling names of programs.

    What follows from it stays the same: a UUID that ``CUDA_VISIBLE_DEVICES`` names is replaced there, too.
    """
    uuids = {gpu.uuid: _uuid("GPU", gpu.index) for gpu in reading.gpus if gpu.uuid}
    numbers = _numbered(process.pid for gpu in reading.gpus for process in gpu.processes)
    return msgspec.structs.replace(
        reading,
        hostname=None,
        gpus=tuple(_gpu(gpu, numbers) for gpu in reading.gpus),
        disks=tuple(_disk(disk) for disk in reading.disks),
        shm=None if reading.shm is None else _disk(reading.shm),
        visible_devices=_visible(reading.visible_devices, uuids),
    )


def _gpu(gpu: GpuReading, numbers: Mapping[int, int]) -> GpuReading:
    return msgspec.structs.replace(
        gpu,
        uuid=_uuid("GPU", gpu.index) if gpu.uuid else "",
        processes=tuple(_process(process, numbers[process.pid]) for process in gpu.processes),
        state=msgspec.structs.replace(
            gpu.state,
            instances=tuple(_instance(gpu.index, n, part) for n, part in enumerate(gpu.state.instances)),
        ),
    )


def _process(process: GpuProcess, number: int) -> GpuProcess:
    """A number in place of the process id; the name only where it is one that many machines have."""
    known = next(
        (name for name in host_facts().known_programs if process.name.lower().startswith(name.lower())), None
    )
    name = known or (_ANY_PROGRAM if process.name else "")
    return msgspec.structs.replace(process, pid=number, name=name)


def _instance(gpu: int, number: int, part: MigInstance) -> MigInstance:
    return msgspec.structs.replace(part, uuid=_uuid("MIG", gpu * 100 + number) if part.uuid else "")


def _disk(disk: Disk) -> Disk:
    return msgspec.structs.replace(disk, path=_PLACES.get(disk.purpose, _ANY_PLACE))


def _visible(value: str | None, uuids: Mapping[str, str]) -> str | None:
    """Numbers stay; a UUID, or the beginning of one, becomes that of the redacted GPU; the rest goes."""
    if value is None:
        return None
    entries = []
    for entry in (entry.strip() for entry in value.split(",")):
        matching = [new for old, new in uuids.items() if entry and old.lower().startswith(entry.lower())]
        if entry.lstrip("-").isdecimal() or not entry:
            entries.append(entry)
        elif entry.startswith("GPU-") and len(matching) == 1:
            entries.append(matching[0])
        else:
            entries.append("MIG-redacted" if entry.startswith("MIG-") else "redacted")
    return ",".join(entries)


def _uuid(kind: str, number: int) -> str:
    return f"{kind}-00000000-0000-0000-0000-{number:012d}"


def _numbered(pids: Iterable[int]) -> dict[int, int]:
    return {pid: number for number, pid in enumerate(dict.fromkeys(pids), start=1)}
