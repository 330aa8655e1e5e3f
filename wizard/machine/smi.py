"""GPUs as ``nvidia-smi`` lists them, for where NVML itself cannot be asked. Links stay unknown this way."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from wizard.child import run_child
from wizard.machine.types import GpuReading, NvmlReading
from wizard.text import one_line

DEADLINE_S = 10.0
PROBLEM = "gpus-from-nvidia-smi"
"""Says that the GPUs were read this way."""
_WSL_FOLDER = Path("/usr/lib/wsl/lib")
"""Where Windows puts its driver's programs; not on the path of every shell."""
_FIELDS = {
    "index": "index",
    "name": "name",
    "uuid": "uuid",
    "bus_id": "pci.bus_id",
    "memory_mib": "memory.total",
    "memory_free_mib": "memory.free",
    "display_active": "display_active",
    "power_limit_w": "enforced.power.limit",
    "mig": "mig.mode.current",
    "driver": "driver_version",
    "compute_capability": "compute_cap",
}
_ALWAYS = ("index", "name", "uuid", "bus_id", "memory_mib", "memory_free_mib", "driver")
"""What every version answers; an old one refuses the whole question because of a field it does not know."""
_REFUSALS = {
    "n/a": "NotSupported",
    "not supported": "NotSupported",
    "insufficient permissions": "NoPermission",
    "gpu is lost": "GpuIsLost",
    "gpu requires reset": "ResetRequired",
}
"""What stands in brackets in place of a value, and NVML's name of the error; anything else is Unknown."""


def ask_smi(deadline_s: float = DEADLINE_S, environ: Mapping[str, str] = os.environ) -> NvmlReading | None:
    """What ``nvidia-smi`` answers within the deadline; None when there is none or it lists no GPU."""
    program = shutil.which("nvidia-smi", path=f"{environ.get('PATH', '')}{os.pathsep}{_WSL_FOLDER}")
    if program is None:
        return None
    for fields in (_FIELDS, {key: _FIELDS[key] for key in _ALWAYS}):
        argv = (program, f"--query-gpu={','.join(fields.values())}", "--format=csv,noheader,nounits")
        outcome = run_child(argv, environ, deadline_s)
        reading = parse(outcome.output, tuple(fields))
        # A lost GPU makes it exit with an error after it has listed the others.
        if reading is not None or outcome.cut_short:
            return reading
    return None


def parse(output: str, fields: tuple[str, ...] = tuple(_FIELDS)) -> NvmlReading | None:
    """The lines that list a GPU as a reading; None when no line does."""
    gpus: dict[int, GpuReading] = {}
    driver = None
    for row in csv.reader(output.splitlines(), skipinitialspace=True):
        values = dict(zip(fields, (one_line(cell) for cell in row), strict=False))
        if len(row) != len(fields) or not values["index"].isdecimal():
            continue
        gpu = _gpu(values)
        gpus[gpu.index] = gpu
        driver = driver or _value(values, "driver", {}) or None
    if not gpus:
        return None
    return NvmlReading(driver=driver, gpus=tuple(gpus.values()), problems=(PROBLEM,))


def _gpu(values: Mapping[str, str]) -> GpuReading:
    errors: dict[str, str] = {}
    capability = _value(values, "compute_capability", errors)
    power = _value(values, "power_limit_w", errors)
    display = _value(values, "display_active", errors)
    return GpuReading(
        index=int(values["index"]),
        name=_value(values, "name", errors),
        uuid=_value(values, "uuid", errors),
        bus_id=_value(values, "bus_id", errors),
        compute_capability=capability or None,
        memory_mib=_count(_value(values, "memory_mib", errors)),
        memory_free_mib=_count(_value(values, "memory_free_mib", errors)),
        display_active=None if not display else display == "Enabled",
        power_limit_w=float(power) if power.replace(".", "", 1).isdecimal() else None,
        mig=_value(values, "mig", errors) == "Enabled",
        errors=errors,
    )


def _value(values: Mapping[str, str], field: str, errors: dict[str, str]) -> str:
    """The value, or empty with the error noted where something in brackets stands for it."""
    text = values.get(field, "")
    if text.startswith("[") and text.endswith("]"):
        errors[field] = _REFUSALS.get(text[1:-1].lower(), "Unknown")
        return ""
    return text


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) > 0 else None
