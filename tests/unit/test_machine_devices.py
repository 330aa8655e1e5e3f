"""Reading GPUs through a pynvml that behaves in every way a driver has been seen to behave."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fake_pynvml import MIB, FakeNvml, h200, refused

from wizard.machine import NvmlReading
from wizard.machine.devices import snapshots


def last(nvml: FakeNvml) -> NvmlReading:
    return list(snapshots(nvml))[-1]


def test_an_h200_reads_as_recorded() -> None:
    reading = last(FakeNvml([h200(nvmlDeviceGetPciInfo=SimpleNamespace(busId=b"00000000:00:06.0"))]))
    assert (reading.driver, reading.cuda, reading.problems) == ("580.159.04", "13.0", ())
    (gpu,) = reading.gpus
    assert gpu.name == "NVIDIA H200"
    assert gpu.compute_capability == "9.0"
    assert (gpu.memory_mib, gpu.memory_free_mib) == (143771, 143155)
    assert gpu.bus_id == "00000000:00:06.0"
    assert (gpu.power_limit_w, gpu.display_active, gpu.mig) == (700.0, False, False)
    assert (gpu.links, gpu.processes, gpu.errors) == ({}, (), {})


def test_cuda_12_8_keeps_its_minor_version() -> None:
    assert last(FakeNvml([h200()], nvmlSystemGetCudaDriverVersion=12080)).cuda == "12.8"


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        ("LIBRARY_NOT_FOUND", "nvml-library-not-found"),
        ("DRIVER_NOT_LOADED", "nvml-driver-not-loaded"),
        ("LIB_RM_VERSION_MISMATCH", "nvml-driver-mismatch"),
        ("NO_PERMISSION", "nvml-no-permission"),
        ("UNKNOWN", "nvml-unknown"),
        ("GPU_IS_LOST", "nvml-unknown"),
    ],
)
def test_failures_to_start_nvml_are_told_apart(error: str, problem: str) -> None:
    assert last(FakeNvml([h200()], nvmlInit=refused(error))) == NvmlReading(problems=(problem,))


def test_no_devices_is_a_problem_of_its_own() -> None:
    reading = last(FakeNvml([]))
    assert (reading.driver, reading.gpus, reading.problems) == ("580.159.04", (), ("nvml-no-devices",))


def test_a_count_that_fails_keeps_the_driver() -> None:
    reading = last(FakeNvml([], nvmlDeviceGetCount=refused("UNKNOWN")))
    assert (reading.driver, reading.problems) == ("580.159.04", ("nvml-unknown",))


def test_a_lost_gpu_hides_no_other() -> None:
    def handle(index: int) -> int:
        if index == 1:
            raise refused("GPU_IS_LOST")
        return index

    nvml = FakeNvml(
        [h200(index) for index in range(3)], switched={0: 18, 2: 18}, nvmlDeviceGetHandleByIndex=handle
    )
    first, lost, third = last(nvml).gpus
    assert lost.errors == {"device": "GpuIsLost"}
    assert (first.memory_mib, third.memory_mib) == (143771, 143771)
    assert (first.links, lost.links, third.links) == ({"2": 18}, {}, {"0": 18})


QUESTIONS = {
    "nvmlDeviceGetName": ("name", ""),
    "nvmlDeviceGetUUID": ("uuid", ""),
    "nvmlDeviceGetPciInfo": ("bus_id", ""),
    "nvmlDeviceGetCudaComputeCapability": ("compute_capability", None),
    "nvmlDeviceGetMemoryInfo": ("memory_mib", None),
    "nvmlDeviceGetDisplayActive": ("display_active", None),
    "nvmlDeviceGetEnforcedPowerLimit": ("power_limit_w", None),
    "nvmlDeviceGetMigMode": ("mig", False),
    "nvmlDeviceGetComputeRunningProcesses": ("processes", ()),
}


@pytest.mark.parametrize("function", QUESTIONS)
@pytest.mark.parametrize(
    ("error", "name"),
    [
        (refused("NOT_SUPPORTED"), "NotSupported"),
        (refused("NO_PERMISSION"), "NoPermission"),
        (AttributeError("an older binding"), "FunctionNotFound"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "UnicodeDecodeError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refused_question_leaves_only_its_own_field_open(
    function: str, error: Exception, name: str
) -> None:
    whole = last(FakeNvml([h200()])).gpus[0]
    (gpu,) = last(FakeNvml([h200(**{function: error})])).gpus
    field, empty = QUESTIONS[function]
    assert gpu.errors == {field: name}
    assert getattr(gpu, field) == empty
    others = {known for known, _ in QUESTIONS.values()} - {field}
    assert all(getattr(gpu, other) == getattr(whole, other) for other in others)


def test_an_error_the_binding_cannot_name_keeps_its_number() -> None:
    import pynvml

    (gpu,) = last(FakeNvml([h200(nvmlDeviceGetName=pynvml.NVMLError(4711))])).gpus
    assert gpu.errors == {"name": "Error4711"}


def test_processes_have_names_where_the_driver_tells() -> None:
    running = [
        SimpleNamespace(pid=7, usedGpuMemory=512 * MIB),
        SimpleNamespace(pid=8, usedGpuMemory=None),
    ]
    device = h200(nvmlDeviceGetComputeRunningProcesses=running)
    first, second = last(FakeNvml([device])).gpus[0].processes
    assert (first.pid, first.name, first.used_mib) == (7, "program-7", 512)
    assert second.used_mib is None
    hidden = last(FakeNvml([device], nvmlSystemGetProcessName=refused("NOT_FOUND"))).gpus[0].processes
    assert [process.name for process in hidden] == ["", ""]


def test_names_in_bytes_and_with_control_characters_become_one_line() -> None:
    (gpu,) = last(FakeNvml([h200(nvmlDeviceGetName=b"NVIDIA\x1b[31m H\n200\xff")])).gpus
    assert gpu.name == "NVIDIA H 200\N{REPLACEMENT CHARACTER}"


def test_two_gpus_behind_a_switch_are_linked_by_all_their_links() -> None:
    # As nvidia-smi topo -m shows two H200 of an HGX board: NV18.
    one, two = last(FakeNvml([h200(0), h200(1)], switched={0: 18, 1: 18})).gpus
    assert (one.links, two.links) == ({"1": 18}, {"0": 18})


def test_direct_links_are_counted_by_peer() -> None:
    nvml = FakeNvml([h200(index) for index in range(3)], links={(0, 1): 2, (1, 2): 6})
    assert [gpu.links for gpu in last(nvml).gpus] == [{"1": 2}, {"0": 2, "2": 6}, {"1": 6}]
    assert [gpu.errors for gpu in last(nvml).gpus] == [{}, {}, {}]


def test_links_the_driver_has_switched_off_do_not_count() -> None:
    import pynvml

    disabled = {(0, 1): pynvml.NVML_P2P_STATUS_DISABLED_BY_REGKEY}
    assert last(FakeNvml([h200(0), h200(1)], links={(0, 1): 4}, p2p=disabled)).gpus[0].links == {}


def test_without_a_peer_status_the_count_decides() -> None:
    gpus = last(FakeNvml([h200(0), h200(1)], links={(0, 1): 4}, p2p={(0, 1): refused("UNKNOWN")})).gpus
    assert [gpu.links for gpu in gpus] == [{"1": 4}, {"0": 4}]


def test_a_linked_pair_whose_links_cannot_be_counted_has_one() -> None:
    import pynvml

    uncountable = {"nvmlDeviceGetNvLinkState": refused("NOT_SUPPORTED")}
    nvml = FakeNvml([h200(0, **uncountable), h200(1, **uncountable)], p2p={(0, 1): pynvml.NVML_P2P_STATUS_OK})
    gpus = last(nvml).gpus
    assert [gpu.links for gpu in gpus] == [{"1": 1}, {"0": 1}]
    assert gpus[0].errors == {"links": "NotSupported"}


def test_until_the_links_are_asked_for_they_are_unread() -> None:
    before, after = [], []
    for snapshot in snapshots(FakeNvml([h200(0), h200(1)], switched={0: 18, 1: 18})):
        (after if snapshot.gpus[1].links else before).append(snapshot)
    assert {gpu.unread for snapshot in before for gpu in snapshot.gpus if gpu.name} == {("links",)}
    assert {gpu.unread for snapshot in after for gpu in snapshot.gpus} == {()}
    assert last(FakeNvml([h200()])).gpus[0].unread == ()


@pytest.mark.parametrize(("error", "unread"), [("UNKNOWN", ("links",)), ("NOT_SUPPORTED", ())])
def test_links_that_neither_question_tells_are_unread(error: str, unread: tuple[str, ...]) -> None:
    uncountable = {"nvmlDeviceGetNvLinkState": refused(error)}
    devices = [h200(0, **uncountable), h200(1, **uncountable)]
    gpus = last(FakeNvml(devices, p2p={(0, 1): refused("UNKNOWN")})).gpus
    assert [gpu.unread for gpu in gpus] == [unread, unread]


def test_programs_that_may_not_be_listed_are_unread() -> None:
    refusing = h200(nvmlDeviceGetComputeRunningProcesses=refused("NO_PERMISSION"))
    assert last(FakeNvml([refusing])).gpus[0].unread == ("processes",)


def test_more_gpus_than_any_machine_had_so_far_are_all_read() -> None:
    reading = last(FakeNvml([h200(index) for index in range(40)], switched=dict.fromkeys(range(40), 18)))
    assert [len(gpu.links) for gpu in reading.gpus] == [39] * 40


def test_a_gpu_lost_while_links_are_read_is_asked_no_further() -> None:
    asked: list[int] = []

    def lost(link: int) -> int:
        asked.append(link)
        raise refused("GPU_IS_LOST")

    gpus = last(FakeNvml([h200(0, nvmlDeviceGetNvLinkState=lost), h200(1)], switched={1: 18})).gpus
    assert asked == [0]
    assert gpus[0].errors == {"links": "GpuIsLost"}
    assert gpus[1].errors == {}


def test_an_idle_link_is_none() -> None:
    idle = h200(0, nvmlDeviceGetNvLinkState=lambda link: 0)
    assert last(FakeNvml([idle, h200(1)], switched={1: 18})).gpus[0].links == {}


def test_each_snapshot_names_every_gpu_and_the_unread_ones_as_such() -> None:
    first, *_, final = snapshots(FakeNvml([h200(0), h200(1)]))
    assert [gpu.errors for gpu in first.gpus] == [{"device": "NoAnswer"}, {"device": "NoAnswer"}]
    assert [gpu.name for gpu in final.gpus] == ["NVIDIA H200", "NVIDIA H200"]
