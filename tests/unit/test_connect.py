"""A server somebody else started: adopted by its address, configured under its own names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from answering import Answer, answering
from standin import TOOLS, serving

from wizard import catalog
from wizard.cli import main

OVERLAY = """
[[model]]
id = "house-coder"
name = "House Coder 7B"
context = 65536
thinks = true
tool_parser = "hermes"
[[model.variants]]
id = "bf16"
checkpoint = "house/coder-7b"
quantization = "bf16"
weights_gib = 14.0
"""


@pytest.fixture
def house_model(own_home: Path) -> Iterator[None]:
    """A model of the user's own in the real overlay folder of this home."""
    folder = own_home / ".config" / "vllm-opencode" / "assets.d"
    folder.mkdir(parents=True)
    (folder / "house.toml").write_text(OVERLAY, encoding="utf-8")
    catalog.clear_cache()
    yield
    catalog.clear_cache()


@pytest.fixture
def address() -> Iterator[str]:
    with serving(*TOOLS, "--served-model-name", "coder-7b", "--max-model-len", "65536") as (root, _standin):
        yield f"{root}/v1"


def written(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["configure", "--print", *words]) == 0
    document = json.loads(capfd.readouterr().out)
    assert isinstance(document, dict)
    return document


@pytest.mark.usefixtures("house_model")
@pytest.mark.parametrize("name", [None, "coder-7b", "house-coder", "House Coder 7B"])
def test_a_model_of_the_overlay_is_configured_under_its_served_name(
    address: str, capfd: pytest.CaptureFixture[str], name: str | None
) -> None:
    config = written(capfd, "--base-url", address, *(["--model", name] if name else []))
    provider = config["provider"]["vllm"]  # type: ignore[index]
    (key,) = provider["models"]
    assert key == "coder-7b"
    entry = provider["models"][key]
    assert entry["name"] == "House Coder 7B (local)"
    assert entry["reasoning"] is True
    # 65,536 tokens: answers of 8,192 and a margin of 8,192, by the limits that were run for this window.
    assert entry["limit"] == {"context": 65536, "input": 57344, "output": 8192}


@pytest.mark.usefixtures("house_model")
def test_the_model_of_the_overlay_appears_in_models_and_plan(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--simulate", "rtx4090x2", "models", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["rows"][0]["model"] == "house-coder"
    assert main(["--simulate", "rtx4090x2", "plan", "--model", "house-coder", "--json"]) == 0
    plan = json.loads(capfd.readouterr().out)["plan"]
    assert plan["argv"][2] == "house/coder-7b"


def test_a_name_that_is_not_served_is_answered_with_those_that_are(
    address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["configure", "--print", "--base-url", address, "--model", "coder-8b"]) == 2
    assert "coder-7b" in capfd.readouterr().err


def listing(*entries: dict[str, object]) -> dict[str, Answer]:
    body = json.dumps({"object": "list", "data": [{"owned_by": "vllm", **entry} for entry in entries]})
    return {"/v1/models": Answer(body), "/version": Answer('{"version": "0.32.0"}')}


def test_a_window_nobody_states_can_be_said(capfd: pytest.CaptureFixture[str]) -> None:
    """A gateway before vLLM drops max_model_len from the list of models."""
    with answering(listing({"id": "coder"})) as (root, _asked):
        assert main(["configure", "--print", "--base-url", root]) == 1
        assert "--context" in capfd.readouterr().err
        config = written(capfd, "--base-url", root, "--context", "32768")
    limit = config["provider"]["vllm"]["models"]["coder"]["limit"]  # type: ignore[index]
    assert limit == {"context": 32768, "input": 28672, "output": 4096}


def test_the_window_is_that_of_the_model_that_was_named(capfd: pytest.CaptureFixture[str]) -> None:
    served = listing({"id": "large", "max_model_len": 131072}, {"id": "little", "max_model_len": 32768})
    with answering(served) as (root, _asked):
        config = written(capfd, "--base-url", root, "--model", "little")
    models = config["provider"]["vllm"]["models"]  # type: ignore[index]
    assert models["little"]["limit"]["context"] == 32768


def test_a_key_file_of_a_windows_editor_is_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    key = tmp_path / "key"
    key.write_bytes("\ufeffsk-sesame-4711\r\n".encode())
    key.chmod(0o600)
    with answering(listing({"id": "coder", "max_model_len": 32768})) as (root, asked):
        config = written(capfd, "--base-url", root, "--api-key-file", str(key))
    keys = {headers.get("Authorization") for path, headers in asked if path.startswith("/v1")}
    assert keys == {"Bearer sk-sesame-4711"}
    assert config["provider"]["vllm"]["options"]["apiKey"] == f"{{file:{key}}}"  # type: ignore[index]


def test_smoke_tests_a_server_of_somebody_else(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["smoke", "--base-url", address, "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["verdict"] == "pass"
    # The stand-in is never taken for a real vLLM, not even when it was started by hand.
    assert report["server"]["started_by"] == "rehearsal"
    assert {"id", "status", "detail", "evidence", "ms"} <= set(report["checks"][0])


def test_setup_connects_tests_and_writes(
    address: str, own_home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    answers = tmp_path / "answers.toml"
    text = f'[start]\nmode = "connect"\nbase_url = "{address}"\n[opencode]\nproof = false\n'
    answers.write_text(text, encoding="utf-8")
    assert main(["setup", "--answers", str(answers), "--yes", "--json"]) == 0
    done = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert done["receipt"]["results"]["opencode_model"] == "vllm/coder-7b"
    assert (own_home / ".config" / "opencode" / "opencode.json").exists()


def test_doctor_finds_a_configuration_that_does_not_match(
    address: str, own_home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = own_home / ".config" / "opencode"
    folder.mkdir(parents=True)
    model = {"limit": {"context": 32768, "output": 4096}}
    block = {"options": {"baseURL": address}, "models": {"coder-8b": model}}
    (folder / "opencode.json").write_text(json.dumps({"provider": {"vllm": block}}), encoding="utf-8")
    assert main(["doctor", "--base-url", address, "--json"]) == 1
    checks = {check["id"]: check for check in json.loads(capfd.readouterr().out)["checks"]}
    assert checks["server"]["status"] == "ok"
    assert checks["opencode-config:vllm/coder-8b"]["status"] == "fail"
    assert "coder-7b" in checks["opencode-config:vllm/coder-8b"]["detail"]


def test_doctor_finds_limits_that_loop(own_home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # The configuration of seed 000's fifth failure: answers of 32,000 tokens in a window of 32,768.
    folder = own_home / ".config" / "opencode"
    folder.mkdir(parents=True)
    model = {"limit": {"context": 32768, "output": 32000}}
    block = {"options": {"baseURL": "http://127.0.0.1:9/v1"}, "models": {"m": model}}
    (folder / "opencode.json").write_text(json.dumps({"provider": {"vllm": block}}), encoding="utf-8")
    assert main(["doctor", "--json"]) == 1
    checks = {check["id"]: check for check in json.loads(capfd.readouterr().out)["checks"]}
    assert checks["opencode-config:vllm/m"]["status"] == "fail"
