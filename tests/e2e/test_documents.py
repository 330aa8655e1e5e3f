"""Two hundred people's files, each read by the real opencode after our block went in."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from realkit import RealKit
from serving import free_port

from tests.property.people import Layout, any_document
from wizard.budget import limits
from wizard.opencode import (
    ConfigRequest,
    OpencodeChange,
    opencode_version,
    plan_change,
    target_file,
    write_change,
)

DOCUMENTS = 200
SEED = 20261130
START_SECONDS = 120
REQUEST = ConfigRequest(
    provider_name="Local vLLM",
    base_url="http://127.0.0.1:8000/v1",
    model_key="qwen3-coder",
    model_name="Qwen3 Coder",
    limits=limits(65536),
)
WISHES: list[dict[str, Any]] = [
    {},
    {"globals": True, "api_key_env": "HOUSE_KEY"},
    {"globals": True, "private": True},
    {"reasoning": True, "interleaved": "reasoning"},
    {"model_key": "/srv/models/Qwen3 Coder#fp8", "base_url": "http://10.0.0.7:8001/v1"},
    {"denied_tools": ("webfetch", "websearch", "task"), "limits": limits(16384, trim_tools=True)},
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the one opencode."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def client(realkit: RealKit, home: Path) -> Iterator[httpx.Client]:
    """One opencode for many folders: it reads the configuration of whichever folder a request names."""
    command = [str(realkit.opencode), "serve", "--hostname", "127.0.0.1", "--port", str(free_port())]
    variables = {"HOME": str(home), "PATH": os.environ["PATH"], "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    process = subprocess.Popen(
        command,
        cwd=home,
        env=variables | {"ANTHROPIC_API_KEY": "k", "HOUSE_KEY": "k"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    overdue = threading.Timer(START_SECONDS, process.kill)
    overdue.start()
    try:
        assert process.stdout is not None
        found = next(filter(None, (re.search(r"http://127\S+", line) for line in process.stdout)))
        overdue.cancel()
        with httpx.Client(base_url=found.group(), trust_env=False, timeout=60) as client:
            yield client
    finally:
        overdue.cancel()
        process.kill()
        process.communicate()


def read(client: httpx.Client, folder: Path) -> httpx.Response:
    """What opencode makes of a folder: its merged configuration, or status 400 for a file it refuses."""
    return client.get("/config", params={"directory": str(folder)})


def configured(folder: Path, home: Path, request: ConfigRequest) -> OpencodeChange:
    """Our block in the file of a project."""
    environ = {"HOME": str(home)}
    target = target_file(project=folder, environ=environ)
    return write_change(plan_change(request, target, environ=environ, cwd=folder))


def assert_holds(merged: object, part: object, place: str) -> None:
    """Everything in ``part`` is in what opencode made of the file, but for keys: it covers them."""
    if isinstance(part, Mapping):
        assert isinstance(merged, Mapping), place
        for key, value in part.items():
            if key != "apiKey":
                assert key in merged, f"{place}.{key}"
                assert_holds(merged[key], value, f"{place}.{key}")
    else:
        assert merged == part, place


def test_every_file_is_read_as_it_is_meant(
    realkit: RealKit, client: httpx.Client, home: Path, tmp_path: Path
) -> None:
    version = opencode_version(str(realkit.opencode))
    chance = random.Random(SEED)
    seen: Counter[str] = Counter()
    for number in range(DOCUMENTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        document, layout = any_document(chance), Layout(chance)
        file = folder / ("opencode.jsonc" if number % 2 else "opencode.json")
        file.write_bytes(layout.document(document).encode())
        wishes = WISHES[number % len(WISHES)]
        request = msgspec.structs.replace(REQUEST, opencode_version=version, **wishes)
        done = configured(folder, home, request)
        answer = read(client, folder)
        assert answer.status_code == 200, (answer.text[:300], file.read_text())
        assert_holds(answer.json(), done.settings, "")
        assert set(document) <= set(answer.json())
        seen.update(layout.seen.keys())
    assert seen["CRLF with mark"] >= 10
    assert seen["// after :"] >= 10


def test_what_is_broken_is_refused(client: httpx.Client, tmp_path: Path) -> None:
    """The control: this way of asking does tell a file that opencode does not read."""
    good = json.dumps({"provider": {"vllm": {"models": {"m": {"limit": {"context": 9, "output": 1}}}}}})
    broken = {
        "syntax": good[:-1],
        "kind": good.replace("9", '"9"'),
        "missing": good.replace('"context": 9, ', ""),
        "good": good,
    }
    for name, text in broken.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "opencode.json").write_text(text)
        assert read(client, folder).status_code == (200 if name == "good" else 400), name
