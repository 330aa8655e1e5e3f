"""The privacy switch with the real opencode, behind a proxy that records whom it would contact."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from outside import outside
from realkit import RealKit
from strict_server import strict_server

from wizard.budget import limits
from wizard.opencode import (
    ConfigRequest,
    OpencodeChange,
    opencode_version,
    plan_change,
    target_file,
    write_change,
)

RUN_SECONDS = 180


def configured(kit: RealKit, home: Path, base_url: str, *, private: bool) -> OpencodeChange:
    """opencode on the path of a new home, and its configuration."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "opencode").symlink_to(kit.opencode)
    (home / "work").mkdir()
    request = ConfigRequest(
        provider_name="Local vLLM",
        base_url=base_url,
        model_key="qwen3-coder",
        model_name="Qwen3 Coder",
        limits=limits(65536),
        globals=True,
        private=private,
        opencode_version=opencode_version(str(kit.opencode)),
    )
    environ = {"HOME": str(home)}
    return write_change(plan_change(request, target_file(environ=environ), environ=environ, cwd=home))


def contacted(change: OpencodeChange, home: Path, variables: Mapping[str, str]) -> set[str]:
    """Do a small job as the wizard tells a person to start it: who was asked outside."""
    words = [*change.command.split(), "Write the text 'hi' into the file 'hi.txt'."]
    with outside() as beyond:
        done = subprocess.run(
            [words[0], "run", *words[1:]],
            cwd=home / "work",
            env={"HOME": str(home), **beyond.environ(), **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert (home / "work" / "hi.txt").read_text() == "hi"
        return set(beyond.hosts)


def test_nobody_but_our_server_is_contacted(realkit: RealKit, tmp_path: Path) -> None:
    found = {}
    for private in (True, False):
        home = tmp_path / str(private)
        job = (("write", {"filePath": str(home / "work" / "hi.txt"), "content": "hi"}),)
        with strict_server(65536, job) as server:
            change = configured(realkit, home, server.base_url, private=private)
            variables = {"PATH": f"{home}/bin:{os.environ['PATH']}"}
            found[private] = contacted(change, home, variables)
            assert server.main == 2
    assert found[True] == set()
    # The control: the proxy does see what opencode does on its own.
    assert "models.opencode.ai" in found[False]


def test_what_cannot_be_kept_away_is_named(realkit: RealKit, tmp_path: Path) -> None:
    """A lock file of the user's own stays; then the wizard says what opencode will contact."""
    folder = tmp_path / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "package-lock.json").write_text('{"packages": {"": {"dependencies": {}}}}')
    job = (("write", {"filePath": str(tmp_path / "work" / "hi.txt"), "content": "hi"}),)
    with strict_server(65536, job) as server:
        change = configured(realkit, tmp_path, server.base_url, private=True)
        hosts = contacted(change, tmp_path, {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    assert len(hosts) == 1
    assert any("The npm registry" in text and str(folder) in text for text in change.contacts)
