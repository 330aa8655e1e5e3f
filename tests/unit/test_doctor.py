"""The doctor: each thing that is wrong with a set-up is found, once; a set-up that works is all well."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from answering import Answer, answering
from standin import TOOLS, serving

from wizard.cli import main
from wizard.flow import answers_from
from wizard.flow.examine import examine
from wizard.flow.journey import Journey
from wizard.runtime import Runtime

MODELS = Answer(json.dumps({"data": [{"id": "coder", "owned_by": "vllm", "max_model_len": 65536}]}))
ROUTES = {"/v1/models": MODELS, "/version": Answer('{"version": "0.32.0"}')}
LIMIT = {"context": 49152, "output": 8192}

Doctor = Callable[..., dict[str, tuple[str, str]]]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes an opencode that only tells its version the one on PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def make(version: str) -> None:
        file = folder / "opencode"
        file.write_text(f"#!/bin/sh\necho {version}\n")
        file.chmod(0o755)

    make("1.18.33")
    return make


@pytest.fixture
def doctor(program: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Doctor:
    """What the doctor says beyond the host: status and text of each check that is not well."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules["wizard.flow.examine"], "USUAL_URL", "http://127.0.0.1:9/v1")

    def ask(well: bool = False, **start: object) -> dict[str, tuple[str, str]]:
        journey = Journey(
            answers=answers_from({"start": start}, "test"),
            runtime=Runtime(kind="venv", path="/opt/vllm", command=("/opt/vllm/bin/vllm",), version="0.32.0"),
        )
        checks = examine(journey)
        assert len({check.id for check in checks}) == len(checks), "each finding is told once"
        return {
            check.id: (check.status, f"{check.detail} {check.hint} {check.command}")
            for check in checks
            if well or check.status in ("warn", "fail")
        }

    return ask


def configure(home: Path, url: str, **changes: Any) -> dict[str, Any]:
    """Write the configuration a healthy set-up has, with changes of its provider block."""
    block: dict[str, Any] = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": url},
        "models": {"coder": {"tool_call": True, "limit": LIMIT}},
    }
    document = {"provider": {"vllm": block | changes}}
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "opencode.json").write_text(json.dumps(document))
    return document


@pytest.fixture
def address() -> Iterator[str]:
    with answering(ROUTES) as (root, _asked):
        yield f"{root}/v1"


def test_a_healthy_set_up_is_all_well(own_home: Path, address: str, doctor: Doctor) -> None:
    configure(own_home, address)
    assert doctor() == {}
    told = doctor(well=True)
    assert {name: status for name, (status, _text) in told.items()} == {
        "runtime": "ok",
        "server": "ok",
        "server-command": "skip",
        "opencode": "ok",
        "opencode-address:vllm": "ok",
        "opencode-config:vllm/coder": "ok",
    }


def test_the_file_the_rehearsed_chain_writes_is_all_well(
    own_home: Path, doctor: Doctor, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # The program of these tests only tells its version: it must not be asked what it makes of the file.
    (tmp_path / "programs" / "opencode").unlink()
    with serving(*TOOLS, "--served-model-name", "coder", "--max-model-len", "65536") as (root, _standin):
        assert main(["configure", "--base-url", f"{root}/v1", "--globals", "yes", "--yes"]) == 0
        assert set(doctor()) == {"opencode"}, "it is not installed, and nothing else is amiss"
    capfd.readouterr()


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        ({"models": {"other": {"limit": LIMIT}}}, "opencode-config:vllm/other", "coder"),
        (
            {"models": {"coder": {"limit": {"context": 131072, "output": 8192}}}},
            "opencode-config:vllm/coder",
            "65536",
        ),
        (
            {"models": {"coder": {"limit": {"context": 32768, "output": 32768}}}},
            "opencode-config:vllm/coder",
            "",
        ),
    ],
    ids=["key", "window", "output"],
)
def test_a_model_that_does_not_fit_the_server(
    own_home: Path, address: str, doctor: Doctor, changes: dict[str, Any], check: str, words: str
) -> None:
    configure(own_home, address, **changes)
    ((id, (status, text)),) = doctor().items()
    assert (id, status) == (check, "fail")
    assert words in text
    assert "vllm-opencode configure" in text


def test_an_address_without_v1(own_home: Path, address: str, doctor: Doctor) -> None:
    configure(own_home, address.removesuffix("/v1"))
    ((id, (status, text)),) = doctor().items()
    assert (id, status) == ("opencode-address:vllm", "fail")
    assert f"--base-url {address}" in text


def test_an_address_where_nothing_answers_while_the_server_does_elsewhere(
    own_home: Path, address: str, doctor: Doctor
) -> None:
    configure(own_home, "http://127.0.0.1:9/v1")
    ((id, (status, text)),) = doctor(base_url=address).items()
    assert (id, status) == ("opencode-address:vllm", "fail")
    assert f"--base-url {address}" in text


def test_a_server_that_does_not_answer_is_told_once_with_its_unit(own_home: Path, doctor: Doctor) -> None:
    configure(own_home, "http://127.0.0.1:9/v1")
    assert set(doctor()) == {"server"}
    units = own_home / ".config" / "systemd" / "user"
    units.mkdir(parents=True)
    (units / "coder.service").write_text("[Service]\nExecStart=/opt/vllm/bin/vllm serve org/m\n")
    (units / "other.service").write_text("[Service]\nExecStart=/usr/bin/sleep 1\n# after vllm\n")
    found = doctor()
    assert set(found) == {"server", "service:coder.service"}
    assert "systemctl --user start coder.service" in found["service:coder.service"][1]


def test_a_name_with_an_address_where_nothing_listens(
    own_home: Path, address: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(address.rsplit(":", 1)[1].removesuffix("/v1"))
    both = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.7", 9)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
    ]
    configure(own_home, f"http://localhost:{port}/v1")
    assert doctor() == {}
    monkeypatch.setattr("wizard.flow.clientchecks.socket.getaddrinfo", lambda *_args, **_kwargs: both)
    assert {id: status for id, (status, _text) in doctor().items()} == {"opencode-address:vllm": "warn"}


def test_a_proxy_that_swallows_loopback(
    own_home: Path, address: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(own_home, address)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    ((id, (status, text)),) = doctor().items()
    assert (id, status) == ("proxy:vllm", "fail")
    assert "NO_PROXY=127.0.0.1" in text
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    assert doctor() == {}


def test_a_key_that_is_missing_or_wrong(
    own_home: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused = Answer('{"error":"Unauthorized"}', status=401)
    with answering({"/v1/models": refused, "/version": ROUTES["/version"]}) as (root, _asked):
        url = f"{root}/v1"
        configure(own_home, url, options={"baseURL": url, "apiKey": "{env:CODER_KEY}"})
        found = doctor()
        assert found["opencode-key:vllm"][0] == "fail"
        assert "CODER_KEY" in found["opencode-key:vllm"][1]
        monkeypatch.setenv("CODER_KEY", "not-this-one")
        found = doctor()
        assert found["opencode-key:vllm"][0] == "fail"
        assert "not-this-one" not in repr(found)
        configure(own_home, url, options={"baseURL": url, "apiKey": f"{{file:{tmp_path / 'no.key'}}}"})
        assert "no.key" in doctor()["opencode-key:vllm"][1]
        assert {status for id, (status, _text) in found.items() if id != "opencode-key:vllm"} <= {"warn"}


def test_another_program_beside_the_server_is_left_alone(
    own_home: Path, address: str, doctor: Doctor
) -> None:
    other = Answer(json.dumps({"data": [{"id": "llama3", "owned_by": "library"}]}))
    with answering({"/v1/models": other}) as (root, _asked):
        document = configure(own_home, address)
        block = document["provider"]["vllm"]
        for name, url in (("ollama", f"{root}/v1"), ("hosted", "https://models.example.com/v1")):
            document["provider"][name] = block | {"options": {"baseURL": url}}
        (own_home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(document))
        assert doctor() == {}
    document["provider"]["ollama"]["options"]["baseURL"] = "http://127.0.0.1:9/v1"
    (own_home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(document))
    assert {id: status for id, (status, _text) in doctor().items()} == {"opencode-address:ollama": "warn"}


@pytest.mark.parametrize("npm", ["", "@ai-sdk/openai"])
def test_a_provider_of_another_package(own_home: Path, address: str, doctor: Doctor, npm: str) -> None:
    configure(own_home, address, npm=npm)
    ((id, (status, text)),) = doctor().items()
    assert (id, status) == ("opencode-npm:vllm", "warn")
    assert "@ai-sdk/openai-compatible" in text


def test_an_opencode_that_is_too_old_or_needs_the_package(
    own_home: Path, address: str, doctor: Doctor, program: Callable[[str], None]
) -> None:
    configure(own_home, address)
    program("0.15.2")
    assert {id: status for id, (status, _text) in doctor().items()} == {"opencode": "fail"}
    configure(own_home, address, npm="")
    program("2.0.32")
    assert doctor()["opencode-npm:vllm"][0] == "fail"


def test_files_that_override_the_configuration(
    own_home: Path, address: str, doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = configure(own_home, address)
    stale = tmp_path / "opencode.json"
    stale.write_text(json.dumps(document))
    assert doctor() == {}, "a copy with the same values changes nothing"
    document["provider"]["vllm"]["options"]["baseURL"] = "http://127.0.0.1:8001/v1"
    stale.write_text(json.dumps(document))
    ((id, (status, text)),) = doctor().items()
    assert (id, status) == ("opencode-overrides", "fail")
    assert str(stale) in text
    stale.unlink()
    monkeypatch.setenv("OPENCODE_CONFIG_CONTENT", json.dumps(document))
    assert "OPENCODE_CONFIG_CONTENT" in doctor()["opencode-overrides"][1]


@pytest.fixture
def real_vllm(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts a process of vLLM's name with these options, which really listens; gives its address."""
    import subprocess

    script = tmp_path / "vllm"
    script.write_text(
        f"#!{sys.executable}\n"
        "import http.server, json, sys\n"
        "class Handler(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        model = {'id': 'coder', 'owned_by': 'vllm', 'max_model_len': 65536}\n"
        "        found = {'/v1/models': {'data': [model]},\n"
        "                 '/version': {'version': '0.32.0'}}.get(self.path)\n"
        "        self.send_response(200 if found else 404)\n"
        "        self.end_headers()\n"
        "        self.wfile.write(json.dumps(found).encode())\n"
        "    def log_message(self, *words): pass\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), Handler)\n"
        "print(server.server_address[1], flush=True)\n"
        "server.serve_forever()\n"
    )
    script.chmod(0o755)
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> str:
        process = subprocess.Popen([str(script), "serve", *words], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        return f"http://127.0.0.1:{int(process.stdout.readline())}/v1"

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("words", "check", "wanted"),
    [
        (("Qwen/Qwen3-8B",), "tool-choice", "--enable-auto-tool-choice --tool-call-parser hermes"),
        (("Qwen/Qwen3-8B", "--enable-auto-tool-choice"), "tool-choice", "--tool-call-parser hermes"),
        (
            ("Qwen/Qwen3-8B", "--enable-auto-tool-choice", "--tool-call-parser", "pythonic"),
            "tool-parser",
            "--tool-call-parser hermes",
        ),
        (("Qwen/Qwen3-8B", "--enable-auto-tool-choice", "--tool-call-parser=hermes"), "", ""),
        (
            (
                *("Qwen/Qwen3-8B", "--enable-auto-tool-choice", "--tool-call-parser=mine"),
                *("--tool-parser-plugin", "/srv/mine.py"),
            ),
            "",
            "",
        ),
    ],
)
def test_the_command_of_the_server_is_read_and_judged(
    own_home: Path,
    doctor: Doctor,
    real_vllm: Callable[..., str],
    words: tuple[str, ...],
    check: str,
    wanted: str,
) -> None:
    configure(own_home, real_vllm(*words))
    found = doctor()
    assert set(found) == ({check} if check else set())
    if check:
        status, text = found[check]
        assert status == "fail"
        assert wanted in text
        assert "vllm serve Qwen/Qwen3-8B" in text, "the whole command to start instead"


def test_a_set_up_with_nothing_in_it_is_told_and_changes_nothing(own_home: Path, doctor: Doctor) -> None:
    found = doctor()
    assert set(found) == {"opencode-config"}
    assert found["opencode-config"][0] == "warn"
    assert list(own_home.iterdir()) == []
