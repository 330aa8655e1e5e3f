"""GPUs as ``nvidia-smi`` lists them, for where NVML itself cannot be asked. Links stay unknown this way."""

from __future__ import annotations

import csv
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from wizard.child import run_child
from wizard.machine.capability import normal_capability
from wizard.machine.questions import UNREADABLE
from wizard.machine.types import LINKS, PROCESSES, GpuReading, NvmlReading
from wizard.text import one_line

DEADLINE_S = 10.0
PROBLEM = "gpus-from-nvidia-smi"
"""Says that the GPUs were read this way."""
TIMEOUT = "smi-timeout"
"""Says that nvidia-smi is here and hung."""
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
_INDEX = re.compile(r"\s*(\d{1,4})\s*,", re.ASCII)
"""Begins a line that lists a GPU, whatever follows."""
_NUMBER = re.compile(r"\d{1,12}(\.\d*)?", re.ASCII)
_LARGEST = 10**9
"""No amount of MiB or watts comes near."""
_REFUSALS = {
    "n/a": "NotSupported",
    "not supported": "NotSupported",
    "insufficient permissions": "NoPermission",
    "gpu is lost": "GpuIsLost",
    "gpu requires reset": "ResetRequired",
}
"""What stands in brackets in place of a value, and NVML's name of the error; anything else is Unknown."""


def ask_smi(deadline_s: float = DEADLINE_S, environ: Mapping[str, str] = os.environ) -> NvmlReading | None:
    """What ``nvidia-smi`` answers within the deadline; None when there is none or it lists no GPU.

    When it hangs, a reading without GPUs whose problem says so: its driver is stuck.
    """
    program = shutil.which("nvidia-smi", path=f"{environ.get('PATH', '')}{os.pathsep}{_WSL_FOLDER}")
    if program is None:
        return None
    for fields in (_FIELDS, {key: _FIELDS[key] for key in _ALWAYS}):
        argv = (program, f"--query-gpu={','.join(fields.values())}", "--format=csv,noheader,nounits")
        outcome = run_child(argv, environ, deadline_s)
        reading = parse(outcome.output, tuple(fields))
        # A lost GPU makes it exit with an error after it has listed the others.
        if reading is not None:
            return reading
        if outcome.cut_short:
            return NvmlReading(problems=(TIMEOUT,))
    return None


def parse(output: str, fields: tuple[str, ...] = tuple(_FIELDS)) -> NvmlReading | None:
    """The lines that list a GPU as a reading; None when no line can be read.

    A line that begins as one of a GPU and goes on as nothing known is a GPU that could not be asked.
    """
    gpus: dict[int, GpuReading] = {}
    driver, readable = None, False
    for line in output.split("\n"):
        begins = _INDEX.match(line)
        if begins is None:
            continue
        values = _cells(line, fields)
        if values is None:
            gpus.setdefault(int(begins[1]), _unreadable(int(begins[1])))
            continue
        readable = True
        gpu = _gpu(values)
        gpus[gpu.index] = gpu
        driver = driver or _value(values, "driver", {}) or None
    if not readable:
        return None
    return NvmlReading(driver=driver, gpus=tuple(gpus.values()), problems=(PROBLEM,))


def _cells(line: str, fields: tuple[str, ...]) -> dict[str, str] | None:
    """The values of one line by field; None when it is none of these fields."""
    try:
        row = next(csv.reader([line], skipinitialspace=True), [])
    except csv.Error:
        return None
    values = dict(zip(fields, (one_line(cell) for cell in row), strict=False))
    whole = len(row) == len(fields) and values["index"].isascii() and values["index"].isdecimal()
    return values if whole else None


def _unreadable(index: int) -> GpuReading:
    return GpuReading(index=index, name="", errors={"device": UNREADABLE})


def _gpu(values: Mapping[str, str]) -> GpuReading:
    errors: dict[str, str] = {}
    display = _value(values, "display_active", errors)
    power = _number(values, "power_limit_w", errors)
    return GpuReading(
        index=int(values["index"]),
        name=_value(values, "name", errors),
        uuid=_value(values, "uuid", errors),
        bus_id=_value(values, "bus_id", errors),
        compute_capability=_capability(values, errors),
        memory_mib=_mib(values, "memory_mib", errors) or None,
        memory_free_mib=_mib(values, "memory_free_mib", errors),
        display_active=None if not display else display == "Enabled",
        power_limit_w=power,
        mig=_value(values, "mig", errors) == "Enabled",
        unread=(LINKS, PROCESSES),
        errors=errors,
    )


def _capability(values: Mapping[str, str], errors: dict[str, str]) -> str | None:
    text = _value(values, "compute_capability", errors)
    try:
        return normal_capability(text) if text else None
    except ValueError:
        errors["compute_capability"] = UNREADABLE
        return None


def _mib(values: Mapping[str, str], field: str, errors: dict[str, str]) -> int | None:
    number = _number(values, field, errors)
    return None if number is None else int(number)


def _number(values: Mapping[str, str], field: str, errors: dict[str, str]) -> float | None:
    """The number that stands there without a unit; None, with the error noted, for anything else."""
    text = _value(values, field, errors)
    if not text:
        return None
    number = float(text) if _NUMBER.fullmatch(text) else _LARGEST
    if number >= _LARGEST:
        errors[field] = UNREADABLE
        return None
    return number


def _value(values: Mapping[str, str], field: str, errors: dict[str, str]) -> str:
    """The value, or empty with the error noted where something in brackets stands for it."""
    text = values.get(field, "")
    if text.startswith("[") and text.endswith("]"):
        errors[field] = _REFUSALS.get(text[1:-1].lower(), "Unknown")
        return ""
    return text
