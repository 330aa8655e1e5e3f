"""What a model of the catalogue needs besides its weights: seen in verdict, choice and plan."""

from __future__ import annotations

import pytest

from wizard import catalog
from wizard.compat import Choice, Row, Wishes, choose, find_row, matrix
from wizard.flow import Journey, choose_model, find_runtime, look_at_machine, make_plan, rate_models
from wizard.flow.answers import answers_from
from wizard.machine import load_machine
from wizard.memory import EngineSettings
from wizard.plan import LaunchPlan
from wizard.runtime import assumed_runtime


def row_of(machine: str, model: str, variant: str | None = None, version: str | None = None) -> Row:
    version = version or catalog.vllm_facts().newest
    rows = matrix(load_machine(machine), assumed_runtime(version), EngineSettings(vllm_version=version))
    return find_row(rows, catalog.model(model), model, variant)


def chosen(machine: str, model: str, wishes: Wishes) -> Choice:
    return choose(row_of(machine, model), assumed_runtime(catalog.vllm_facts().newest), wishes)


def codes(of: Row | Choice) -> dict[str, bool]:
    """The reasons by code, and whether they refuse."""
    return {reason.code: reason.refuses for reason in of.reasons}


def text(of: Row | Choice, code: str) -> str:
    (found,) = [reason.text for reason in of.reasons if reason.code == code]
    return found


def test_a_parser_that_loses_the_calls_of_a_model_is_refused() -> None:
    wrong = chosen("gb10", "qwen3-coder-next", Wishes(parser="hermes"))
    assert codes(wrong)["wrong-parser"]
    assert "hermes" in text(wrong, "wrong-parser")
    assert "qwen3_coder" in text(wrong, "wrong-parser")
    assert "wrong-parser" not in codes(chosen("gb10", "qwen3-coder-next", Wishes(parser="qwen3_xml")))
    assert "wrong-parser" not in codes(chosen("gb10", "qwen3-32b", Wishes(parser="hermes")))


def test_a_template_that_the_wheel_does_not_have_is_a_caveat() -> None:
    row = row_of("b200x8", "deepseek-v3.1", "fp8")
    assert codes(row)["chat-template"] is False
    assert row.verdict == "warn"
    assert "tool_chat_template_deepseekv31.jinja" in text(row, "chat-template")


def test_gated_weights_are_told_and_copies_of_others_are_not_gated() -> None:
    assert codes(row_of("h200x2", "llama-3.3-70b", "bf16"))["gated"] is False
    assert "gated" not in codes(row_of("h200x2", "llama-3.3-70b", "nvidia-fp8"))


def test_a_plugin_is_named_and_the_model_refused_for_not_streaming() -> None:
    row = row_of("h200", "nemotron-nano-9b-v2", "bf16")
    assert row.verdict == "no"
    assert "parser-unknown" not in codes(row)
    assert codes(row)["model-cannot-call-tools"]
    assert "nemotron_toolcall_parser_no_streaming.py" in text(row, "parser-plugin")


def test_a_model_without_a_parser_is_refused() -> None:
    row = row_of("b200x8", "ling-2.6-flash")
    assert (row.parser, row.verdict) == (None, "no")
    assert codes(row)["no-parser"]


@pytest.mark.parametrize(("version", "parser"), [("0.23.0", "glm45"), ("0.24.0", "glm47")])
def test_the_matrix_takes_the_parser_of_the_version_at_hand(version: str, parser: str) -> None:
    row = row_of("hgx-h100x8", "glm-4.7", "fp8", version)
    assert (row.reasoning_parser, row.verdict) == (parser, "ok")


def planned(**sections: dict[str, object]) -> LaunchPlan:
    raw = {"machine": {"simulate": "b200x8"}} | sections
    journey = look_at_machine(Journey(answers=answers_from(raw, "test")))
    plan = make_plan(choose_model(rate_models(find_runtime(journey)))).plan
    assert plan is not None
    return plan


def test_what_a_model_needs_in_its_environment_is_in_the_plan() -> None:
    plan = planned(model={"id": "zai-org/GLM-5.3-Flash"})
    assert plan.env["VLLM_ENGINE_READY_TIMEOUT_S"] == "3600"
    assert "VLLM_ENGINE_READY_TIMEOUT_S" in {reason.subject for reason in plan.reasons}


def test_what_the_user_asks_for_goes_before_what_the_model_brings() -> None:
    model: dict[str, object] = {"id": "deepseek-ai/DeepSeek-V4-Flash"}
    assert planned(model=model).flag("--kv-cache-dtype") == "fp8"
    asked = planned(model=model, budget={"kv_cache_dtype": "fp8_e4m3"})
    assert asked.flag("--kv-cache-dtype") == "fp8_e4m3"
    assert asked.argv.count("--kv-cache-dtype") == 1
