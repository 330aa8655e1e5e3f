"""Which names the tables give to which version of vLLM, against a list taken down apart from them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

from wizard import catalog
from wizard.runtime import assumed_runtime

DATA = Path(__file__).parents[1] / "data" / "parser_versions.toml"
SEEN: dict[catalog.ParserKind, dict[str, list[str]]] = tomllib.loads(DATA.read_text())
OLDEST_READ = "0.8.5"


@pytest.mark.parametrize("kind", ["tool", "reasoning"])
def test_ranges_of_parsers_are_those_of_the_releases(kind: catalog.ParserKind) -> None:
    listed = {entry.name: [entry.first_version, entry.last_version] for entry in catalog.parsers(kind)}
    floor = catalog.vllm_facts().support_floor
    # What the oldest release read has is taken to be as old as the oldest supported one.
    expected = {
        name: [floor if first == OLDEST_READ else first, last] for name, (first, last) in SEEN[kind].items()
    }
    assert listed == expected


@pytest.mark.parametrize("version", ["0.8.0", "0.8.4", "0.10.2", "0.19.1", "0.24.0", "0.33.0", "0.34.1"])
def test_an_assumed_vllm_has_the_parsers_of_its_version(version: str) -> None:
    runtime = assumed_runtime(version)
    asked = min(max(Version(version), Version(OLDEST_READ)), Version(catalog.vllm_facts().newest))
    for kind, names in (("tool", runtime.tool_parsers), ("reasoning", runtime.reasoning_parsers)):
        seen = SEEN[kind].items()
        assert set(names) == {
            name for name, (first, last) in seen if Version(first) <= asked <= Version(last)
        }


def test_ranges_of_options_are_in_order_and_say_something() -> None:
    facts = catalog.flag_facts()
    for entry in (*facts.flag, *facts.variable):
        assert entry.since or entry.until or entry.changed, entry.name
        order = [Version(mark) for mark in (entry.since, entry.changed, entry.until) if mark]
        assert order == sorted(order), entry.name
        assert entry.until is None or entry.instead or entry.notes, entry.name
    assert all(entry.name.startswith("--") for entry in facts.flag)


def test_the_default_that_changed_is_the_one_the_memory_arithmetic_uses() -> None:
    entry = next(flag for flag in catalog.flag_facts().flag if flag.name == "--gpu-memory-utilization")
    before, after = catalog.vllm_facts().memory_utilization
    assert entry.changed == after.since
    assert f"from {before.value:g} to {after.value:g}" in entry.notes
