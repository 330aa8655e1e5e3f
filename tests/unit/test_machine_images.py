"""Where Docker and Podman keep images: asked, read from settings, or by custom; never looked into."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from wizard.child import Outcome
from wizard.machine.checks.subject import Probe
from wizard.machine.images import image_disks

# What `docker info --format` prints for the three fields: an old store, and the one of Docker 29.
GRAPH = "/var/lib/docker|[[Backing Filesystem extfs] [Supports d_type true]]|[name=apparmor name=cgroupns]"
SNAPSHOTTER = "{root}|[[driver-type io.containerd.snapshotter.v1]]|[name=apparmor{more}]"
NO_SERVICE = Outcome(1, "|[]|[]\n", "Cannot connect to the Docker daemon. Is the docker daemon running?")


class Host(Probe, frozen=True, kw_only=True):
    """A host with these programs, each with one answer."""

    programs: Mapping[str, Outcome | str] = {}

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.programs else None

    def run(self, *argv: str) -> Outcome:
        answer = self.programs[argv[0]]
        return Outcome(0, answer, "") if isinstance(answer, str) else answer


def found(root: Path, programs: Any, files: Any = None, **environ: str) -> list[tuple[str, str, bool]]:
    for name, content in (files or {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    disks = image_disks(Host(root=root, environ={"HOME": "/home/me", **environ}, programs=programs))
    assert all(disk.total_gib > 0 for disk in disks)
    return [(disk.purpose, disk.path, disk.assumed) for disk in disks]


CONTAINERD = {"var/lib/containerd/x": ""}


@pytest.mark.parametrize(
    ("answer", "files", "path", "assumed"),
    [
        (GRAPH, {}, "/var/lib/docker", False),
        (GRAPH.replace("/var/lib", "/big"), CONTAINERD, "/big/docker", False),
        (SNAPSHOTTER.format(root="/var/lib/docker", more=""), CONTAINERD, "/var/lib/containerd", False),
        (
            SNAPSHOTTER.format(root="/var/lib/docker", more=""),
            {"etc/containerd/config.toml": 'root = "/big/containerd"', "big/containerd/x": ""},
            "/big/containerd",
            False,
        ),
        # A containerd of Docker's own, and one without root, keep their files below Docker's folder.
        (SNAPSHOTTER.format(root="/opt/docker", more=""), {}, "/opt/docker", False),
        (
            SNAPSHOTTER.format(root="/home/me/.local/share/docker", more=" name=rootless"),
            CONTAINERD,
            "/home/me/.local/share/docker",
            False,
        ),
        (NO_SERVICE, {}, "/var/lib/docker", True),
        (NO_SERVICE, {"etc/docker/daemon.json": '{"data-root": "/big/docker"}'}, "/big/docker", True),
        (NO_SERVICE, {"etc/docker/daemon.json": "not json"}, "/var/lib/docker", True),
        (NO_SERVICE, {"etc/docker/daemon.json": '["odd"]'}, "/var/lib/docker", True),
        (Outcome(None, "", "", "It did not answer within 4 seconds."), {}, "/var/lib/docker", True),
    ],
)
def test_docker(tmp_path: Path, answer: Any, files: Any, path: str, assumed: bool) -> None:
    assert found(tmp_path, {"docker": answer}, files) == [("docker", path, assumed)]


STORAGE = '[storage]\ndriver = "overlay"\ngraphroot = "{0}"\nrootless_storage_path = "{1}"\n'


@pytest.mark.parametrize(
    ("user", "files", "path"),
    [
        (0, {}, "/var/lib/containers/storage"),
        (0, {"usr/share/containers/storage.conf": STORAGE.format("/a", "/b")}, "/a"),
        (1000, {}, "/home/me/.local/share/containers/storage"),
        (1000, {"etc/containers/storage.conf": STORAGE.format("/a", "/big/$UID")}, "/big/1000"),
        (1000, {"home/me/.config/containers/storage.conf": STORAGE.format("$HOME/x", "/b")}, "/home/me/x"),
        (1000, {"etc/containers/storage.conf": "not = = toml"}, "/home/me/.local/share/containers/storage"),
        (1000, {"etc/containers/storage.conf": "storage = 1"}, "/home/me/.local/share/containers/storage"),
    ],
)
def test_podman(tmp_path: Path, user: int, files: Any, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert found(tmp_path, {"podman": ""}, files) == [("podman", path, False)]


def test_neither_is_no_disk(tmp_path: Path) -> None:
    assert found(tmp_path, {}) == []
