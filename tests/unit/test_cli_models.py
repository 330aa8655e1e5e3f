"""The command models as a person reads it, and as a program does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wizard.cli import main


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "hf"))


def lines(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    """Exit code and the lines of stdout."""
    code = main(list(words))
    return code, capfd.readouterr().out.splitlines()


def rows(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and the rows of the JSON document."""
    code = main(["--json", *words])
    return code, json.loads(capfd.readouterr().out)["rows"]


def test_what_works_is_listed_and_the_rest_counted(capfd: pytest.CaptureFixture[str]) -> None:
    code, printed = lines(capfd, "--simulate", "gb10", "models")
    _code, all_rows = rows(capfd, "--simulate", "gb10", "models")
    works = [row for row in all_rows if row["verdict"] != "no"]
    assert code == 0
    assert max(map(len, printed)) <= 80
    assert printed[1].startswith("Qwen3-Coder-Next")
    assert printed[1].split()[-1] == "OK"
    assert not [line for line in printed if line.endswith(" NO")]
    table = [line for line in printed if line.endswith((" OK", " WARN"))]
    assert len(table) == len({row["model"] for row in works})
    assert f"{len(works)} of {len(all_rows)} variants work here." in "\n".join(printed)
    assert "--all also lists what does not, and why." in printed


def test_all_says_why_each_of_the_rest_does_not_work(capfd: pytest.CaptureFixture[str]) -> None:
    _code, printed = lines(capfd, "--simulate", "t4", "models", "--all", "--variants")
    _code, all_rows = rows(capfd, "--simulate", "t4", "models")
    refused = [number for number, line in enumerate(printed) if line.endswith(" NO")]
    assert len(refused) == len([row for row in all_rows if row["verdict"] == "no"])
    assert all(printed[number + 1].startswith("    ") for number in refused)


def test_a_filter_names_words_of_one_row(capfd: pytest.CaptureFixture[str]) -> None:
    code, found = rows(capfd, "--simulate", "gb10", "models", "--filter", "NVFP4 qwen3.6-27b")
    assert code == 0
    assert found
    assert all("nvfp4" in f"{row['variant']} {row['checkpoint']}".lower() for row in found)
    code, printed = lines(capfd, "--simulate", "gb10", "models", "--filter", "no-such-model")
    assert (code, printed) == (1, ["Nothing matches: no-such-model"])


def test_json_holds_every_row_with_disk_and_download(capfd: pytest.CaptureFixture[str]) -> None:
    _code, found = rows(capfd, "--simulate", "v100x10", "models")
    assert {row["verdict"] for row in found} == {"ok", "warn", "no"}
    assert all({"on_disk", "download_gib", "tokens_per_second"} <= set(row) for row in found)
    # Nothing of a recorded machine is on this disk.
    packed = [row for row in found if row["quantization"] == "bitsandbytes"]
    assert all(
        row["download_gib"] == pytest.approx(row["weights_gib"], abs=0.01)
        for row in found
        if row not in packed
    )
    # Packed into 4 bits while it is loaded: the files are those of 16 bit.
    assert packed
    assert all(row["download_gib"] > 2.5 * row["weights_gib"] for row in packed)


def test_a_runtime_may_be_a_version_that_is_not_here(capfd: pytest.CaptureFixture[str]) -> None:
    """vLLM 0.33 ships no code for sm_70; 0.19.1 does."""
    code, found = rows(capfd, "--simulate", "v100x10", "models", "--runtime", "0.33.0")
    assert code == 1
    assert {row["verdict"] for row in found} == {"no"}
    code, _found = rows(capfd, "--simulate", "v100x10", "models", "--runtime", "0.19.1")
    assert code == 0


def test_a_runtime_that_is_none_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--simulate", "gb10", "models", "--runtime", "/nope"]) == 2
    assert "/nope does not answer as a vLLM" in capfd.readouterr().err
