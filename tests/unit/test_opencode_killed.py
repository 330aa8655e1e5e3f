"""A write that is killed at any moment leaves the old file or the new one, whole."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

MEMORY = Path("/dev/shm")
BACKUP = "opencode.json.2026-11-30.bak"


@pytest.fixture(scope="module")
def kills() -> list[dict[str, Any]]:
    """One record for each moment at which a write was killed, and for each write that came to its end."""
    script = Path(__file__).with_name("killed.py")
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        command = [sys.executable, str(script), str(Path(folder) / "home")]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_the_old_file_or_the_new_one(kills: list[dict[str, Any]]) -> None:
    assert sum(kill["died"] for kill in kills) > 100
    for kill in kills:
        assert kill["left"].get("opencode.json") in (kill["old"], kill["new"])
        assert kill["died"] or kill["left"]["opencode.json"] == kill["new"]
    both = [
        {kill["left"].get("opencode.json") for kill in kills if kill["died"] and kill["old"] == old}
        for old in {kill["old"] for kill in kills}
    ]
    assert all(len(seen) == 2 for seen in both), "kills before and after the decisive step"


def test_nothing_is_replaced_without_its_backup(kills: list[dict[str, Any]]) -> None:
    replaced = [kill for kill in kills if kill["old"] and kill["left"]["opencode.json"] == kill["new"]]
    assert replaced
    for kill in replaced:
        assert kill["left"][BACKUP] == kill["old"]


def test_what_is_left_over_is_nothing_opencode_reads(kills: list[dict[str, Any]]) -> None:
    for kill in kills:
        for name in kill["left"].keys() - {"opencode.json", BACKUP}:
            assert name.startswith(".opencode.json.")
            assert name.endswith(".tmp")
