"""The command parsers over a text, as a stranger calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wizard.cli import main

HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Nîmes"}}\n</tool_call>\n'


def parsers(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["--simulate", "gb10", "parsers", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_text_alone_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "raw.txt"
    file.write_text(HERMES, encoding="utf-8")
    code, out, _errors = parsers(capsys, "--text", str(file), "--json")
    told = json.loads(out)
    assert code == 0
    assert told["best"] == "hermes"
    assert told["raw"] == HERMES.rstrip("\n")
    first = told["candidates"][0]
    assert (first["parser"], first["extracted"], first["ok"]) == ("hermes", True, True)
    assert all({"parser", "extracted", "ok", "detail"} <= set(one) for one in told["candidates"])


def test_a_person_reads_the_winner_and_its_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "raw.txt"
    file.write_text(HERMES, encoding="utf-8")
    code, out, _errors = parsers(capsys, "--text", str(file))
    assert code == 0
    assert "--tool-call-parser hermes" in out
    assert "wire-format table" in out


def test_nothing_that_fits_is_code_1_with_a_way_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "raw.txt"
    file.write_text(HERMES.replace("tool_call", "tools"), encoding="utf-8")
    code, out, _errors = parsers(capsys, "--text", str(file))
    assert code == 1
    assert "Qwen3-Coder" in out
    assert "--tool-parser-plugin" in out


def test_what_a_model_writes_steers_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "raw.txt"
    file.write_bytes(b"\x1b]0;owned\x07\x1b[2J[bold]<tool_call>\xff\x00\n{")
    code, out, _errors = parsers(capsys, "--text", str(file), "--json")
    assert code == 1
    assert "\\u001b" not in out
    assert "\x1b" not in out
    assert "[bold]" in json.loads(out)["raw"]


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), (b"\n \n", "no text"), (b"x" * 30_000, "longer than")],
)
def test_a_wrong_call_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, said: str
) -> None:
    file = tmp_path / "raw.txt"
    if content is not None:
        file.write_bytes(content)
    code, _out, errors = parsers(capsys, "--text", str(file))
    assert code == 2
    assert said in errors
    assert len(errors.splitlines()) == 1


def test_a_text_and_a_server_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    code, _out, errors = parsers(capsys, "--text", "x", "--base-url", "http://127.0.0.1:1/v1")
    assert code == 2
    assert "--base-url" in errors
