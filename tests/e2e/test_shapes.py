"""Every shape of configuration the wizard writes, read back by the real opencode."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from realkit import RealKit

from wizard.budget import limits
from wizard.child import run_child
from wizard.opencode import (
    ConfigRequest,
    confirm_change,
    merged_config,
    opencode_version,
    plan_change,
    plan_export,
    target_file,
    write_change,
)

REQUEST = ConfigRequest(
    provider_name="Local vLLM",
    base_url="http://127.0.0.1:8000/v1",
    model_key="qwen3-coder",
    model_name="Qwen3 Coder",
    limits=limits(65536),
)


def environ(home: Path) -> dict[str, str]:
    """A home of its own, and nothing of the person's who runs the tests."""
    return {"HOME": str(home), "PATH": os.environ["PATH"]}


def write(home: Path, request: ConfigRequest = REQUEST) -> Path:
    """Add our block to what lies in the home."""
    target = target_file(environ=environ(home))
    change = plan_change(request, target, environ=environ(home), cwd=home)
    return Path(write_change(change).path)


def read(kit: RealKit, home: Path, **more: str) -> Mapping[str, Any]:
    """What opencode makes of it; fails when it refuses."""
    merged = merged_config(str(kit.opencode), environ={**environ(home), **more}, cwd=home)
    assert merged is not None, "opencode refuses the file"
    return merged


def config_folder(home: Path) -> Path:
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    return folder


THEIRS = """{
  // Anna's
  "provider": {
    "anthropic": {"options": {"apiKey": "{env:ANTHROPIC_API_KEY}"}}, // keep
  },
}
"""


def both_files(home: Path) -> ConfigRequest:
    folder = config_folder(home)
    folder.joinpath("opencode.json").write_text('{"username": "old"}')
    folder.joinpath("opencode.jsonc").write_text(THEIRS)
    return REQUEST


def commented(home: Path) -> ConfigRequest:
    config_folder(home).joinpath("opencode.jsonc").write_text(THEIRS)
    return REQUEST


def key_by_file(home: Path) -> ConfigRequest:
    key = home / "key"
    key.write_text("sk-house-1\n")
    key.chmod(0o600)
    return msgspec.structs.replace(REQUEST, api_key_file=str(key))


def two_servers(home: Path) -> ConfigRequest:
    write(home)
    return msgspec.structs.replace(
        REQUEST, provider="vllm-big", base_url="http://10.0.0.7:8001/v1", model_key="qwen3-coder-next"
    )


SHAPES = {
    "fresh": lambda home: msgspec.structs.replace(REQUEST, globals=True),
    "commented": commented,
    "both files": both_files,
    "key by file": key_by_file,
    "key by variable": lambda home: msgspec.structs.replace(REQUEST, api_key_env="HOUSE_KEY"),
    "alias": lambda home: msgspec.structs.replace(REQUEST, model_key="Qwen/Qwen3-Coder#fp8"),
    "thinks": lambda home: msgspec.structs.replace(REQUEST, reasoning=True, interleaved="reasoning"),
    "private": lambda home: msgspec.structs.replace(REQUEST, globals=True, private=True),
    "two servers": two_servers,
    "small window": lambda home: msgspec.structs.replace(REQUEST, limits=limits(16384), globals=True),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_accepted_and_its_model_listed(realkit: RealKit, tmp_path: Path, shape: str) -> None:
    version = opencode_version(str(realkit.opencode))
    request = msgspec.structs.replace(SHAPES[shape](tmp_path), opencode_version=version)
    written = write(tmp_path, request)
    merged = read(realkit, tmp_path, HOUSE_KEY="sk-house-2", ANTHROPIC_API_KEY="k")
    block = merged["provider"][request.provider]
    assert block["options"]["baseURL"] == request.base_url
    [(key, model)] = block["models"].items()
    assert model.get("id", key) == request.model_key
    listed = run_child(
        [str(realkit.opencode), "models", request.provider],
        {**environ(tmp_path), "OPENCODE_DISABLE_MODELS_FETCH": "1", "ANTHROPIC_API_KEY": "k"},
        60.0,
        cwd=tmp_path,
    )
    assert listed.code == 0
    assert f"{request.provider}/{key}" in listed.output.split()
    if shape == "two servers":
        assert set(merged["provider"]) == {"vllm", "vllm-big"}
    if shape == "both files":
        assert written.name == "opencode.jsonc"
        # opencode adds a line with its schema to a file without one.
        assert json.loads(written.with_name("opencode.json").read_text())["username"] == "old"
    assert "sk-house" not in written.read_text()


def test_opencode_confirms_or_names_what_overrides(realkit: RealKit, tmp_path: Path) -> None:
    """In a project, and with a key in a file beside the configuration, as it is carried to other machines."""
    key = "sk-house-3"
    project = tmp_path / "work"
    change = write_change(plan_export(msgspec.structs.replace(REQUEST, globals=True), project, key))
    told = confirm_change(
        msgspec.structs.replace(change, scope="project"), str(realkit.opencode), environ=environ(tmp_path)
    )
    assert told.agrees, told.detail
    louder = environ(tmp_path) | {"OPENCODE_CONFIG_CONTENT": '{"model": "other/one"}'}
    told = confirm_change(
        msgspec.structs.replace(change, scope="project"), str(realkit.opencode), environ=louder
    )
    assert told.differing == ("model",)
