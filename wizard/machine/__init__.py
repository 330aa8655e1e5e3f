"""PLACEHOLDER"""

from wizard.machine.types import (
    Check,
    Disk,
    Gpu,
    GpuProcess,
    GpuReading,
    Machine,
    MachineFile,
    MemoryReading,
    Provenance,
    Reading,
)

__all__ = [
    "Check",
    "Disk",
    "Gpu",
    "GpuProcess",
    "GpuReading",
    "Machine",
    "MachineFile",
    "MemoryReading",
    "Provenance",
    "Reading",
]
