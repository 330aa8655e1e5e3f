"""Starts the real programs: a vLLM server on a free port, opencode in a home of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
from realkit import RealKit, cache_folder

START_SECONDS = 240.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.3
OPENCODE_SECONDS = 180.0

ADD_TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
}


@dataclass(frozen=True)
class Pairing:
    """A checkpoint, by its wire format, and the parsers of the server that serves it."""

    wire_format: str
    parser: str
    reasoning_parser: str = ""

    def __str__(self) -> str:
        return f"{self.wire_format}-{self.parser}"

    @property
    def flags(self) -> tuple[str, ...]:
        thinking = ("--reasoning-parser", self.reasoning_parser) if self.reasoning_parser else ()
        return ("--enable-auto-tool-choice", "--tool-call-parser", self.parser, *thinking)


HERMES = Pairing("hermes", "hermes")
QWEN3_CODER = Pairing("qwen3_coder", "qwen3_coder")
THINK_HERMES = Pairing("think_hermes", "hermes", "qwen3")
UNREADABLE = Pairing("tools_tag", "hermes")
"""No parser of vLLM reads this format."""
WRONG_PARSER = Pairing("qwen3_coder", "hermes")


@dataclass(frozen=True)
class RunningServer:
    """A vLLM that answers."""

    base_url: str
    """With `/v1` at its end, as opencode wants it."""
    name: str
    log: Path


def free_port() -> int:
    """A TCP port of the loopback address that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def vllm_variables() -> dict[str, str]:
    """What a small CPU server needs: no network, no reports, 1 GiB of KV cache.

    And a place in the kit for what vLLM learns of a model class, which takes it 10 seconds in a new home.
    """
    return {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(cache_folder() / "vllm-found"),
    }


def vllm_environment() -> dict[str, str]:
    """This environment with the variables of a small server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
    return kept | vllm_variables()


@contextmanager
def vllm_server(
    kit: RealKit, checkpoint: Path, name: str, flags: Sequence[str], log: Path
) -> Iterator[RunningServer]:
    """Serves a checkpoint under `name` with a window of 32,768 tokens; some 25 seconds to the first answer.

    Raises AssertionError with the log's end if the server ends or is not ready within four minutes.
    """
    port = free_port()
    command = [str(kit.vllm), "serve", str(checkpoint), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--served-model-name", name, "--max-model-len", "32768", "--enforce-eager", *flags]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=vllm_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _await_health(process, f"http://127.0.0.1:{port}/health", log)
            yield RunningServer(f"http://127.0.0.1:{port}/v1", name, log)
        finally:
            _stop(process)


def _await_health(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    with httpx.Client(trust_env=False, timeout=5) as client:
        while time.monotonic() < deadline:
            with suppress(httpx.TransportError):
                if client.get(url).is_success:
                    return
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL_SECONDS)
                break
    raise AssertionError(
        f"vLLM is not ready (exit code {process.poll()}):\n{log.read_text(errors='replace')[-3000:]}"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the server as an operator would, then whatever of its engine processes is left."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(STOP_SECONDS)


def opencode_environment(home: Path) -> dict[str, str]:
    """An environment in which opencode knows nothing of this account and asks nothing of the network."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "NO_PROXY": "127.0.0.1,localhost",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
    }


def run_opencode(
    kit: RealKit, home: Path, work: Path, model: str, prompt: str
) -> subprocess.CompletedProcess[str]:
    """One `opencode run` in the folder `work`; its events, a JSON document a line, are on stdout."""
    return subprocess.run(
        [str(kit.opencode), "run", "--format", "json", "-m", model, prompt],
        cwd=work,
        env=opencode_environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=OPENCODE_SECONDS,
        check=False,
    )
