"""Where Docker and Podman keep images: the disk that an image with vLLM would fill."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

from wizard.machine.checks.subject import Probe
from wizard.machine.host import room
from wizard.machine.types import Disk

_FOLDER = "/var/lib/docker"
_CONTAINERD = "/var/lib/containerd"
_STORED_BY_CONTAINERD = "io.containerd.snapshotter"
"""In Docker's answer when containerd keeps its images (https://docs.docker.com/engine/storage/containerd)."""
_QUESTION = "{{.DockerRootDir}}|{{.DriverStatus}}|{{.SecurityOptions}}"


def image_disks(probe: Probe | None = None) -> tuple[Disk, ...]:
    """The room for images of each of the two that is installed. Needs no root: nobody looks into a folder."""
    places = _places(probe or Probe())
    disks = (room(name, folder, assumed) for name, folder, assumed in places)
    return tuple(disk for disk in disks if disk is not None)


def _places(probe: Probe) -> Iterator[tuple[str, Path, bool]]:
    """Name, folder, and whether the folder is but assumed."""
    if probe.which("docker") is not None:
        folder = _asked_docker(probe)
        yield "docker", folder or _configured_docker(probe), folder is None
    if probe.which("podman") is not None:
        folder = _configured_podman(probe)
        yield "podman", folder or _usual_podman(probe), False


def _asked_docker(probe: Probe) -> Path | None:
    """The folder its service names; None when the service does not answer this user."""
    folder, _, about = probe.run("docker", "info", "--format", _QUESTION).output.strip().partition("|")
    if not folder.startswith("/"):
        return None
    if _STORED_BY_CONTAINERD not in about or "rootless" in about:
        return Path(folder)
    named = _toml(probe, "etc/containerd/config.toml").get("root") or _CONTAINERD
    # A service without a containerd of the system runs its own, below its own folder.
    return Path(named) if isinstance(named, str) and probe.exists(named.lstrip("/")) else Path(folder)


def _configured_docker(probe: Probe) -> Path:
    try:
        settings = json.loads(probe.text("etc/docker/daemon.json") or "{}")
    except ValueError:
        settings = {}
    named = settings.get("data-root") if isinstance(settings, dict) else None
    return Path(named if isinstance(named, str) and named.startswith("/") else _FOLDER)


def _configured_podman(probe: Probe) -> Path | None:
    """The folder its settings name (containers-storage.conf(5)): one of its own for each user but root."""
    if _user_number() == 0:
        for file in ("etc/containers/storage.conf", "usr/share/containers/storage.conf"):
            if named := _setting(probe, file, "graphroot"):
                return named
        return None
    config = probe.environ.get("XDG_CONFIG_HOME") or f"{_home(probe)}/.config"
    own = _setting(probe, f"{config}/containers/storage.conf".lstrip("/"), "graphroot")
    return own or _setting(probe, "etc/containers/storage.conf", "rootless_storage_path")


def _usual_podman(probe: Probe) -> Path:
    if _user_number() == 0:
        return Path("/var/lib/containers/storage")
    data = probe.environ.get("XDG_DATA_HOME") or f"{_home(probe)}/.local/share"
    return Path(data) / "containers/storage"


def _setting(probe: Probe, file: str, key: str) -> Path | None:
    storage = _toml(probe, file).get("storage")
    named = storage.get(key) if isinstance(storage, dict) else None
    if not isinstance(named, str):
        return None
    folder = named.replace("$HOME", _home(probe)).replace("$UID", str(_user_number()))
    return Path(folder) if folder.startswith("/") else None


def _toml(probe: Probe, file: str) -> dict[str, object]:
    try:
        return tomllib.loads(probe.text(file) or "")
    except tomllib.TOMLDecodeError:
        return {}


def _home(probe: Probe) -> str:
    return probe.environ.get("HOME", "")


def _user_number() -> int:
    """0 for root; below 0 where users have no numbers."""
    return os.geteuid() if hasattr(os, "geteuid") else -1
