"""Nothing leaves the house: what is written for it, whom it leaves, and how it is taken back."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from standin import TOOLS, serving

from wizard.budget import limits
from wizard.cli import main
from wizard.errors import RefusedError
from wizard.flow import Journey, save_progress, undo
from wizard.opencode import ConfigRequest, OpencodeChange, plan_change, target_file, write_change
from wizard.opencode.content import content

REQUEST = ConfigRequest(
    provider_name="Local vLLM",
    base_url="http://10.0.0.7:8000/v1",
    model_key="qwen3-coder",
    model_name="Qwen3 Coder",
    limits=limits(65536),
    private=True,
    opencode_version="1.18.33",
)
LOCK = ".config/opencode/package-lock.json"
MARK = ".config/opencode/node_modules/.vllm-opencode"
STARTER = ".local/bin/opencode-private"


@pytest.fixture
def home(own_home: Path) -> Path:
    (own_home / ".config" / "opencode").mkdir(parents=True)
    return own_home


def plan(home: Path, request: ConfigRequest = REQUEST) -> OpencodeChange:
    return plan_change(request, target_file(), cwd=home)


def beside(change: OpencodeChange, home: Path) -> list[str]:
    return [str(Path(file.path).relative_to(home)) for file in change.beside]


def test_what_no_setting_switches_off_is_laid_beside(home: Path) -> None:
    planned = plan(home)
    assert beside(planned, home) == [STARTER, LOCK, MARK]
    assert not (home / STARTER).exists()
    done = write_change(planned)
    assert done.command == f"{home}/{STARTER} -m vllm/qwen3-coder"
    # What opencode 1.18.33 looks for before it installs its package.
    lock = json.loads((home / LOCK).read_text())
    assert lock["packages"][""]["dependencies"] == {"@opencode-ai/plugin": "1.18.33"}
    assert (home / LOCK).parent.joinpath("node_modules").is_dir()
    again = plan(home)
    assert (again.action, again.beside, again.pending) == ("unchanged", (), False)


def test_the_program_sets_the_variables_and_passes_everything_on(home: Path) -> None:
    write_change(plan(home))
    starter = home / STARTER
    assert stat.S_IMODE(starter.stat().st_mode) == 0o755
    fake = home / "bin" / "opencode"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nenv; printf "<%s>" "$@"\n')
    fake.chmod(0o755)
    search = {"PATH": f"{fake.parent}:{os.environ['PATH']}"}
    said = subprocess.run([starter, "-m", "a b"], env=search, capture_output=True, text=True, check=True)
    for name in ("MODELS_FETCH", "AUTOUPDATE", "SHARE", "LSP_DOWNLOAD"):
        assert f"OPENCODE_DISABLE_{name}=1" in said.stdout
    assert said.stdout.endswith("<-m><a b>")


def test_what_is_there_stays_and_is_named(home: Path) -> None:
    (home / LOCK).write_text('{"packages": {"": {"dependencies": {"left-pad": "1"}}}}')
    (home / STARTER).parent.mkdir(parents=True)
    (home / STARTER).write_text("#!/bin/sh\n# mine\n")
    planned = plan(home)
    assert beside(planned, home) == []
    assert planned.command == "opencode -m vllm/qwen3-coder"
    assert any("OPENCODE_DISABLE_MODELS_FETCH=1" in text for text in planned.contacts)
    assert any("The npm registry" in text and "nothing keeps it" in text for text in planned.contacts)
    (home / LOCK).parent.joinpath("node_modules/@opencode-ai/plugin").mkdir(parents=True)
    assert not any("nothing keeps it" in text for text in plan(home).contacts)


def test_an_older_program_of_ours_is_renewed(home: Path) -> None:
    (home / STARTER).parent.mkdir(parents=True)
    (home / STARTER).write_text("#!/bin/sh\n# made by vllm-opencode: older\nexec opencode\n")
    write_change(plan(home))
    assert "OPENCODE_DISABLE_MODELS_FETCH" in (home / STARTER).read_text()


def test_the_folder_of_a_project_is_locked_too(home: Path) -> None:
    project = home / "work"
    (project / ".opencode").mkdir(parents=True)
    planned = plan_change(REQUEST, target_file(project=project), cwd=project)
    assert "work/.opencode/package-lock.json" in beside(planned, home)


def test_undo_takes_everything_back(home: Path) -> None:
    save_progress(Journey(change=write_change(plan(home))), finished=True)
    reverted, kept = undo()
    assert {Path(entry.path).name for entry in reverted} == {
        "opencode.json",
        "opencode-private",
        "package-lock.json",
        ".vllm-opencode",
    }
    assert kept == ()
    assert not (home / STARTER).exists()
    assert not (home / LOCK).exists()
    assert not (home / MARK).parent.exists()


def test_undo_leaves_a_folder_somebody_put_more_into(home: Path) -> None:
    save_progress(Journey(change=write_change(plan(home))), finished=True)
    (home / MARK).with_name("theirs").mkdir()
    assert undo()[1] == ()
    assert [entry.name for entry in (home / MARK).parent.iterdir()] == ["theirs"]


def test_undo_leaves_a_configuration_that_was_right_already(home: Path) -> None:
    write_change(plan(home, msgspec.structs.replace(REQUEST, private=False)))
    write_change(plan(home))
    (home / STARTER).unlink()
    done = write_change(plan(home))
    assert (done.action, done.written, done.beside[0].written) == ("unchanged", False, True)
    save_progress(Journey(change=done), finished=True)
    assert [Path(entry.path).name for entry in undo()[0]] == ["opencode-private"]
    assert (home / ".config/opencode/opencode.json").exists()


DOCUMENT: dict[str, Any] = {
    "model": "anthropic/claude",
    "small_model": "house/small",
    "enabled_providers": ["anthropic", "house"],
    "provider": {
        "anthropic": {"options": {"apiKey": "{env:KEY}"}},
        "house": {"options": {"baseURL": "http://gpu2:8000/v1"}},
        "elsewhere": {"options": {"baseURL": "https://models.example.com/v1"}},
        "by-variable": {"options": {"baseURL": "{env:URL}"}},
    },
    "mcp": {
        "wiki": {"type": "remote", "url": "https://wiki.example/mcp?key=hunter2"},
        "off": {"type": "remote", "url": "https://off.example/mcp", "enabled": False},
    },
    "agent": {
        "reader": {"permission": {"webfetch": "allow"}},
        "writer": {"permission": {"webfetch": "deny"}},
    },
}


def test_only_servers_of_the_house_can_be_chosen() -> None:
    made = content(REQUEST, DOCUMENT)
    assert made.settings["enabled_providers"] == ["house", "vllm"]
    assert made.settings["model"] == "vllm/qwen3-coder"
    assert "small_model" not in made.settings
    closed = next(text for text in made.warnings if "switched off" in text)
    assert closed.endswith(": anthropic, elsewhere, by-variable")
    old = content(msgspec.structs.replace(REQUEST, opencode_version="1.1.65"), {})
    assert old.settings["small_model"] == "vllm/qwen3-coder"


def test_what_the_users_own_settings_contact_is_named(home: Path) -> None:
    (home / ".config/opencode/opencode.json").write_text(json.dumps(DOCUMENT))
    said = "\n".join(plan(home).contacts)
    for named in ("http://10.0.0.7:8000/v1", "house", "wiki.example", "reader", "bash", "models.opencode.ai"):
        assert named in said
    for silent in ("hunter2", "off.example", "writer"):
        assert silent not in said


def test_an_organisation_that_hands_out_settings_is_named(home: Path) -> None:
    """opencode 1.18.33 asks .well-known/opencode of every login of this type before it reads a file."""
    logins = {
        "https://code.corp.example": {"type": "wellknown", "key": "CORP_TOKEN", "token": "sesame-4711"},
        "anthropic": {"type": "api", "key": "sk-ant-1"},
    }
    file = home / ".local/share/opencode/auth.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(logins))
    planned = plan(home)
    for texts in (planned.contacts, planned.warnings):
        (named,) = [text for text in texts if "code.corp.example" in text]
        assert "sesame" not in named
    assert "anthropic" not in "".join(planned.contacts)
    file.write_text("[broken")
    assert not [text for text in plan(home).contacts if "organisation" in text]


def test_an_old_opencode_downloads_a_program() -> None:
    old = msgspec.structs.replace(REQUEST, opencode_version="1.14.41")
    assert any("ripgrep" in text for text in plan_change(old, target_file()).contacts)
    assert not any("ripgrep" in text for text in plan_change(REQUEST, target_file()).contacts)


def test_all_of_it_or_nothing(home: Path) -> None:
    """The last file cannot be made: those before it go again, and the configuration is not touched."""
    planned = plan(home)
    (home / MARK).parent.write_text("a file in the way")
    with pytest.raises(RefusedError):
        write_change(planned)
    assert not (home / STARTER).exists()
    assert not (home / LOCK).exists()
    assert not (home / ".config/opencode/opencode.json").exists()


def test_the_command(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serving(*TOOLS) as (root, _standin):
        call = ["--json", "configure", "--base-url", root, "--private"]
        assert main([*call, "--dry-run"]) == 0
        shown = json.loads(capfd.readouterr().out)
        assert not (home / STARTER).exists()
        assert main([*call, "--yes"]) == 0
        done = json.loads(capfd.readouterr().out)
    assert not any(file["written"] for file in shown["beside"])
    assert [file["written"] for file in done["beside"]] == [True, True, True]
    assert done["command"].startswith(f"{home}/{STARTER} -m vllm/")
    assert any("bash" in text for text in done["contacts"])
    assert {"share", "autoupdate", "enabled_providers"} <= {reason["key"] for reason in done["reasons"]}
    assert all(reason["why"] and reason["source"] for reason in done["reasons"])


def test_the_program_on_windows(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wizard.opencode.private.sys.platform", "win32")
    (starter,) = (file for file in plan(home).beside if "private" in file.path)
    assert starter.path == f"{home}/.config/opencode/opencode-private.cmd"
    lines = starter.data.decode().split("\r\n")
    assert "set OPENCODE_DISABLE_MODELS_FETCH=1" in lines
    assert lines[-2] == "opencode %*"
