"""Host facts from a root folder that holds what real systems hold."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from wizard.machine import MemoryReading, host, models_folder

UBUNTU = 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\n'
GIB = 1024**3


def put(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_the_distribution_names_itself(tmp_path: Path) -> None:
    assert host.os_name(put(tmp_path, {"etc/os-release": UBUNTU})) == "Ubuntu 24.04.3 LTS"


def test_dgx_os_comes_first_on_a_dgx(tmp_path: Path) -> None:
    # As a DGX Station has it (NVIDIA/NemoClaw #7417).
    dgx = 'DGX_NAME="DGX GB300WS"\nDGX_SWBUILD_VERSION="7.6.0"\nDGX_PLATFORM="DGX Server for GALAXY-GB300"\n'
    root = put(tmp_path, {"etc/os-release": UBUNTU, "etc/dgx-release": dgx})
    assert host.os_name(root) == "DGX OS 7.6.0 (Ubuntu 24.04.3 LTS)"


def test_broken_release_files_still_give_a_name(tmp_path: Path) -> None:
    root = put(tmp_path, {"etc/os-release": 'PRETTY_NAME="unclosed\n=\n\x1b[31m\n'})
    assert host.os_name(root)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"sys_vendor": "NVIDIA\n", "product_name": "NVIDIA_DGX_Spark\n"}, "NVIDIA_DGX_Spark"),
        ({"sys_vendor": "Dell Inc.\n", "product_name": "PowerEdge XE9680\n"}, "Dell Inc. PowerEdge XE9680"),
        ({"sys_vendor": "To Be Filled By O.E.M.\n", "product_name": "System Product Name\n"}, ""),
        ({"sys_vendor": "ASUS\n", "product_name": "System Product Name\n"}, "ASUS"),
        ({}, ""),
    ],
)
def test_the_maker_is_read_from_dmi(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    put(tmp_path, {f"sys/class/dmi/id/{name}": text for name, text in files.items()})
    assert host.product(tmp_path) == expected


def test_a_board_without_dmi_is_named_by_its_device_tree(tmp_path: Path) -> None:
    root = put(tmp_path, {"proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0"})
    assert host.product(root) == "NVIDIA Jetson AGX Orin Developer Kit"


def test_containers_are_recognised(tmp_path: Path) -> None:
    assert host.container(tmp_path, {}) is None
    assert host.container(tmp_path, {"container": "lxc"}) == "lxc"
    assert host.container(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == "kubernetes"
    assert host.container(put(tmp_path / "a", {"run/.containerenv": ""}), {}) == "podman"
    assert host.container(put(tmp_path / "b", {".dockerenv": ""}), {}) == "docker"


def test_wsl_is_recognised_by_its_kernel(tmp_path: Path) -> None:
    assert not host.is_wsl(tmp_path)
    assert host.is_wsl(put(tmp_path, {"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n"}))


HOST = MemoryReading(total_mib=65536, available_mib=60000, free_mib=1000)


def test_memory_without_a_control_group_is_the_hosts(tmp_path: Path) -> None:
    assert host.within_cgroup(HOST, tmp_path) == HOST


def test_a_container_sees_only_what_its_group_allows(tmp_path: Path) -> None:
    # The group uses 6 GiB, of which 2 GiB are file cache it can give back: 8 - 4 GiB are left.
    root = put(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/memory.current": f"{6 * GIB}\n",
            "sys/fs/cgroup/memory.stat": f"anon {4 * GIB}\ninactive_file {2 * GIB}\n",
        },
    )
    limited = host.within_cgroup(HOST, root)
    assert (limited.total_mib, limited.available_mib) == (8192, 4096)


def test_the_tightest_group_above_decides(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        {
            "proc/self/cgroup": "0::/user.slice/job.scope\n",
            "sys/fs/cgroup/user.slice/memory.max": f"{4 * GIB}\n",
            "sys/fs/cgroup/user.slice/job.scope/memory.max": "max\n",
        },
    )
    assert host.within_cgroup(HOST, root).total_mib == 4096


@pytest.mark.parametrize("line", ["0::/../../elsewhere\n", "12:memory:/docker/1\n", ""])
def test_a_group_that_cannot_be_seen_is_no_limit(tmp_path: Path, line: str) -> None:
    put(tmp_path, {"proc/self/cgroup": line, "elsewhere/memory.max": "1024"})
    assert host.within_cgroup(HOST, tmp_path) == HOST


def test_memory_is_what_the_kernel_says(tmp_path: Path) -> None:
    reading = host.memory(tmp_path)
    assert reading.total_mib == psutil.virtual_memory().total // 2**20
    assert 0 < reading.available_mib <= reading.total_mib


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "~/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({"HF_HOME": "/h", "XDG_CACHE_HOME": "/c"}, "/h/hub"),
        ({"HF_HUB_CACHE": "/models", "HF_HOME": "/h"}, "/models"),
        ({"HUGGINGFACE_HUB_CACHE": "/old", "HF_HOME": "/h"}, "/old"),
    ],
)
def test_models_go_where_huggingface_hub_puts_them(environ: dict[str, str], expected: str) -> None:
    assert models_folder(environ) == Path(expected).expanduser()


def test_a_folder_that_does_not_exist_yet_has_the_room_of_its_parent(tmp_path: Path) -> None:
    models, home, *_ = host.disks({"HF_HUB_CACHE": str(tmp_path / "not" / "yet")})
    assert models.purpose == "models"
    assert models.path == str(tmp_path / "not" / "yet")
    assert models.total_gib == pytest.approx(psutil.disk_usage(str(tmp_path)).total / GIB, abs=0.1)
    assert home.purpose == "home"


def test_shared_memory_is_none_where_there_is_none(tmp_path: Path) -> None:
    assert host.shm(tmp_path) is None
