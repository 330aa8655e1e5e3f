"""What this host is, or a recorded one: GPUs, their links, memory, disks, and what stands in the way."""

from wizard.machine.build import machine_from
from wizard.machine.checks import checked_for, checks
from wizard.machine.detect import detect, read_host
from wizard.machine.host import models_folder
from wizard.machine.load import watch_load
from wizard.machine.problems import Explanation, explain_problem
from wizard.machine.record import check_destination, recording, write_recording
from wizard.machine.recorded import decode_machine_file, load_machine, machine_names
from wizard.machine.types import (
    Check,
    CheckStatus,
    Disk,
    Gpu,
    GpuProcess,
    GpuReading,
    GpuState,
    Machine,
    MachineFile,
    MemoryReading,
    MigInstance,
    NvmlReading,
    PciCard,
    Provenance,
    Reading,
    SystemReading,
)

__all__ = [
    "Check",
    "CheckStatus",
    "Disk",
    "Explanation",
    "Gpu",
    "GpuProcess",
    "GpuReading",
    "GpuState",
    "Machine",
    "MachineFile",
    "MemoryReading",
    "MigInstance",
    "NvmlReading",
    "PciCard",
    "Provenance",
    "Reading",
    "SystemReading",
    "check_destination",
    "checked_for",
    "checks",
    "decode_machine_file",
    "detect",
    "explain_problem",
    "load_machine",
    "machine_from",
    "machine_names",
    "models_folder",
    "read_host",
    "recording",
    "watch_load",
    "write_recording",
]
