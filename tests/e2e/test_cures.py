"""The failures people really have, made with a real vLLM: named from its own output, cured, started to green.

Two set-ups, each with several faults one after the other, so that few starts are needed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from realkit import RealKit
from serving import ADD_TOOL
from site_folder import PROJECT, SETUP_SECONDS, Site

Events = list[dict[str, Any]]


@dataclass
class Cured:
    """A set-up that was left to cure itself."""

    site: Site
    code: int = -1
    events: Events = field(default_factory=list)
    errors: str = ""

    @property
    def cures(self) -> Events:
        return [event for event in self.events if event["event"] == "cure"]

    @property
    def argv(self) -> list[str]:
        """The command of the server that runs in the end, as the system knows it."""
        record = sorted(self.site.home.rglob("run.json"))[-1]
        return psutil.Process(json.loads(record.read_text(encoding="utf-8"))["pid"]).cmdline()


def run(site: Site, meddle: Callable[[Site, dict[str, Any]], None]) -> Cured:
    """``setup --cure``, and somebody who gets in its way: ``meddle`` sees each event as it comes."""
    done = Cured(site)
    words = ["setup", "--answers", str(site.answers), "--yes", "--json", "-v", "--cure"]
    with subprocess.Popen(
        [sys.executable, "-m", "wizard", *words],
        env=site.environment,
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        deadline = threading.Timer(2 * SETUP_SECONDS, process.kill)
        deadline.start()
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                done.events.append(json.loads(line))
                meddle(site, done.events[-1])
            else:
                done.errors += line
        done.code = process.wait()
        deadline.cancel()
    return done


def taking_the_port(holder: socket.socket) -> Callable[[Site, dict[str, Any]], None]:
    """Once the window is cured, another program is faster: it listens on the port before vLLM does."""
    armed = []

    def meddle(site: Site, event: dict[str, Any]) -> None:
        if event["event"] == "cure" and event["fault"] == "window-over-model":
            armed.append(True)
        elif armed and event["event"] == "log":
            holder.bind(("127.0.0.1", site.port))
            holder.listen()
            armed.clear()

    return meddle


def killing_the_engine() -> Callable[[Site, dict[str, Any]], None]:
    """The first engine is killed as the kernel does it when memory is short, while it loads the weights."""
    killed = []

    def meddle(site: Site, event: dict[str, Any]) -> None:
        if killed or event["event"] != "log":
            return
        engine = re.search(r"\(EngineCore(?:_\S+)? pid=(\d+)\)", event["text"])
        if engine is not None:
            killed.append(int(engine[1]))
            os.kill(killed[0], signal.SIGKILL)

    return meddle


@pytest.fixture(scope="module")
def windowed(
    realkit: RealKit, checkpoints: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cured]:
    """A long window, then a taken port, then missing tool calls."""
    site = Site(
        tmp_path_factory.mktemp("window"),
        realkit,
        checkpoints / "hermes",
        "hermes",
        extra=("--max-model-len", "4000000", "--no-enable-auto-tool-choice"),
        proof=False,
    )
    with socket.socket() as holder:
        yield run(site, taking_the_port(holder))
    site.wizard("stop")


@pytest.fixture(scope="module")
def parsed(realkit: RealKit, checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cured]:
    """A killed engine, then a wrong parser."""
    folder = tmp_path_factory.mktemp("parser")
    site = Site(folder, realkit, checkpoints / "hermes", "qwen3_coder", proof=False)
    yield run(site, killing_the_engine())
    site.wizard("stop")


@pytest.mark.xdist_group("cures-window")
def test_a_long_window_a_taken_port_and_missing_tool_calls(windowed: Cured) -> None:
    done = windowed
    assert done.code == 0, done.errors
    assert [cure["fault"] for cure in done.cures] == ["window-over-model", "port-in-use", "tool-choice-off"]
    assert done.events[-1]["receipt"]["results"]["smoke"] == "pass"
    assert f"--port {done.site.port + 1}" in " ".join(done.argv)
    assert "--no-enable-auto-tool-choice" not in done.argv
    assert "--enable-auto-tool-choice" in done.argv
    # The window is the one that vLLM itself named in its refusal.
    said = next(
        event["text"] for event in done.events if "is greater than the derived" in event.get("text", "")
    )
    limit = re.search(r"max_position_embeddings=(\d+)", said)
    assert limit is not None
    assert done.argv[done.argv.index("--max-model-len") + 1] == limit[1]


@pytest.mark.xdist_group("cures-parser")
def test_a_killed_engine_and_a_wrong_parser(parsed: Cured) -> None:
    done = parsed
    assert done.code == 0, done.errors
    assert len(done.cures) == 2
    assert done.cures[0]["fault"] in ("killed", "engine-died")
    assert done.cures[0]["difference"] == []
    assert done.cures[1]["difference"] == ["- --tool-call-parser qwen3_coder", "+ --tool-call-parser hermes"]
    assert done.events[-1]["receipt"]["results"]["smoke"] == "pass"
    assert done.argv[done.argv.index("--tool-call-parser") + 1] == "hermes"
    # Asked past the wizard: the server returns a call.
    question = {"role": "user", "content": "Use the add tool to add 17 and 25."}
    asked = {"model": done.site.name, "messages": [question], "tools": [ADD_TOOL]}
    answer = httpx.post(f"{done.site.base_url}/chat/completions", json=asked, trust_env=False, timeout=60)
    (call,) = answer.json()["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"a": 17, "b": 25}


@pytest.mark.xdist_group("cures-window")
def test_a_finding_is_told_before_vllm_has_ended(windowed: Cured) -> None:
    told = [event["event"] for event in windowed.events]
    assert told.index("finding") < told.index("exited")


@pytest.mark.xdist_group("cures-parser")
def test_a_name_that_is_not_served_is_named_with_the_one_that_is(parsed: Cured) -> None:
    done = parsed
    url = f"{done.site.base_url}/chat/completions"
    asked = {"model": "tiny-typo", "messages": [{"role": "user", "content": "Hello"}]}
    answer = httpx.post(url, json=asked, trust_env=False, timeout=30)
    assert answer.status_code == 404
    found = done.site.wizard("diagnose", "-", "--json", typed=answer.text)
    assert found.returncode == 1
    first = json.loads(found.stdout)["findings"][0]
    assert first["fault"] == "served-name-unknown"
    cured = done.site.wizard("smoke", "--base-url", done.site.base_url, "--json")
    assert json.loads(cured.stdout)["verdict"] == "pass"
