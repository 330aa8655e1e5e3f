"""What an installed opencode makes of the file, told by a stand-in for its program."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from wizard.budget import limits
from wizard.opencode import (
    ConfigRequest,
    Confirmation,
    OpencodeChange,
    confirm_change,
    plan_change,
    target_file,
    write_change,
)

REQUEST = ConfigRequest(
    provider_name="Local vLLM",
    base_url="http://127.0.0.1:8000/v1",
    model_key="qwen3-coder",
    model_name="Qwen3 Coder",
    limits=limits(65536),
    globals=True,
    api_key_env="HOUSE_KEY",
)
# It says what it was laid out to say, and keeps where and how it was asked.
PROGRAM = """#!{python}
import json, os, sys
answers = json.load(open({answers!r}))
asked = [sys.argv[1:], os.getcwd(), os.environ.get("OPENCODE_CONFIG")]
open({record!r}, "a").write(json.dumps(asked) + "\\n")
code, text = answers[" ".join(sys.argv[1:])]
print(text)
sys.exit(code)
"""


class Installed:
    """A program that answers by script."""

    def __init__(self, folder: Path) -> None:
        self.program, self.record = folder / "opencode", folder / "record"
        self.answers = folder / "answers.json"
        text = PROGRAM.format(python=sys.executable, answers=str(self.answers), record=str(self.record))
        self.program.write_text(text)
        self.program.chmod(0o755)

    def says(self, change: OpencodeChange, merged: Any, models: str | None = None) -> Confirmation:
        told = {
            "--version": (0, "1.18.33"),
            "debug config": (1, "secret text") if merged is None else (0, json.dumps(merged)),
            f"models {change.provider}": (0, f"{change.model}\n" if models is None else models),
        }
        self.answers.write_text(json.dumps(told))
        return confirm_change(change, str(self.program))

    def asked(self) -> list[Any]:
        return [json.loads(line) for line in self.record.read_text().splitlines()]


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def written(place: Path | None = None, project: Path | None = None) -> OpencodeChange:
    return write_change(plan_change(REQUEST, target_file(path=place, project=project)))


def merged_from(change: OpencodeChange) -> dict[str, Any]:
    """The file, with the key covered as opencode 1.18 covers it."""
    document: dict[str, Any] = json.loads(change.after)
    document["provider"]["vllm"]["options"]["apiKey"] = "***"
    return document | {"username": "root", "agent": {}}


def test_it_is_read_as_it_is_meant(installed: Installed, own_home: Path) -> None:
    change = written()
    told = installed.says(change, merged_from(change))
    assert told.agrees
    assert "1.18.33" in told.detail
    assert "vllm/qwen3-coder" in told.detail
    assert {(where, config) for _argv, where, config in installed.asked()[1:]} == {(str(own_home), None)}


def test_what_is_overridden_is_named(installed: Installed) -> None:
    change = written()
    merged = merged_from(change)
    merged["provider"]["vllm"]["models"]["qwen3-coder"]["limit"]["output"] = 32000
    merged["model"] = "anthropic/claude"
    told = installed.says(change, merged)
    assert not told.agrees
    assert set(told.differing) == {"model", "provider.vllm.models.qwen3-coder.limit.output"}


def test_a_model_that_is_not_listed(installed: Installed) -> None:
    change = written()
    told = installed.says(change, merged_from(change), models="vllm/other\n")
    assert not told.agrees
    assert "does not list vllm/qwen3-coder" in told.detail


def test_what_opencode_prints_of_a_broken_file_is_not_shown(installed: Installed) -> None:
    told = installed.says(written(), None)
    assert not told.agrees
    assert "secret text" not in told.detail + told.hint


def test_it_is_asked_where_it_will_be_started(installed: Installed, tmp_path: Path) -> None:
    project = tmp_path / "work"
    project.mkdir()
    change = written(project=project)
    assert installed.says(change, merged_from(change)).agrees
    assert installed.asked()[-1][1:] == [str(project), None]
    elsewhere = written(place=tmp_path / "mine.json")
    assert installed.says(elsewhere, merged_from(elsewhere)).agrees
    assert installed.asked()[-1][2] == str(tmp_path / "mine.json")
