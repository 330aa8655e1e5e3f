"""Asks every GPU through a ``pynvml`` module. What one GPU refuses never hides another GPU or fact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import PurePath
from typing import Any

import msgspec

from wizard.machine.questions import NO_ANSWER, Questions, error_name, plain_text
from wizard.machine.state import read_state
from wizard.machine.types import GpuProcess, GpuReading, NvmlReading

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
_NO_MORE_LINKS = ("FunctionNotFound", "GpuIsLost")
"""Errors after which the other links need not be asked."""


def snapshots(nvml: Any) -> Iterator[NvmlReading]:
    """What is known after each GPU, each snapshot a whole reading; then after links and states.

    ``nvml`` is the ``pynvml`` module, or anything that behaves like it. The early snapshots are for whoever
    watches with a deadline: a GPU whose driver call never returns costs only what comes after it.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        yield NvmlReading(problems=(_INIT_PROBLEMS.get(error_name(error), "nvml-unknown"),))
        return
    system = Questions(nvml)
    driver = system.ask("driver", "nvmlSystemGetDriverVersion")
    cuda = system.ask("cuda", "nvmlSystemGetCudaDriverVersion")
    count = system.ask("gpus", "nvmlDeviceGetCount")
    reading = NvmlReading(
        driver=None if driver is None else plain_text(driver),
        cuda=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        gpus=tuple(_unread(index, NO_ANSWER) for index in range(count or 0)),
        problems=("nvml-unknown",) if count is None else ("nvml-no-devices",) if count == 0 else (),
    )
    yield reading
    handles: dict[int, object] = {}
    for index in range(count or 0):
        handle = system.ask(f"device {index}", "nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            gpu = _unread(index, system.errors[f"device {index}"])
        else:
            handles[index] = handle
            gpu = _read_gpu(nvml, index, handle)
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


def _with_gpu(reading: NvmlReading, gpu: GpuReading) -> NvmlReading:
    gpus = tuple(gpu if known.index == gpu.index else known for known in reading.gpus)
    return msgspec.structs.replace(reading, gpus=gpus)


def _read_gpu(nvml: Any, index: int, handle: object) -> GpuReading:
    """Every fact of one GPU. A memory total of 0 counts as unknown."""
    device = Questions(nvml, handle)
    name = device.ask("name", "nvmlDeviceGetName")
    uuid = device.ask("uuid", "nvmlDeviceGetUUID")
    pci = device.ask("bus_id", "nvmlDeviceGetPciInfo")
    capability = device.ask("compute_capability", "nvmlDeviceGetCudaComputeCapability")
    memory = device.ask("memory_mib", "nvmlDeviceGetMemoryInfo")
    display = device.ask("display_active", "nvmlDeviceGetDisplayActive")
    power_mw = device.ask("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit")
    mig = device.ask("mig", "nvmlDeviceGetMigMode")
    computing = device.ask("processes", "nvmlDeviceGetComputeRunningProcesses")
    drawing = device.ask("processes", "nvmlDeviceGetGraphicsRunningProcesses")
    running = {process.pid: process for process in (*(drawing or ()), *(computing or ()))}
    known = memory is not None and memory.total > 0
    return GpuReading(
        index=index,
        name=plain_text(name),
        uuid=plain_text(uuid),
        bus_id="" if pci is None else plain_text(pci.busId),
        compute_capability=None if capability is None else "{}.{}".format(*capability),
        memory_mib=memory.total // _MIB if known else None,
        memory_free_mib=memory.free // _MIB if known else None,
        display_active=None if display is None else bool(display),
        power_limit_w=None if power_mw is None else power_mw / 1000,
        mig=mig is not None and mig[0] == 1,
        processes=tuple(_process(nvml, process) for process in running.values()),
        errors=device.errors,
    )


def _with_state(nvml: Any, gpu: GpuReading, handle: object) -> GpuReading:
    """The GPU with its state, read last: a question that hangs there costs nothing that decides."""
    device = Questions(nvml, handle)
    state = read_state(nvml, device, gpu.mig)
    return msgspec.structs.replace(
        gpu,
        state=msgspec.structs.replace(state, blocked_peers=gpu.state.blocked_peers),
        errors={**gpu.errors, **device.errors},
    )


def _process(nvml: Any, process: Any) -> GpuProcess:
    """Name and memory are hidden from other users, in containers and under WSL."""
    name = Questions(nvml).ask("name", "nvmlSystemGetProcessName", process.pid)
    used = process.usedGpuMemory
    return GpuProcess(
        pid=process.pid, name=PurePath(plain_text(name)).name, used_mib=None if used is None else used // _MIB
    )


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
    for a, b in combinations(handles, 2):
        (direct_a, switched_a), (direct_b, switched_b) = counts[a], counts[b]
        count = max(direct_a[b], direct_b[a], min(switched_a, switched_b))
        status = devices[a].ask(
            "links", "nvmlDeviceGetP2PStatus", handles[b], nvml.NVML_P2P_CAPS_INDEX_NVLINK
        )
        if status is not None:
            count = max(count, 1) if status == nvml.NVML_P2P_STATUS_OK else 0
        if count:
            links[a][str(b)] = links[b][str(a)] = count
        reach = devices[a].ask("blocked_peers", "nvmlDeviceGetP2PStatus", handles[b], _P2P_READ)
        if reach in _P2P_REASONS:
            blocked[a][str(b)] = blocked[b][str(a)] = _P2P_REASONS[reach]
    for index, device in devices.items():
        gpu = reading.gpus[index]
        complete = msgspec.structs.replace(
            gpu,
            links=links[index],
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
        active = device.ask("links", "nvmlDeviceGetNvLinkState", link)
        if active is None and device.errors["links"] == "InvalidArgument":
            del device.errors["links"]
            break
        if active is None and device.errors["links"] in _NO_MORE_LINKS:
            break
        if not active:
            continue
        kind = device.ask("links", "nvmlDeviceGetNvLinkRemoteDeviceType", link)
        if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            switched += 1
            continue
        remote = device.ask("links", "nvmlDeviceGetNvLinkRemotePciInfo", link)
        peer = None if remote is None else by_bus.get(plain_text(remote.busId).lower())
        if peer is not None:
            direct[peer] += 1
    return direct, switched
