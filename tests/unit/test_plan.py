"""The launch plan: what is in it, why, and how it changes."""

from __future__ import annotations

import json
import shlex
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from wizard.errors import UsageError
from wizard.flow import Answers, Journey, choose_model, find_runtime, look_at_machine, make_plan, rate_models
from wizard.flow.answers import answers_from
from wizard.plan import LaunchPlan, PlanEdit, apply, describe, document, parse_arguments, shell, take_back


def planned(machine: str, **sections: dict[str, object]) -> LaunchPlan:
    raw = {"machine": {"simulate": machine}} | sections
    journey = Journey(answers=answers_from(raw, "test"))
    plan = make_plan(choose_model(rate_models(find_runtime(look_at_machine(journey))))).plan
    assert plan is not None
    return plan


@pytest.fixture(scope="module")
def gb10() -> LaunchPlan:
    return planned("gb10")


def test_the_seed_installation_comes_out_for_a_gb10(gb10: LaunchPlan) -> None:
    assert gb10.argv[:3] == ("vllm", "serve", "Qwen/Qwen3-Coder-Next-FP8")
    assert gb10.flag("--tool-call-parser") == "qwen3_coder"
    assert "--enable-auto-tool-choice" in gb10.argv
    assert gb10.served_model_name == "qwen3-coder-next-fp8"
    assert gb10.flag("--served-model-name") == "qwen3-coder-next-fp8"
    assert gb10.refused == ()


def test_unified_memory_is_not_handed_over_whole(gb10: LaunchPlan) -> None:
    assert float(gb10.flag("--gpu-memory-utilization") or 1) <= 0.85


def test_every_flag_and_variable_has_its_reason(gb10: LaunchPlan) -> None:
    subjects = {reason.subject for reason in gb10.reasons}
    assert {option.flag for option in gb10.options} <= subjects
    assert set(gb10.env) <= subjects
    assert all(reason.why and reason.source for reason in gb10.reasons)


def test_the_shell_rendering_is_one_command_with_these_words(gb10: LaunchPlan) -> None:
    words = shlex.split(shell(gb10).replace("\\\n", " "))
    assignments = dict(word.split("=", 1) for word in words[: len(gb10.env)])
    assert assignments == gb10.env
    assert tuple(words[len(gb10.env) :]) == gb10.argv
    assert subprocess.run(["sh", "-n", "-c", shell(gb10)], check=False, timeout=10).returncode == 0


def test_equal_answers_give_an_equal_id_and_other_ones_another() -> None:
    assert planned("gb10").id == planned("gb10").id
    assert planned("gb10").id != planned("gb10", serve={"port": 8001}).id


def test_an_edit_is_shown_applied_and_taken_back(gb10: LaunchPlan) -> None:
    edit = PlanEdit(
        origin="remedy",
        title="eager",
        set={"--enforce-eager": None, "--max-model-len": "4096"},
        unset=("--reasoning-parser",),
        env={"VLLM_USE_FLASHINFER_SAMPLER": "1", "VLLM_NO_USAGE_STATS": None},
    )
    edited = apply(gb10, edit)
    assert "--enforce-eager" in edited.argv
    assert edited.flag("--max-model-len") == "4096"
    assert edited.env == {"VLLM_USE_FLASHINFER_SAMPLER": "1"}
    assert edited.id != gb10.id
    assert describe(edit) == (
        "+ --enforce-eager",
        "+ --max-model-len 4096",
        "- --reasoning-parser",
        "+ VLLM_USE_FLASHINFER_SAMPLER=1",
        "- VLLM_NO_USAGE_STATS",
    )
    assert take_back(edited, edit) == gb10


def test_volta_is_served_in_half_precision_inside_one_nvlink_island() -> None:
    plan = planned("v100x10", model={"id": "qwen3-coder-30b-a3b", "variant": "bf16"})
    assert plan.flag("--dtype") == "half"
    assert plan.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    devices = [int(index) for index in plan.env["CUDA_VISIBLE_DEVICES"].split(",")]
    assert any(set(devices) <= island for island in ({0, 1, 2, 3}, {4, 5, 8, 9}, {6, 7}))
    assert plan.flag("--tensor-parallel-size") == str(len(devices))


def test_two_cards_without_nvlink_serve_together() -> None:
    plan = planned("rtx4090x2", model={"id": "qwen3-coder-30b-a3b", "variant": "fp8"})
    assert plan.flag("--tensor-parallel-size") == "2"


def test_a_network_address_without_a_key_is_refused() -> None:
    plan = planned("gb10", serve={"host": "0.0.0.0"})
    assert [reason.code for reason in plan.refused] == ["open-without-key"]


def test_a_key_never_appears_in_the_plan(tmp_path: object) -> None:
    plan = planned("gb10", serve={"host": "0.0.0.0", "api_key_file": "/secret/key"})
    assert plan.refused == ()
    assert "--api-key" not in plan.argv
    assert 'VLLM_API_KEY="$(cat /secret/key)"' in shell(plan)


def test_extra_arguments_are_the_users_edit() -> None:
    plan = planned("gb10", serve={"extra_args": ["--enforce-eager", "--max-num-seqs", "8"]})
    assert plan.flag("--max-num-seqs") == "8"
    assert [edit.origin for edit in plan.edits] == ["user"]


@pytest.mark.parametrize(
    "arguments", [["--port", "1"], ["--host=x"], ["--served-model-name", "x"], ["--api-key", "x"]]
)
def test_extra_arguments_cannot_contradict_the_plan(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match=arguments[0].partition("=")[0]):
        planned("gb10", serve={"extra_args": arguments})


def test_a_stray_word_is_not_an_argument() -> None:
    with pytest.raises(UsageError, match="eager"):
        parse_arguments(["eager"])


def test_the_document_has_the_fields_of_the_contract(gb10: LaunchPlan) -> None:
    built = document(gb10)
    assert set(built) == {"plan", "reasons", "refused"}
    plan = built["plan"]
    assert isinstance(plan, dict)
    assert {
        "id",
        "runtime",
        "argv",
        "env",
        "files",
        "served_model_name",
        "base_url",
        "limits",
        "memory",
    } <= set(plan)
    assert plan["base_url"] == "http://127.0.0.1:8000/v1"


def test_answers_and_defaults_build_the_same_plan() -> None:
    assert planned("gb10").id == planned("gb10", model={"id": "qwen3-coder-next"}).id
    assert Answers() == answers_from({}, "test")


def test_a_70b_model_on_ten_v100_says_where_it_goes_and_why() -> None:
    plan = planned("v100x10", model={"id": "meta-llama/Llama-3.3-70B-Instruct"})
    assert plan.refused == ()
    assert (plan.flag("--tensor-parallel-size"), plan.flag("--pipeline-parallel-size")) == ("4", "2")
    assert plan.flag("--dtype") == "half"
    assert plan.env["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,8,9"
    assert plan.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    why = {reason.subject: "" for reason in plan.reasons}
    for reason in plan.reasons:
        why[reason.subject] += reason.why
    assert "GPUs 6, 7 stay free" in why["GPUs"]
    assert all(name in why["quantization"] for name in ("FP8", "AWQ", "GPTQ"))


def test_ranks_follow_the_islands_even_when_every_gpu_is_used(tmp_path: Path) -> None:
    """Bridged pairs 0, 2 and 1, 3: in the machine's own order a group would leave its pair."""
    document = json.loads((resources.files("assets") / "machines" / "dgx1.json").read_text(encoding="utf-8"))
    gpus = document["machine"]["gpus"]
    pairs = [{0: 6, 2: 6}, {1: 6, 3: 6}]
    for gpu in gpus[:4]:
        pair = next(pair for pair in pairs if gpu["index"] in pair)
        gpu["links"] = {str(peer): 6 for peer in pair if peer != gpu["index"]}
    document["machine"]["gpus"] = gpus[:4]
    file = tmp_path / "bridged.json"
    file.write_text(json.dumps(document))
    plan = planned(str(file), model={"id": "qwen3-coder-30b-a3b", "variant": "bf16"})
    assert plan.flag("--pipeline-parallel-size") == "2"
    assert plan.env["CUDA_VISIBLE_DEVICES"] == "0,2,1,3"


def test_a_pipeline_over_every_gpu_names_their_order() -> None:
    plan = planned("dgx1", model={"id": "llama-3.3-70b"})
    assert plan.env["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"
    assert plan.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_gpu_that_is_mostly_taken_is_a_warning_with_the_figures(tmp_path: Path) -> None:
    content = json.loads((resources.files("assets") / "machines" / "h200.json").read_text())
    content["machine"]["gpus"][0]["memory_free_mib"] = 9000
    file = tmp_path / "taken.json"
    file.write_text(json.dumps(content))
    (warning,) = [each for each in planned(str(file)).warnings if each.code == "gpu-taken"]
    # 9000 of 143771 MiB are 8.8 of 140.4 GiB.
    assert warning.text.startswith("GPU 0 has 8.8 of 140.4 GiB free now")
    assert not [each for each in planned("h200").warnings if each.code == "gpu-taken"]


def test_volta_is_told_its_attention_and_packs_what_is_asked_in_four_bits() -> None:
    plan = planned("v100x10", model={"id": "qwen3-32b", "variant": "bnb-4bit"})
    assert {
        ("--attention-backend", "TRITON_ATTN"),
        ("--quantization", "bitsandbytes"),
        ("--dtype", "half"),
    } <= {(option.flag, option.value) for option in plan.options}
    assert not plan.refused
    why = [reason.why for reason in plan.reasons if reason.subject == "--attention-backend"]
    assert any("0.19.1" in text and "FLASH_ATTN needs compute capability 8.0" in text for text in why)


def test_a_cache_type_no_kernel_keeps_refuses_the_plan_and_one_that_some_keep_does_not() -> None:
    model: dict[str, object] = {"id": "qwen3-4b"}
    refused = planned("t4", model=model, budget={"kv_cache_dtype": "fp8"}).refused
    assert [reason.code for reason in refused] == ["cache-type-impossible"]
    assert not planned("t4", model=model).refused
    assert not planned("rtx4090x2", model=model, budget={"kv_cache_dtype": "fp8"}).refused
