"""What is printed for people: broken to the width at hand, and never steering the terminal."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from wizard.cli import main, output
from wizard.errors import UsageError
from wizard.machine import machine_names
from wizard.text import inert


@pytest.mark.parametrize("name", machine_names())
def test_detect_keeps_to_80_columns(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    main(["--simulate", name, "detect"])
    long = [line for line in capsys.readouterr().out.splitlines() if len(line) > 80]
    # Only what must stay whole to be of use: a command to copy, an address.
    assert all(line.strip().startswith(("$", "https://")) for line in long)


def test_a_paragraph_is_set_in_behind_what_begins_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    output.paragraph("one two three four five six seven eight nine ten", "OK    port  ")
    output.paragraph("", "SKIP  port  ")
    assert capsys.readouterr().out == (
        "OK    port  one two three four five six\n            seven eight nine ten\nSKIP  port\n"
    )


@pytest.mark.parametrize(
    "mark",
    [0x200B, 0x200E, 0x200F, 0x061C, *range(0x202A, 0x202F), 0x2060, *range(0x2066, 0x206A), 0xFEFF],
    ids=hex,
)
def test_marks_that_cannot_be_seen_are_taken_out(mark: int) -> None:
    assert inert(f"a{chr(mark)}b") == "ab"


def test_joiners_stay_where_scripts_need_them() -> None:
    persian = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    assert inert(persian) == persian


def test_a_gpu_that_does_not_answer_is_listed_without_made_up_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((resources.files("assets") / "machines" / "h200x2.json").read_text())
    document["machine"]["gpus"][1] = {"index": 1, "name": "", "errors": {"device": "GpuIsLost"}}
    file = tmp_path / "lost.json"
    file.write_text(json.dumps(document))
    main(["--simulate", str(file), "detect"])
    assert "GPU 1  ?  memory unknown\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "It does not answer: No module named 'vllm'",
            "It does not answer: No module named 'vllm'. Check it.",
        ),
        ("It does not answer.", "It does not answer. Check it."),
    ],
)
def test_what_somebody_else_said_is_told_apart_from_the_advice(message: str, told: str) -> None:
    assert str(UsageError(message, "Check it.")) == told
    assert str(UsageError(message)) == message
