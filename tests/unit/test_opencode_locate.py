"""Which file is edited, and what else opencode reads that would win over it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from wizard.errors import RefusedError, UsageError
from wizard.opencode import globals_wanted, target_file
from wizard.opencode import overrides as overrides_module
from wizard.opencode.jsonc_edit import MISSING
from wizard.opencode.overrides import is_read, overrides

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can pretend to be called through sudo")
OURS = {("provider", "vllm", "options", "baseURL"): "http://127.0.0.1:8000/v1"}
OTHER_URL = '{"provider": {"vllm": {"options": {"baseURL": "http://elsewhere/v1"}}}}'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, with no managed settings."""
    monkeypatch.setattr(overrides_module, "managed_dir", lambda: tmp_path / "managed")
    home = tmp_path / "home"
    (home / ".config" / "opencode").mkdir(parents=True)
    return home


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, "opencode.json"),
        ({"opencode_jsonc": '{"$schema": "x"}'}, "opencode.jsonc"),
        ({"opencode_json": "{}", "opencode_jsonc": "{}"}, "opencode.jsonc"),
        ({"opencode_json": '{"model": "a/b"}', "opencode_jsonc": '{"$schema": "x"}'}, "opencode.json"),
        ({"opencode_json": '{"model": "a/b"}', "opencode_jsonc": '{"provider": {}}'}, "opencode.jsonc"),
        (
            {"opencode_json": '{"provider": {"vllm": {}}}', "opencode_jsonc": '{"model": "a/b"}'},
            "opencode.json",
        ),
        ({"config_json": '{"provider": {"x": {}}}'}, "config.json"),
        ({"config_json": "{}", "opencode_json": "not json"}, "opencode.json"),
    ],
)
def test_the_file_that_counts_is_edited(home: Path, files: dict[str, str], expected: str) -> None:
    folder = written(home / ".config" / "opencode", **files)
    target = target_file(environ={"HOME": str(home)})
    assert target.path == str(folder / expected)
    assert target.scope == "global"
    assert target.exists is bool(files)


def test_xdg_config_home_is_obeyed(home: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    assert target_file(environ=environ).path == str(tmp_path / "xdg" / "opencode" / "opencode.json")


def test_project_and_path(home: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(home)}
    project = tmp_path / "project"
    with pytest.raises(UsageError, match="no project folder"):
        target_file(project=project, environ=environ)
    (project / ".opencode").mkdir(parents=True)
    assert target_file(project=project, environ=environ).path == str(project / "opencode.json")
    written(project / ".opencode", opencode_json='{"model": "a/b"}')
    assert target_file(project=project, environ=environ).path == str(project / ".opencode" / "opencode.json")
    named = target_file(path="~/mine.json", environ=environ)
    assert (named.path, named.scope) == (str(home / "mine.json"), "path")
    in_place = target_file(path=home / ".config" / "opencode" / "opencode.json", environ=environ)
    assert in_place.scope == "global"
    with pytest.raises(UsageError, match="is a folder"):
        target_file(path=project, environ=environ)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RefusedError, match="not a regular file"):
        target_file(path=tmp_path / "pipe", environ=environ)


@pytest.mark.parametrize(
    ("text", "fresh"),
    [(None, True), ("", True), ('{"$schema": "x"} // new', True), ('{"theme": "x"}', False), ("{", False)],
)
def test_root_keys_by_default_only_where_nobody_chose(home: Path, text: str | None, fresh: bool) -> None:
    if text is not None:
        written(home / ".config" / "opencode", opencode_jsonc=text)
    target = target_file(environ={"HOME": str(home)})
    assert target.fresh is fresh
    assert globals_wanted("ask", target) is fresh
    assert globals_wanted("yes", target)
    assert not globals_wanted("no", target)


@ROOT_ONLY
def test_through_sudo_the_caller_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = pwd.struct_passwd(("anna", "x", 12345, 12346, "", str(tmp_path / "anna"), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", {12345: account}.__getitem__)
    environ = {"HOME": "/superuser", "SUDO_UID": "12345", "XDG_CONFIG_HOME": "/superuser/.config"}
    target = target_file(environ=environ)
    assert target.path == str(tmp_path / "anna" / ".config" / "opencode" / "opencode.json")
    assert target.owner == (12345, 12346)
    assert target_file(path=tmp_path / "system.json", environ=environ).owner is None
    assert target_file(environ={"HOME": str(tmp_path), "SUDO_UID": "0"}).owner is None
    assert target_file(environ={"HOME": str(tmp_path), "SUDO_UID": "777"}).owner is None


def test_everything_that_wins_is_named(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "repo" / "sub"
    project.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "managed").mkdir()
    (tmp_path / "opencode.json").write_text(OTHER_URL)
    (project.parent / "opencode.json").write_text(OTHER_URL)
    (project / "opencode.jsonc").write_text(
        "{ // same\n" + OTHER_URL[1:].replace("elsewhere", "127.0.0.1:8000")
    )
    (tmp_path / "named.json").write_text(OTHER_URL)
    (tmp_path / "managed" / "opencode.json").write_text('{"enabled_providers": ["anthropic"]}')
    (home / ".opencode").mkdir()
    (home / ".opencode" / "opencode.json").write_text('{"provider": {"vllm": "off"}}')
    folder = written(home / ".config" / "opencode", config_json=OTHER_URL, opencode_jsonc=OTHER_URL)
    environ = {
        "HOME": str(home),
        "OPENCODE_CONFIG": str(tmp_path / "named.json"),
        "OPENCODE_CONFIG_CONTENT": '{"disabled_providers": ["vllm"]}',
        "OPENCODE_CONFIG_DIR": str(tmp_path),
    }
    found = overrides(folder / "opencode.json", OURS, environ=environ, cwd=project)
    key = "provider.vllm.options.baseURL"
    expected = [
        (f"{folder / 'opencode.jsonc'} ", key),
        ("OPENCODE_CONFIG)", key),
        (f"{project.parent / 'opencode.json'} ", key),
        (f"{home / '.opencode' / 'opencode.json'} ", key),
        ("OPENCODE_CONFIG_DIR)", key),
        ("OPENCODE_CONFIG_CONTENT ", "disabled_providers"),
        ("(managed)", "enabled_providers"),
    ]
    assert len(found) == len(expected)
    for sentence, (source, keys) in zip(found, expected, strict=True):
        assert source in sentence
        assert f" {keys}," in sentence
        assert "elsewhere" not in sentence
    without = overrides(
        folder / "opencode.json",
        OURS,
        environ=environ | {"OPENCODE_DISABLE_PROJECT_CONFIG": "1"},
        cwd=project,
    )
    assert len(without) == len(found) - 1


def test_a_key_that_must_be_missing_counts_from_below_too(home: Path) -> None:
    folder = written(home / ".config" / "opencode", config_json='{"provider": {"vllm": {"x": 1}}}')
    environ = {"HOME": str(home)}
    (sentence,) = overrides(
        folder / "opencode.json", {("provider", "vllm", "x"): MISSING}, environ=environ, cwd=home
    )
    assert "config.json" in sentence
    assert (
        overrides(folder / "opencode.json", {("provider", "vllm", "x"): 2}, environ=environ, cwd=home) == ()
    )


def test_a_source_that_cannot_be_read_is_named_without_its_text(home: Path) -> None:
    folder = written(home / ".config" / "opencode", opencode_jsonc='{"apiKey": "hunter2" "x"}')
    (sentence,) = overrides(folder / "opencode.json", OURS, environ={"HOME": str(home)}, cwd=home)
    assert "opencode.jsonc" in sentence
    assert "line 1, column 22" in sentence
    assert "hunter2" not in sentence


def test_whether_opencode_reads_a_file_by_itself(home: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(home)}
    link = tmp_path / "link.json"
    link.symlink_to(home / ".config" / "opencode" / "opencode.json")
    assert is_read(link, environ=environ, cwd=home)
    assert not is_read(tmp_path / "x.json", environ=environ, cwd=home)
    assert is_read(tmp_path / "x.json", environ=environ | {"OPENCODE_CONFIG": "../x.json"}, cwd=home)
    assert is_read(tmp_path / "opencode.json", environ=environ, cwd=tmp_path / "home")
