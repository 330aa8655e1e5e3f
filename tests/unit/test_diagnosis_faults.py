"""Every fault of the base, recognised in a line as somebody writes it, and its first cure."""

from __future__ import annotations

import re
import string
import tomllib
from pathlib import Path
from typing import Any

import pytest

from wizard.diagnosis import Remedy, diagnose_text, edit_of
from wizard.diagnosis.faultbase import fault_base
from wizard.plan import PlanEdit

ARGS = "(APIServer pid=1) INFO 11-30 10:00:00 [api_utils.py:286] non-default args: "
QWEN = ARGS + "{'model_tag': 'Qwen/Qwen3-Coder-30B-A3B-Instruct', 'port': 8765}\n"

DATA = Path(__file__).parents[1] / "data" / "fault_lines.toml"
CASES = tomllib.loads(DATA.read_text(encoding="utf-8"))["case"]


@pytest.mark.parametrize("case", CASES, ids=[case["fault"] for case in CASES])
def test_a_fault_is_recognised_and_its_first_remedy_fits(case: dict[str, Any]) -> None:
    found = diagnose_text((QWEN if case.get("log") else "") + case["text"] + "\n")
    assert found.verdict == "failed"
    assert [finding.fault for finding in found.findings] == [case["fault"]]
    first = found.findings[0].remedies[0]
    assert first.kind == case["kind"]
    change = {name: None if value is True else value for name, value in case.get("change", {}).items()}
    assert {**first.set, **first.env} == change


def test_every_fault_of_the_base_has_its_line_here() -> None:
    assert {fault.id for fault in fault_base().fault} == {case["fault"] for case in CASES}


def test_every_value_a_remedy_asks_for_can_be_known() -> None:
    common = {"port", "other_port", "model", "model_parser", "served_name"}
    for fault in fault_base().fault:
        groups = {name for signature in fault.signature for name in re.compile(signature.pattern).groupindex}
        known = common | groups | {figure.name for figure in fault.figures}
        for remedy in fault.remedy:
            texts = [remedy.title, remedy.effect, *remedy.unset, *remedy.commands, *remedy.env.values()]
            texts += [value for value in remedy.set.values() if isinstance(value, str)]
            asked = {name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name}
            assert asked <= known, fault.id
            assert set(remedy.between) <= known, fault.id


def test_every_fault_names_public_sources_and_at_least_one_cure() -> None:
    for fault in fault_base().fault:
        assert fault.sources, fault.id
        assert fault.remedy, fault.id
        assert len({fault.id for fault in fault_base().fault}) == len(fault_base().fault)


def test_the_port_comes_from_the_log() -> None:
    remedies = diagnose_text(QWEN + "OSError: [Errno 98] Address already in use\n").findings[0].remedies
    assert remedies[0].commands == ("ss -ltnp 'sport = :8765'",)
    assert remedies[1].set == {"--port": "8766"}


def test_a_misspelt_option_is_left_out() -> None:
    remedy = (
        diagnose_text("vllm: error: unrecognized arguments: --max-model-lenn 2048\n").findings[0].remedies[0]
    )
    assert remedy.unset == ("--max-model-lenn",)


def test_a_remedy_becomes_an_edit_of_the_plan_or_none() -> None:
    inside = Remedy(title="t", kind="flag", set={"--max-model-len": "4096"}, unset=("--x",), env={"A": "1"})
    assert edit_of(inside) == PlanEdit(
        origin="remedy", title="t", set={"--max-model-len": "4096"}, unset=("--x",), env={"A": "1"}
    )
    assert edit_of(Remedy(title="t", kind="os", commands=("free -h",))) is None
