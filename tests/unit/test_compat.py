"""The matrix: right verdicts for the machines of the seeds, and for copies of them that were edited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wizard import catalog, paths
from wizard.compat import (
    Row,
    Wishes,
    choose,
    choose_best,
    choose_checkpoint,
    find_row,
    matrix,
    served_name,
    version_for,
)
from wizard.compat.groups import gpu_groups
from wizard.errors import RefusedError, UnknownNameError, UsageError
from wizard.machine import GpuState, Machine, load_machine
from wizard.memory import EngineSettings
from wizard.runtime import Runtime, assumed_runtime

MACHINES = Path(str(paths.__file__)).parents[1] / "assets" / "machines"


def rated(machine: Machine, runtime: Runtime | None = None) -> tuple[Row, ...]:
    runtime = runtime or assumed_runtime(version_for(machine))
    return matrix(
        machine, runtime, EngineSettings(vllm_version=runtime.version or catalog.vllm_facts().newest)
    )


def edited(tmp_path: Path, name: str, edit: Any) -> Machine:
    """A copy of a recorded machine with its file edited by hand."""
    content = json.loads((MACHINES / f"{name}.json").read_text(encoding="utf-8"))
    edit(content["machine"])
    file = tmp_path / f"{name}-edited.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    return load_machine(str(file))


def codes(row: Row) -> set[str]:
    return {reason.code for reason in row.reasons}


def test_the_seed_of_the_gb10_leads_on_a_gb10() -> None:
    best = rated(load_machine("gb10"))[0]
    assert (best.checkpoint, best.parser, best.verdict) == ("Qwen/Qwen3-Coder-Next-FP8", "qwen3_coder", "ok")
    assert "native" in codes(best)


def test_a_gb10_that_were_a_volta_runs_no_fp8(tmp_path: Path) -> None:
    def volta(machine: dict[str, Any]) -> None:
        machine["gpus"][0]["compute_capability"] = "7.0"

    rows = rated(edited(tmp_path, "gb10", volta))
    assert all(row.verdict == "no" for row in rows if row.quantization.startswith("fp8"))
    assert any(row.verdict != "no" for row in rows)


def test_with_half_the_memory_another_model_leads(tmp_path: Path) -> None:
    def halve(machine: dict[str, Any]) -> None:
        for name in ("total_mib", "available_mib", "free_mib"):
            machine["memory"][name] //= 2

    assert rated(edited(tmp_path, "gb10", halve))[0].model != "qwen3-coder-next"


def test_qwen25_coder_is_refused_for_its_wire_format_on_every_machine() -> None:
    rows = [row for row in rated(load_machine("h200")) if row.model == "qwen2.5-coder-32b"]
    assert rows
    assert all(row.verdict == "no" and "model-cannot-call-tools" in codes(row) for row in rows)


@pytest.mark.parametrize(
    ("variant", "code"),
    [("fp8", "format-impossible"), ("mxfp4", "format-impossible"), ("bf16", "fallback-format")],
)
def test_what_volta_can_and_cannot_run(variant: str, code: str) -> None:
    rows = [row for row in rated(load_machine("v100x10")) if row.variant == variant]
    assert rows
    assert all(code in codes(row) for row in rows)


def test_volta_is_offered_the_last_vllm_that_has_code_for_it() -> None:
    assert version_for(load_machine("v100x10")) == "0.19.1"
    assert version_for(load_machine("gb10")) == catalog.vllm_facts().newest
    assert version_for(load_machine("no-gpu")) == catalog.vllm_facts().newest


def test_a_newer_vllm_on_volta_is_refused_for_its_build() -> None:
    rows = rated(load_machine("v100x10"), assumed_runtime("0.33.0"))
    assert all("gpu-not-in-build" in codes(row) and row.verdict == "no" for row in rows)


def test_without_a_gpu_nothing_works_and_it_says_so() -> None:
    rows = rated(load_machine("no-gpu"))
    assert all(row.verdict == "no" and "no-gpu" in codes(row) for row in rows)
    with pytest.raises(RefusedError, match="No usable GPU"):
        choose_best(rows, assumed_runtime(), Wishes())


def test_an_installed_vllm_is_believed_before_the_table() -> None:
    runtime = msgspec.structs.replace(
        assumed_runtime(), kind="venv", tool_parsers=("hermes",), reasoning_parsers=("qwen3",)
    )
    row = next(row for row in rated(load_machine("gb10"), runtime) if row.model == "qwen3-coder-next")
    assert row.verdict == "no"
    assert "parser-unknown" in codes(row)


def test_what_only_the_table_says_is_not_called_asked() -> None:
    reasons = [reason for row in rated(load_machine("gb10")) for reason in row.reasons]
    assert not any("asked" in reason.source for reason in reasons)


def test_an_old_vllm_lacks_the_model() -> None:
    row = find_row(
        rated(load_machine("h200"), assumed_runtime("0.9.2")), catalog.model("gpt-oss-120b"), "gpt-oss-120b"
    )
    assert "vllm-too-old" in codes(row)


def test_rows_that_work_come_first_and_better_models_before_others() -> None:
    rows = rated(load_machine("h200x2"))
    order = {"ok": 0, "warn": 1, "no": 2}
    assert [order[row.verdict] for row in rows] == sorted(order[row.verdict] for row in rows)
    working = [row for row in rows if row.verdict == "ok"]
    ranks = [(row.max_context is None, catalog.model(row.model).rank) for row in working]
    assert ranks == sorted(ranks), "a known window first, then the better model"


@pytest.mark.parametrize("name", ["gb10", "v100x10", "h200", "h200x2", "rtx4090x2"])
def test_a_tensor_parallel_group_never_leaves_an_island_nor_mixes_cards(name: str) -> None:
    machine = load_machine(name)
    islands = [set(group) for group in machine.nvlink_groups]
    for group in gpu_groups(machine):
        for start in range(0, len(group.gpus), group.tensor):
            stage = group.gpus[start : start + group.tensor]
            inside = [island for island in islands if island & {gpu.index for gpu in stage}]
            assert len(inside) <= 1
            assert len({(gpu.name, gpu.memory_mib) for gpu in stage}) == 1
        assert group.tensor * group.pipeline == len(group.gpus)


def test_the_seeds_pipeline_over_both_quads_is_among_the_groups() -> None:
    groups = gpu_groups(load_machine("v100x10"))
    assert any(
        group.indices == (0, 1, 2, 3, 4, 5, 8, 9) and (group.tensor, group.pipeline) == (4, 2)
        for group in groups
    )


def test_only_allowed_gpus_are_used() -> None:
    groups = gpu_groups(load_machine("v100x10"), (6, 7))
    assert {index for group in groups for index in group.indices} == {6, 7}


def test_a_variant_is_found_by_its_name_its_format_or_its_checkpoint() -> None:
    rows, entry = rated(load_machine("h200")), catalog.model("qwen3-coder-30b-a3b")
    assert find_row(rows, entry, entry.id, "bf16").variant == "bf16"
    assert find_row(rows, entry, "Qwen/Qwen3-Coder-30B-A3B-Instruct").variant == "bf16"
    assert find_row(rows, entry, "Qwen3-Coder-30B-A3B-Instruct-FP8").variant == "fp8"
    with pytest.raises(UnknownNameError, match="fp16"):
        find_row(rows, entry, entry.id, "fp16")


def test_the_name_of_a_model_is_not_taken_for_its_checkpoint() -> None:
    # "Qwen3-Coder-Next" is the model and also the end of the BF16 checkpoint's hub id.
    rows = rated(load_machine("gb10"))
    assert find_row(rows, catalog.model("qwen3-coder-next"), "qwen3-coder-next").variant == "fp8"


@pytest.mark.parametrize(
    ("checkpoint", "name"),
    [
        ("Qwen/Qwen3-Coder-Next-FP8", "qwen3-coder-next-fp8"),
        ("/models/My Model#1/", "my-model-1"),
        ("///", "model"),
    ],
)
def test_the_served_name_is_short_and_keeps_the_family(checkpoint: str, name: str) -> None:
    assert served_name(checkpoint) == name


def test_a_parser_nobody_knows_is_refused_with_the_nearest() -> None:
    rows, runtime = rated(load_machine("gb10")), assumed_runtime()
    with pytest.raises(UnknownNameError, match="qwen3_coder"):
        choose(rows[0], runtime, Wishes(parser="qwen3-coder"))


def checkpoint_folder(tmp_path: Path, config: str) -> Path:
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 2**20)
    return tmp_path


def test_a_local_folder_is_read_and_needs_its_parser_named(tmp_path: Path) -> None:
    machine, runtime = load_machine("h200"), assumed_runtime()
    folder = checkpoint_folder(tmp_path, '{"max_position_embeddings": 40960, "architectures": ["X"]}')
    choice = choose_checkpoint("mine", machine, runtime, Wishes(path=str(folder), parser="hermes"))
    assert choice.context == 40960
    assert choice.weights_gib == pytest.approx(1 / 1024)
    assert choice.gpus == (0,)
    with pytest.raises(RefusedError, match=r"parser of mine is not known.*chat template.*\[model\] parser"):
        choose_checkpoint("mine", machine, runtime, Wishes(path=str(folder)))
    with pytest.raises(UsageError, match="no folder"):
        choose_checkpoint("mine", machine, runtime, Wishes(path="mine/not-there", parser="hermes"))


# Qwen3-8B's config.json: 8.19 B parameters, 36 layers of 8 heads of 128: 144 KiB of cache a token.
QWEN3_8B = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}
HERMES = (
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>'
    "{% endfor %}{% endfor %}"
)


def qwen3_8b(folder: Path) -> Path:
    (folder / "config.json").write_text(json.dumps(QWEN3_8B))
    (folder / "chat_template.jinja").write_text(HERMES)
    return folder


def test_a_checkpoint_outside_the_catalogue_is_rated_as_the_matrix_rates(tmp_path: Path) -> None:
    folder = qwen3_8b(tmp_path)
    choice = choose_checkpoint("mine", load_machine("h200"), assumed_runtime(), Wishes(path=str(folder)))
    assert (choice.parser, choice.quantization, choice.context) == ("hermes", "bf16", 40960)
    assert choice.weights_gib == pytest.approx(8.19e9 * 2 / 2**30, rel=0.01)
    codes = {reason.code for reason in choice.reasons}
    assert {"not-in-catalogue", "parser-derived", "native", "fits"} <= codes
    assert not any(reason.refuses for reason in choice.reasons)


def test_a_checkpoint_that_does_not_fit_says_so(tmp_path: Path) -> None:
    folder = qwen3_8b(tmp_path)
    choice = choose_checkpoint(
        "mine", load_machine("t4"), assumed_runtime("0.19.1"), Wishes(path=str(folder))
    )
    refusals = {reason.code for reason in choice.reasons if reason.refuses}
    # 15.3 GiB of weights on 15 GiB, of which vLLM takes a share.
    assert "does-not-fit" in refusals


def test_a_parser_that_is_only_likely_says_so_and_one_that_is_named_is_not_doubted(tmp_path: Path) -> None:
    machine, runtime = load_machine("h200"), assumed_runtime()
    folder = qwen3_8b(tmp_path)
    (folder / "config.json").write_text(json.dumps({**QWEN3_8B, "model_type": "", "architectures": ["X"]}))
    derived = choose_checkpoint("mine", machine, runtime, Wishes(path=str(folder)))
    assert [reason.code for reason in derived.reasons if "parser" in reason.code] == ["parser-likely"]
    named = choose_checkpoint("mine", machine, runtime, Wishes(path=str(folder), parser="mistral"))
    assert named.parser == "mistral"
    assert not any(reason.code in ("parser-likely", "parser-derived") for reason in named.reasons)


def test_a_folder_without_one_of_its_weight_files_is_refused(tmp_path: Path) -> None:
    folder = qwen3_8b(tmp_path)
    shards = [f"model-0000{number}-of-00004.safetensors" for number in range(1, 5)]
    index = {"weight_map": {f"layer.{number}": name for number, name in enumerate(shards)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in shards[:3]:
        (folder / name).touch()
    choice = choose_checkpoint("mine", load_machine("h200"), assumed_runtime(), Wishes(path=str(folder)))
    (refused,) = (reason for reason in choice.reasons if reason.refuses)
    assert refused.code == "weights-missing"
    assert refused.text == "1 of its 4 weight files is not here: model-00004-of-00004.safetensors."


def test_a_weight_format_nobody_here_knows_is_doubted(tmp_path: Path) -> None:
    folder = qwen3_8b(tmp_path)
    strange = {**QWEN3_8B, "quantization_config": {"quant_method": "exl3", "bits": 3.5}}
    (folder / "config.json").write_text(json.dumps(strange))
    choice = choose_checkpoint("mine", load_machine("h200"), assumed_runtime(), Wishes(path=str(folder)))
    assert [reason.code for reason in choice.reasons if reason.doubts] == ["format-unknown"]
    assert any("exl3" in reason.text for reason in choice.reasons)


def test_a_hub_id_that_cannot_be_looked_up_is_taken_at_its_word_once_its_parser_is_named() -> None:
    machine, runtime = load_machine("h200"), assumed_runtime()
    with pytest.raises(RefusedError, match="offline"):
        choose_checkpoint("org/model", machine, runtime, Wishes(), offline=True)
    choice = choose_checkpoint("org/model", machine, runtime, Wishes(parser="hermes"), offline=True)
    assert (choice.checkpoint, choice.parser, choice.weights_gib) == ("org/model", "hermes", None)
    assert "not-read" in {reason.code for reason in choice.reasons}


@pytest.mark.parametrize("config", ["[1]", "{", "\u0000", "[" * 100_000])
def test_a_folder_with_a_broken_config_is_refused(tmp_path: Path, config: str) -> None:
    folder = checkpoint_folder(tmp_path, config)
    with pytest.raises(UsageError, match=r"config\.json"):
        choose_checkpoint(
            "mine", load_machine("h200"), assumed_runtime(), Wishes(path=str(folder), parser="hermes")
        )


@pytest.fixture
def overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "assets.d"
    folder.mkdir()
    monkeypatch.setattr(paths, "overlay_dir", lambda: folder)
    catalog.clear_cache()
    yield folder
    monkeypatch.undo()
    catalog.clear_cache()


def test_a_model_of_the_users_own_enters_the_matrix_and_the_choice(overlay: Path) -> None:
    (overlay / "mine.toml").write_text(
        """
[[model]]
id = "house-coder"
name = "House Coder 7B"
rank = 0
params_b = 7
active_params_b = 7
context = 65536
architecture = "LlamaForCausalLM"
tool_parser = "hermes"
min_vllm = "0.10.0"
[[model.variants]]
id = "bf16"
checkpoint = "house/coder-7b"
quantization = "bf16"
weights_gib = 14.0
""",
        encoding="utf-8",
    )
    rows = rated(load_machine("rtx4090x2"))
    assert rows[0].model == "house-coder"
    choice = choose_best(rows, assumed_runtime(), Wishes())
    assert choice.served_model_name == "coder-7b"


def reason(row: Row, code: str) -> str:
    return next(reason.text for reason in row.reasons if reason.code == code)


def best(name: str, model: str) -> Row:
    return next(row for row in rated(load_machine(name)) if row.model == model)


@pytest.mark.parametrize("model", ["llama-3.3-70b", "qwen2.5-72b"])
def test_seventy_billion_weights_in_half_precision_take_both_quads_of_the_ten_v100(model: str) -> None:
    # 131 GiB and 135 GiB: more than the 128 GiB of four cards, so that one quad is too small.
    row = best("v100x10", model)
    assert row.variant == "bf16"
    assert row.verdict != "no"
    assert row.gpus == (0, 1, 2, 3, 4, 5, 8, 9)
    assert (row.tensor_parallel_size, row.pipeline_parallel_size) == (4, 2)
    assert "GPUs 6, 7 stay free" in reason(row, "gpus-left")


def test_a_smaller_model_stays_inside_one_quad_and_the_rest_is_named() -> None:
    row = next(
        row
        for row in rated(load_machine("v100x10"))
        if (row.model, row.variant) == ("qwen3-coder-30b-a3b", "bf16")
    )
    assert (row.gpus, row.tensor_parallel_size, row.pipeline_parallel_size) == ((0, 1, 2, 3), 4, 1)
    assert "4, 5, 8, 9; 6, 7" in reason(row, "gpus-left")


def test_what_volta_has_no_kernels_for_is_said_once_and_not_offered() -> None:
    rows = rated(load_machine("v100x10"))
    text = reason(best("v100x10", "llama-3.3-70b"), "formats-ruled-out")
    assert all(name in text for name in ("7.0", "FP8", "AWQ INT4", "GPTQ INT4", "MXFP4"))
    assert "BF16" not in text
    assert "FP16" not in text
    offered = {row.quantization for row in rows if row.verdict != "no"}
    assert offered == {"bf16", "bitsandbytes"}


@pytest.mark.parametrize(
    ("name", "formats"), [("t4", {"FP8 (ModelOpt)", "MXFP4", "MXFP8"}), ("h200", set()), ("rtx4090x2", set())]
)
def test_newer_generations_rule_out_less(name: str, formats: set[str]) -> None:
    row = rated(load_machine(name))[0]
    found = [reason.text for reason in row.reasons if reason.code == "formats-ruled-out"]
    named = set(found[0].rpartition(": ")[2].rstrip(".").split(", ")) if found else set()
    assert named == formats


def test_dgx1_pipelines_over_its_quads_and_an_nvswitch_host_does_not() -> None:
    old = best("dgx1", "llama-3.3-70b")
    assert (old.gpus, old.tensor_parallel_size, old.pipeline_parallel_size) == (tuple(range(8)), 4, 2)
    assert "gpus-left" not in codes(old)
    new = best("hgx-h100x8", "glm-4.5-air")
    assert new.pipeline_parallel_size == 1


def test_gpus_that_cannot_reach_each_other_are_named() -> None:
    machine = load_machine("rtx4090x2")
    blocked = msgspec.structs.replace(
        machine.gpus[0], state=GpuState(blocked_peers={"1": "gpu-not-supported"})
    )
    apart = msgspec.structs.replace(machine, gpus=(blocked, machine.gpus[1]))
    row = next(row for row in rated(apart) if len(row.gpus) == 2)
    assert "NCCL_P2P_DISABLE" in reason(row, "peers-blocked")
