"""A home of its own for one installation by the wizard."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from realkit import RealKit
from serving import free_port, vllm_variables

SETUP_SECONDS = 420.0
PROJECT = Path(__file__).parents[2]


class Site:
    """A home of its own for one installation, and the wizard run in it."""

    def __init__(
        self,
        folder: Path,
        kit: RealKit,
        checkpoint: Path,
        parser: str,
        *,
        extra: tuple[str, ...] = (),
        proof: bool = True,
    ) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.port = free_port()
        self.name = f"tiny-{checkpoint.name}-{self.port}"
        self.answers = folder / "answers.toml"
        self.answers.write_text(
            f"""
[runtime]
kind = "command"
command = [{json.dumps(str(kit.vllm))}]
env = {{ {", ".join(f"{name} = {json.dumps(value)}" for name, value in vllm_variables().items())} }}

[model]
id = "tiny/{checkpoint.name}"
path = {json.dumps(str(checkpoint))}
served_name = {json.dumps(self.name)}
parser = {json.dumps(parser)}

[budget]
max_model_len = 32768

[serve]
port = {self.port}
extra_args = {json.dumps(["--enforce-eager", *extra])}
timeout_s = 300

[opencode]
binary = {json.dumps(str(kit.opencode))}
proof = {json.dumps(proof)}
""",
            encoding="utf-8",
        )

    @property
    def config(self) -> Path:
        return self.home / ".config" / "opencode" / "opencode.json"

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def environment(self) -> dict[str, str]:
        """What the wizard is started with: nothing of this account but where programs are."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return kept | {"HOME": str(self.home)}

    def wizard(self, *words: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "wizard", *words],
            env=self.environment,
            cwd=PROJECT,
            input=typed or "",
            capture_output=True,
            text=True,
            timeout=SETUP_SECONDS,
            check=False,
        )

    def setup(self) -> tuple[int, list[dict[str, Any]], str]:
        """Exit code, events and standard error of the headless chain."""
        done = self.wizard("setup", "--answers", str(self.answers), "--yes", "--json")
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
