"""A user without a home folder, as a bare number in a container: a clear line, or it works all the same."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from wizard import paths
from wizard.cli import commands, main
from wizard.errors import UsageError


@pytest.fixture(autouse=True)
def homeless(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOME is not set, and the password file knows nobody."""

    def nobody(who: object) -> pwd.struct_passwd:
        raise KeyError(who)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.setattr(pwd, "getpwnam", nobody)
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "words",
    [["status"], ["logs"], ["stop"], ["undo", "--list"], ["report"], ["diagnose", "~/vllm.log"]],
    ids=" ".join,
)
def test_what_needs_a_home_says_so_on_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no home folder" in line
    assert "export HOME=" in line


def test_a_recorded_machine_is_planned_without_a_home(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--simulate", "gb10", "plan"]) == 0
    assert "vllm serve" in capsys.readouterr().out


def test_this_host_is_looked_at_without_a_home(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "detect"]) in (0, 1)
    captured = capsys.readouterr()
    assert '"id":"disk-home"' in captured.out.replace(" ", "")
    assert captured.err == ""


def test_a_bug_is_told_even_where_its_details_cannot_be_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(words: list[str]) -> int:
        raise ValueError("two\nlines \ud800")

    monkeypatch.setattr(commands, "run", broken)
    assert main(["detect"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "ValueError: two lines" in line
    assert "could not be written" in line


def test_paths_are_resolved_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert paths.expanded("/a/~") == Path("/a/~")
    for path in ("~", "~/a", "~nobody/a"):
        with pytest.raises(UsageError):
            paths.expanded(path)
    monkeypatch.setenv("HOME", "relative")
    with pytest.raises(UsageError):
        paths.home()
    monkeypatch.setenv("HOME", "/data/me")
    assert (paths.home(), paths.expanded("~/a")) == (Path("/data/me"), Path("/data/me/a"))
