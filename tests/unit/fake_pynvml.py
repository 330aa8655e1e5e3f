"""Stands in for the ``pynvml`` module: the real one's names and errors, answers as a test wants them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml

MIB = 1024 * 1024
P2P_READ = 0

H200: dict[str, Any] = {
    # Recorded on an H200 with driver 580.159.04.
    "nvmlDeviceGetName": "NVIDIA H200",
    "nvmlDeviceGetUUID": "GPU-00000000-0000-0000-0000-000000000200",
    "nvmlDeviceGetPciInfo": SimpleNamespace(busId="00000000:00:06.0"),
    "nvmlDeviceGetCudaComputeCapability": (9, 0),
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=150754820096, free=150109880320, used=644939776),
    "nvmlDeviceGetDisplayActive": 0,
    "nvmlDeviceGetEnforcedPowerLimit": 700000,
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetComputeRunningProcesses": [],
    "nvmlDeviceGetGraphicsRunningProcesses": [],
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetComputeMode": 0,
    "nvmlDeviceGetPowerManagementDefaultLimit": 700000,
    "nvmlDeviceGetCurrentClocksEventReasons": 1,
    "nvmlDeviceGetRemappedRows": (0, 0, 0, 0),
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=0, memory=0),
    "nvmlDeviceGetPowerUsage": 103302,
    "nvmlDeviceGetClockInfo": lambda kind: {pynvml.NVML_CLOCK_SM: 345}[kind],
    "nvmlDeviceGetBAR1MemoryInfo": SimpleNamespace(
        bar1Total=274877906944, bar1Used=1703936, bar1Free=274876203008
    ),
    "nvmlDeviceGetGpuFabricInfo": lambda info: _fill(info, state=3),
}


def refused(name: str) -> Exception:
    """The real binding's error of this name."""
    error: Exception = pynvml.NVMLError(getattr(pynvml, f"NVML_ERROR_{name}"))
    return error


class FakeNvml:
    """``devices``: for each GPU the answer of each function: a value, an error to raise, or a callable.

    ``links[(a, b)]``: direct links of a pair; ``switched[a]``: links of a GPU into an NVSwitch. The status of
    a pair follows from both unless ``p2p[(a, b)]`` says otherwise. ``reach[(a, b)]``: whether they reach each
    other's memory, which they do unless told otherwise.
    """

    NVMLError = pynvml.NVMLError

    def __init__(
        self,
        devices: list[dict[str, Any]],
        links: dict[tuple[int, int], int] | None = None,
        switched: dict[int, int] | None = None,
        p2p: dict[tuple[int, int], Any] | None = None,
        reach: dict[tuple[int, int], Any] | None = None,
        **system: Any,
    ) -> None:
        self.devices = devices
        self.ends: dict[int, list[int | None]] = {index: [] for index in range(len(devices))}
        self.p2p = p2p or {}
        self.reach = reach or {}
        for (a, b), count in (links or {}).items():
            self.ends[a] += [b] * count
            self.ends[b] += [a] * count
        for index, count in (switched or {}).items():
            self.ends[index] += [None] * count
        self.system: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlSystemGetDriverVersion": "580.159.04",
            "nvmlSystemGetCudaDriverVersion": 13000,
            "nvmlDeviceGetCount": len(devices),
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlSystemGetProcessName": lambda pid: f"/usr/bin/program-{pid}",
            **system,
        }

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("NVML", "c_nvml")):
            return getattr(pynvml, name)
        if name in self.system:
            return lambda *arguments: _give(self.system[name], *arguments)
        if name.startswith("nvmlDevice"):
            return lambda handle, *arguments: self._device(handle, name, *arguments)
        raise AttributeError(name)

    def _device(self, handle: int, name: str, *arguments: Any) -> Any:
        answers = self.devices[handle]
        if name in answers:
            return _give(answers[name], *arguments)
        if name == "nvmlDeviceGetP2PStatus":
            if arguments[1] == P2P_READ:
                return _give(self.reach.get((handle, arguments[0]), pynvml.NVML_P2P_STATUS_OK))
            return self._p2p_status(handle, arguments[0])
        if not name.startswith("nvmlDeviceGetNvLink"):
            raise refused("NOT_SUPPORTED")
        link = arguments[0]
        if link >= len(self.ends[handle]):
            raise refused("INVALID_ARGUMENT")
        peer = self.ends[handle][link]
        if name == "nvmlDeviceGetNvLinkState":
            return 1
        if name == "nvmlDeviceGetNvLinkRemoteDeviceType":
            return (
                pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH if peer is None else pynvml.NVML_NVLINK_DEVICE_TYPE_GPU
            )
        if name == "nvmlDeviceGetNvLinkRemotePciInfo":
            # What the driver says of a switch, and the case of letters it uses.
            bus = (
                "FFFFFFFF:FF:FF.0"
                if peer is None
                else self.devices[peer]["nvmlDeviceGetPciInfo"].busId.upper()
            )
            return SimpleNamespace(busId=bus)
        raise AttributeError(name)

    def _p2p_status(self, a: int, b: int) -> Any:
        if (a, b) in self.p2p:
            return _give(self.p2p[a, b])
        linked = b in self.ends[a] or (None in self.ends[a] and None in self.ends[b])
        return pynvml.NVML_P2P_STATUS_OK if linked else pynvml.NVML_P2P_STATUS_NOT_SUPPORTED


def h200(index: int = 0, **changed: Any) -> dict[str, Any]:
    """An H200 with a bus id of its own and some answers changed."""
    bus = SimpleNamespace(busId=f"00000000:0{index + 1}:00.0")
    return {**H200, "nvmlDeviceGetPciInfo": bus, **changed}


def _fill(structure: Any, **fields: Any) -> int:
    """As the driver does with a structure handed over by reference: it fills it in and says success.

    A structure handed over as it is has no ``_obj``: the real driver would crash the process.
    """
    for name, value in fields.items():
        setattr(structure._obj, name, value)
    return 0


def _give(answer: Any, *arguments: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer(*arguments) if callable(answer) else answer
