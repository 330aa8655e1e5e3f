"""Every fault of the base, recognised in lines as people publish them, and its first cure."""

from __future__ import annotations

import functools
import re
import string
import tomllib
from pathlib import Path
from typing import Any

import pytest

from wizard.diagnosis import Remedy, diagnose_text, edit_of
from wizard.diagnosis.faultbase import faults
from wizard.machine import Machine, load_machine
from wizard.plan import PlanEdit

ARGS = "(APIServer pid=1) INFO 11-30 10:00:00 [api_utils.py:286] non-default args: "
QWEN = ARGS + "{'model_tag': 'Qwen/Qwen3-Coder-30B-A3B-Instruct', 'port': 8765}\n"

FOLDER = Path(__file__).parents[1] / "data" / "faults"
CASES = [
    (file.stem, case)
    for file in sorted(FOLDER.glob("*.toml"))
    for case in tomllib.loads(file.read_text(encoding="utf-8"))["case"]
]
# One line, and not an answer as a whole nor a line with a beginning of its own.
BARE = [
    (fault, case)
    for fault, case in CASES
    if not ("\n" in case["text"] or case["text"].startswith(("{", "data:", "INFO:", "ERROR", "(", "WARNING")))
]
ALARMING = {fault.id for fault in faults() if fault.severity != "info"}

machine = functools.cache(load_machine)


def machine_of(case: dict[str, Any]) -> Machine | None:
    return machine(case["machine"]) if "machine" in case else None


@pytest.mark.parametrize(("fault", "case"), CASES, ids=[fault for fault, _ in CASES])
def test_a_fault_is_recognised_and_its_first_remedy_fits(fault: str, case: dict[str, Any]) -> None:
    found = diagnose_text((QWEN if case.get("log") else "") + case["text"] + "\n", machine=machine_of(case))
    assert found.verdict == ("failed" if fault in ALARMING else "healthy")
    finding = found.findings[case.get("place", 1) - 1]
    assert finding.fault == fault
    if "kind" in case:
        first = finding.remedies[0]
        assert first.kind == case["kind"]
        change = {name: None if value is True else value for name, value in case.get("change", {}).items()}
        assert {**first.set, **first.env} == change


@pytest.mark.parametrize(("fault", "case"), BARE, ids=[fault for fault, _ in BARE])
def test_a_carrier_and_a_process_before_a_line_change_nothing(fault: str, case: dict[str, Any]) -> None:
    """docker, compose and vLLM itself put something before every line."""
    for before in ("vllm-1  | ", "2026-11-30T20:15:01.123456789Z ", "(EngineCore_DP0 pid=77) "):
        found = diagnose_text(before + case["text"] + "\n", machine=machine_of(case))
        assert fault in [finding.fault for finding in found.findings[:2]]


def test_every_fault_of_the_base_has_its_cases_here() -> None:
    silent = {fault.id for fault in faults() if fault.silence}
    assert {fault for fault, _ in CASES} >= ALARMING - silent
    assert {fault for fault, _ in CASES} <= {fault.id for fault in faults()}


def test_every_value_a_remedy_asks_for_can_be_known() -> None:
    common = {"port", "other_port", "model", "model_parser", "served_name", "gpus"}
    for fault in faults():
        groups = {name for signature in fault.signature for name in re.compile(signature.pattern).groupindex}
        known = common | groups | {figure.name for figure in fault.figures}
        for remedy in fault.remedy:
            texts = [remedy.title, remedy.effect, *remedy.unset, *remedy.commands, *remedy.env.values()]
            texts += [value for value in remedy.set.values() if isinstance(value, str)]
            asked = {name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name}
            assert asked <= known, fault.id
            assert set(remedy.between) <= known, fault.id


def test_every_fault_names_public_sources_and_at_least_one_cure() -> None:
    for fault in faults():
        assert fault.sources, fault.id
        assert fault.remedy or fault.id not in ALARMING, fault.id


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
