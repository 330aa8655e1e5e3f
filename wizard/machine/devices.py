"""Asks every GPU through a ``pynvml`` module. What one GPU refuses never hides another GPU or fact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import PurePath
from typing import Any

import msgspec

from wizard.machine.capability import normal_capability
from wizard.machine.questions import (
    NO_ANSWER,
    Questions,
    count,
    error_name,
    first_flag,
    itself,
    plain_text,
    watts,
)
from wizard.machine.state import read_state
from wizard.machine.types import LINKS, PROCESSES, GpuProcess, GpuReading, NvmlReading

_INIT_PROBLEMS = {
    "LibraryNotFound": "nvml-library-not-found",
    "DriverNotLoaded": "nvml-driver-not-loaded",
    "LibRmVersionMismatch": "nvml-driver-mismatch",
    "NoPermission": "nvml-no-permission",
}
_MIB = 1024 * 1024
_P2P_READ = 0
"""NVML_P2P_CAPS_INDEX_READ, which the binding holds as a tuple by mistake."""
_P2P_REASONS = {
    1: "chipset-not-supported",
    2: "gpu-not-supported",
    3: "topology-not-supported",
    4: "disabled-by-regkey",
    5: "not-supported",
}
"""NVML_P2P_STATUS_* but OK and UNKNOWN."""
_MOST_GPUS = 4096
"""More is no number of GPUs: it would take the deadline to note that none of them answers."""
_NO_LINKS = "NotSupported"
"""How a GPU without NVLink answers the question for its links."""
_NO_MORE_LINKS = ("FunctionNotFound", "GpuIsLost")
"""Errors after which the other links need not be asked."""


def snapshots(nvml: Any) -> Iterator[NvmlReading]:
    """What is known after each GPU, each snapshot a whole reading; then after links and states.

    ``nvml`` is the ``pynvml`` module, or anything that behaves like it. The early snapshots are for whoever
    watches with a deadline: a GPU whose driver call never returns costs only what comes after it.
    """
    try:
        nvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - however NVML fails to start, that is the answer
        yield NvmlReading(problems=(_INIT_PROBLEMS.get(error_name(error), "nvml-unknown"),))
        return
    system = Questions(nvml)
    number = system.ask("gpus", "nvmlDeviceGetCount", read=_number_of_gpus)
    reading = NvmlReading(
        driver=system.ask("driver", "nvmlSystemGetDriverVersion", read=plain_text),
        cuda=system.ask("cuda", "nvmlSystemGetCudaDriverVersion", read=_cuda_version),
        gpus=tuple(_unread(index, NO_ANSWER) for index in range(number or 0)),
        problems=("nvml-unknown",) if number is None else ("nvml-no-devices",) if number == 0 else (),
    )
    yield reading
    handles: dict[int, object] = {}
    for index in range(number or 0):
        handle = system.ask(f"device {index}", "nvmlDeviceGetHandleByIndex", index, read=itself)
        if handle is None:
            gpu = _unread(index, system.errors[f"device {index}"])
        else:
            handles[index] = handle
            gpu = _read_gpu(nvml, index, handle, alone=number == 1)
        reading = _with_gpu(reading, gpu)
        yield reading
    if len(handles) > 1:
        reading = _with_links(nvml, reading, handles)
        yield reading
    for index, handle in handles.items():
        reading = _with_gpu(reading, _with_state(nvml, reading.gpus[index], handle))
        yield reading


def _unread(index: int, error: str) -> GpuReading:
    return GpuReading(index=index, name="", errors={"device": error})


def _number_of_gpus(answer: Any) -> int:
    number = count(answer)
    if number > _MOST_GPUS:
        raise ValueError(number)
    return number


def _cuda_version(answer: Any) -> str:
    version = count(answer)
    return f"{version // 1000}.{version % 1000 // 10}"


def _with_gpu(reading: NvmlReading, gpu: GpuReading) -> NvmlReading:
    gpus = tuple(gpu if known.index == gpu.index else known for known in reading.gpus)
    return msgspec.structs.replace(reading, gpus=gpus)


def _read_gpu(nvml: Any, index: int, handle: object, alone: bool) -> GpuReading:
    """Every fact of one GPU but its links, which are read last and matter where it is not ``alone``."""
    device = Questions(nvml, handle)
    total, free = device.ask("memory_mib", "nvmlDeviceGetMemoryInfo", read=_memory) or (None, None)
    computing = device.ask("processes", "nvmlDeviceGetComputeRunningProcesses", read=_running)
    drawing = device.ask("processes", "nvmlDeviceGetGraphicsRunningProcesses", read=_running)
    running = {**(drawing or {}), **(computing or {})}
    return GpuReading(
        index=index,
        name=device.ask("name", "nvmlDeviceGetName", read=plain_text) or "",
        uuid=device.ask("uuid", "nvmlDeviceGetUUID", read=plain_text) or "",
        bus_id=device.ask("bus_id", "nvmlDeviceGetPciInfo", read=_bus_id) or "",
        compute_capability=device.ask(
            "compute_capability",
            "nvmlDeviceGetCudaComputeCapability",
            read=lambda pair: normal_capability(tuple(pair)),
        ),
        memory_mib=total,
        memory_free_mib=free,
        display_active=device.ask(
            "display_active", "nvmlDeviceGetDisplayActive", read=lambda state: count(state) > 0
        ),
        power_limit_w=device.ask("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", read=watts),
        mig=device.ask("mig", "nvmlDeviceGetMigMode", read=first_flag) or False,
        processes=tuple(_process(nvml, pid, used) for pid, used in running.items()),
        unread=(*(() if alone else (LINKS,)), *((PROCESSES,) if computing is None else ())),
        errors=device.errors,
    )


def _bus_id(pci: Any) -> str:
    return plain_text(pci.busId)


def _memory(memory: Any) -> tuple[int, int] | None:
    """Total and free MiB; None where the total is 0, which counts as unknown."""
    total, free = count(memory.total), count(memory.free)
    return (total // _MIB, free // _MIB) if total else None


def _running(processes: Any) -> dict[int, int | None]:
    """MiB by process id, None where it is hidden, as it is from other users, in containers and under WSL."""
    return {count(process.pid): _used(process) for process in processes}


def _used(process: Any) -> int | None:
    try:
        return count(process.usedGpuMemory) // _MIB
    except (TypeError, ValueError):
        return None


def _with_state(nvml: Any, gpu: GpuReading, handle: object) -> GpuReading:
    """The GPU with its state, read last: a question that hangs there costs nothing that decides."""
    device = Questions(nvml, handle)
    state = read_state(nvml, device, gpu.mig)
    return msgspec.structs.replace(
        gpu,
        state=msgspec.structs.replace(state, blocked_peers=gpu.state.blocked_peers),
        errors={**gpu.errors, **device.errors},
    )


def _process(nvml: Any, pid: int, used_mib: int | None) -> GpuProcess:
    name = Questions(nvml).ask("name", "nvmlSystemGetProcessName", pid, read=plain_text)
    return GpuProcess(pid=pid, name=PurePath(name or "").name, used_mib=used_mib)


def _with_links(nvml: Any, reading: NvmlReading, handles: Mapping[int, object]) -> NvmlReading:
    """The reading with the active NVLinks of every GPU that has a handle, by peer, and peers out of reach.

    NVML's peer-to-peer status decides whether a pair is linked, because it is what vLLM asks; the number of
    links is counted, and only where the status cannot be had does the count decide alone.
    """
    by_bus = {gpu.bus_id.lower(): gpu.index for gpu in reading.gpus if gpu.bus_id}
    devices = {index: Questions(nvml, handle) for index, handle in handles.items()}
    counts = {index: _count_links(device, nvml, by_bus) for index, device in devices.items()}
    links: dict[int, dict[str, int]] = {index: {} for index in handles}
    blocked: dict[int, dict[str, str]] = {index: {} for index in handles}
    uncounted = {
        index for index, device in devices.items() if device.errors.get(LINKS, _NO_LINKS) != _NO_LINKS
    }
    unread: set[int] = set()
    for a, b in combinations(handles, 2):
        (direct_a, switched_a), (direct_b, switched_b) = counts[a], counts[b]
        number = max(direct_a[b], direct_b[a], min(switched_a, switched_b))
        status = devices[a].ask(
            LINKS, "nvmlDeviceGetP2PStatus", handles[b], nvml.NVML_P2P_CAPS_INDEX_NVLINK, read=count
        )
        if status is not None:
            number = max(number, 1) if status == nvml.NVML_P2P_STATUS_OK else 0
        elif not number:
            unread |= uncounted & {a, b}
        if number:
            links[a][str(b)] = links[b][str(a)] = number
        reach = devices[a].ask("blocked_peers", "nvmlDeviceGetP2PStatus", handles[b], _P2P_READ, read=count)
        if reach in _P2P_REASONS:
            blocked[a][str(b)] = blocked[b][str(a)] = _P2P_REASONS[reach]
    for index, device in devices.items():
        gpu = reading.gpus[index]
        complete = msgspec.structs.replace(
            gpu,
            links=links[index],
            unread=tuple(fact for fact in gpu.unread if fact != LINKS or index in unread),
            state=msgspec.structs.replace(gpu.state, blocked_peers=blocked[index]),
            errors={**gpu.errors, **device.errors},
        )
        reading = _with_gpu(reading, complete)
    return reading


def _count_links(device: Questions, nvml: Any, by_bus: Mapping[str, int]) -> tuple[Counter[int], int]:
    """Active links of one GPU: by the peer they lead to, and into an NVSwitch, where any other GPU is a peer.

    NVML ends the list of links with InvalidArgument, which is therefore no error.
    """
    direct: Counter[int] = Counter()
    switched = 0
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        active = device.ask(LINKS, "nvmlDeviceGetNvLinkState", link, read=count)
        if active is None and device.errors[LINKS] == "InvalidArgument":
            del device.errors[LINKS]
            break
        if active is None and device.errors[LINKS] in _NO_MORE_LINKS:
            break
        if not active:
            continue
        kind = device.ask(LINKS, "nvmlDeviceGetNvLinkRemoteDeviceType", link, read=count)
        if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            switched += 1
            continue
        remote = device.ask(LINKS, "nvmlDeviceGetNvLinkRemotePciInfo", link, read=_bus_id)
        peer = None if remote is None else by_bus.get(remote.lower())
        if peer is not None:
            direct[peer] += 1
    return direct, switched
