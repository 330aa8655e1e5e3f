"""The KV-cache arithmetic against what vLLM itself printed, and against its sizes for published shapes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wizard.catalog import memory_facts, model
from wizard.errors import UnknownNameError
from wizard.memory import (
    AttentionLayers,
    CacheLayout,
    EngineSettings,
    LatentLayers,
    StateLayers,
    cache_layout,
    kv_plan,
    longest_window,
    weights_gib,
)

GIB = 1 << 30
STARTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "memory_truth.json").read_text(encoding="utf-8")
)["starts"]
MEASURED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "memory_measured.json").read_text(encoding="utf-8")
)["starts"]
RECORDED = pytest.mark.parametrize("start", STARTS, ids=[start["case"] for start in STARTS])


def settings_of(start: dict[str, Any]) -> EngineSettings:
    """The settings of a recorded start; vLLM logged a batch of 8192 tokens where none was asked for."""
    return msgspec.convert({"max_num_batched_tokens": 8192} | start["settings"], EngineSettings)


def layout_of(config: dict[str, Any]) -> CacheLayout:
    layout = cache_layout(config)
    assert layout is not None
    return layout


def newest(**changes: Any) -> EngineSettings:
    whole: dict[str, Any] = {"vllm_version": "0.33.0", "max_num_batched_tokens": 8192}
    return EngineSettings(**(whole | changes))


@RECORDED
def test_a_recorded_start_is_predicted(start: dict[str, Any]) -> None:
    said, settings = start["said"], settings_of(start)
    layout, window = layout_of(start["config"]), start["settings"]["max_model_len"]
    # vLLM printed the memory rounded to 0.01 GiB: the truth lies between the two ends.
    low = kv_plan(layout, settings, said["available_kv_gib"] - 0.005, window)
    high = kv_plan(layout, settings, said["available_kv_gib"] + 0.005, window)
    if "kv_cache_tokens" in said:
        assert low.cache_tokens <= said["kv_cache_tokens"] <= high.cache_tokens
        assert low.max_concurrency - 0.005 <= said["max_concurrency"] <= high.max_concurrency + 0.005
        assert high.cache_tokens - low.cache_tokens < 0.001 * said["kv_cache_tokens"]
    if "num_gpu_blocks" in said:
        blocks = said["num_gpu_blocks"]
        assert low.num_blocks <= blocks <= high.num_blocks
        exact = kv_plan(layout, settings, (blocks + 0.5) * low.bytes_per_block / GIB, window)
        assert exact.block_size == said["block_size"]
        assert exact.cache_tokens == said["kv_cache_tokens"]
        assert exact.max_concurrency == pytest.approx(said["exact_concurrency"], rel=1e-12)
    if "needed_kv_gib" in said:
        assert round(low.needed_gib, 2) == said["needed_kv_gib"]
    if "estimated_max_len" in said:
        # This version did not yet keep one block back.
        step = low.block_size
        assert low.max_model_len_fit + step <= said["estimated_max_len"] <= high.max_model_len_fit + step
    if said["available_kv_gib"] < 0:
        assert low.num_blocks == low.max_model_len_fit == low.cache_tokens == 0


@pytest.mark.parametrize("start", MEASURED, ids=[start["case"] for start in MEASURED])
def test_a_measured_start_is_predicted_to_the_token(start: dict[str, Any]) -> None:
    said, settings, window = start["said"], settings_of(start), start["settings"]["max_model_len"]
    layout = layout_of(start["config"])
    low = kv_plan(layout, settings, said["available_kv_gib"] - 0.005, window)
    high = kv_plan(layout, settings, said["available_kv_gib"] + 0.005, window)
    assert low.cache_tokens <= said["kv_cache_tokens"] <= high.cache_tokens
    if "num_gpu_blocks" in said:
        assert low.num_blocks <= said["num_gpu_blocks"] <= high.num_blocks
        assert low.block_size == said["block_size"]


@RECORDED
def test_counted_weights_match_what_was_loaded(start: dict[str, Any]) -> None:
    ranks = start["settings"]["tensor_parallel_size"]
    loaded = start["said"]["model_loading_gib"]
    if start["settings"].get("quantization") == "fp8":
        # Quantizing while loading leaves a little behind.
        counted = weights_gib(start["config"], 8)
        assert counted is not None
        assert counted == pytest.approx(loaded, abs=1.2)
    else:
        counted = weights_gib(start["config"])
        assert counted is not None
        assert counted / ranks == pytest.approx(loaded, abs=0.25)


@pytest.mark.parametrize(("name", "published"), [("gpt-oss-120b", 60.8), ("gpt-oss-20b", 12.8)])
def test_a_format_for_the_experts_alone(name: str, published: float) -> None:
    """The sizes of the checkpoints in the model card (arXiv 2508.10925, table 1)."""
    left_out = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    config = model(name).config | {
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": left_out}
    }
    assert weights_gib(config, 4.25) == pytest.approx(published, rel=0.005)


def test_experts_under_an_unknown_name_are_not_taken_for_a_dense_model() -> None:
    config = dict(model("qwen3-coder-30b-a3b").config)
    config["number_of_experts"] = config.pop("num_experts")
    assert weights_gib(config) is None


def test_gqa_takes_keys_and_values_of_every_layer() -> None:
    layout = layout_of(model("qwen3-coder-30b-a3b").config)
    assert layout.buckets == (AttentionLayers(layers=48, kv_heads=4, head_dim=128),)
    plan = kv_plan(layout, newest(), 100.0, 262144)
    assert plan.bytes_per_token == 98304
    assert plan.bytes_per_block == 1572864
    assert plan.blocks_per_request == 16384
    assert plan.needed_gib == 24.0


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({"kv_cache_dtype": "fp8"}, 12.0),
        ({"kv_cache_dtype": "nvfp4"}, 24.0 * 0.5625 / 2),
        ({"tensor_parallel_size": 2}, 12.0),
        ({"tensor_parallel_size": 4}, 6.0),
        ({"tensor_parallel_size": 8}, 6.0),
        ({"pipeline_parallel_size": 2}, 12.0),
        ({"pipeline_parallel_size": 5}, 5.0),
    ],
    ids=str,
)
def test_gqa_is_divided_by_heads_stages_and_type(changes: dict[str, Any], needed: float) -> None:
    layout = layout_of(model("qwen3-coder-30b-a3b").config)
    assert kv_plan(layout, newest(**changes), 100.0, 262144).needed_gib == needed


def test_a_hybrid_gets_long_blocks_and_state_blocks() -> None:
    layout = layout_of(model("qwen3-coder-next").config)
    assert set(layout.buckets) == {
        StateLayers(layers=36, heads=32, head_dim=128, groups=16, state_dim=128, kernel=4),
        AttentionLayers(layers=12, kv_heads=2, head_dim=256),
    }
    plan = kv_plan(layout, newest(), 100.0, 262144)
    assert plan.block_size == 544
    assert plan.bytes_per_block == 12 * 544 * 2048
    assert plan.bytes_per_token == 24 * 1024
    assert plan.blocks_per_request == 482 + 3 * 2
    assert plan.needed_gib == pytest.approx(6.08, abs=0.005)
    # Before prefix caching was on for hybrids, one state block a group did.
    before = kv_plan(layout, newest(vllm_version="0.27.1"), 100.0, 262144)
    assert before.blocks_per_request == 482 + 3


@pytest.mark.parametrize(("tensor", "block", "needed"), [(2, 544, 3.04), (4, 272, 3.02)])
def test_a_hybrid_on_several_gpus(tensor: int, block: int, needed: float) -> None:
    layout = layout_of(model("qwen3-coder-next").config)
    plan = kv_plan(layout, newest(tensor_parallel_size=tensor), 100.0, 262144)
    assert plan.block_size == block
    assert plan.needed_gib == pytest.approx(needed, abs=0.005)


WIDE = {"mamba_ssm_dtype": "float32"}


def test_a_hybrid_with_a_wide_state() -> None:
    config = model("qwen3-coder-next").config | WIDE | {"architectures": ["Qwen3_5MoeForCausalLM"]}
    plan = kv_plan(layout_of(config), newest(), 100.0, 262144)
    assert plan.block_size == 1056
    assert plan.needed_gib == pytest.approx(6.16, abs=0.005)


def test_the_width_of_a_state_is_taken_from_the_file_only_where_vllm_does_so() -> None:
    config = model("qwen3-coder-next").config
    assert layout_of(config | WIDE) == layout_of(config)


def test_latent_attention_is_whole_on_every_gpu() -> None:
    config = {
        "architectures": ["DeepseekV3ForCausalLM"],
        "num_hidden_layers": 61,
        "hidden_size": 7168,
        "num_attention_heads": 128,
        "vocab_size": 129280,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "max_position_embeddings": 163840,
    }
    layout = layout_of(config)
    assert layout.buckets == (LatentLayers(layers=61, width=576),)
    one, eight = (kv_plan(layout, newest(tensor_parallel_size=size), 100.0, 163840) for size in (1, 8))
    assert one.bytes_per_token == 70272
    assert one == eight
    assert one.needed_gib == pytest.approx(10.72, abs=0.005)
    half = kv_plan(layout, newest(kv_cache_dtype="fp8"), 100.0, 163840)
    assert half.needed_gib == pytest.approx(5.36, abs=0.005)
    assert cache_layout(config | {"index_topk": 2048}) is None


@pytest.mark.parametrize(
    ("capability", "dtype", "block"),
    [
        (90, "auto", 16),
        (90, "fp8", 64),
        (100, "auto", 32),
        (103, "fp8", 32),
        (120, "auto", 16),
        (None, "auto", 16),
    ],
)
def test_the_kernel_for_compressed_vectors_sets_the_block(
    capability: int | None, dtype: str, block: int
) -> None:
    """FLASH_ATTN_MLA 16, FLASHMLA 64 for 8 bit on 9.x, FLASHINFER_MLA 32 on 10.x, TRITON_MLA 16 elsewhere."""
    layout = CacheLayout(buckets=(LatentLayers(layers=61, width=576),))
    plan = kv_plan(layout, newest(capability=capability, kv_cache_dtype=dtype), 100.0, 163840)
    assert plan.block_size == block
    assert plan.blocks_per_request == 163840 // block


def test_an_index_for_sparse_attention_is_kept_beside_packed_vectors() -> None:
    """DeepSeek-V3.2: 656 bytes a vector and 132 of index, in 61 layers, on every GPU."""
    config = {
        "architectures": ["DeepseekV32ForCausalLM"],
        "num_hidden_layers": 61,
        "hidden_size": 7168,
        "num_attention_heads": 128,
        "vocab_size": 129280,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "index_topk": 2048,
        "max_position_embeddings": 163840,
    }
    layout = layout_of(config)
    assert layout.buckets == (LatentLayers(layers=61, width=576, indexed=True),)
    plan = kv_plan(layout, newest(tensor_parallel_size=8), 100.0, 163840)
    assert plan.bytes_per_token == 48068
    assert plan.needed_gib == pytest.approx(7.33, abs=0.005)
    plain = kv_plan(layout, newest(kv_cache_dtype="bfloat16"), 100.0, 163840)
    assert plain.bytes_per_token == 61 * (576 * 2 + 132)


def test_decode_context_parallel_shares_the_tokens_of_a_request() -> None:
    config = model("qwen3-coder-30b-a3b").config
    one = kv_plan(layout_of(config), newest(), 100.0, 262144)
    four = kv_plan(layout_of(config), newest(decode_context_parallel_size=4), 100.0, 262144)
    assert four.blocks_per_request * 4 == one.blocks_per_request
    assert four.cache_tokens == 4 * one.cache_tokens


@pytest.mark.parametrize(
    ("name", "layers", "needed"), [("gpt-oss-120b", 18, 5.07), ("gpt-oss-20b", 12, 3.38)]
)
def test_sliding_windows_keep_what_is_in_flight(name: str, layers: int, needed: float) -> None:
    layout = layout_of(model(name).config)
    assert set(layout.buckets) == {
        AttentionLayers(layers=layers, kv_heads=8, head_dim=64),
        AttentionLayers(layers=layers, kv_heads=8, head_dim=64, window=128),
    }
    plan = kv_plan(layout, newest(), 100.0, 131072)
    assert plan.blocks_per_request == 8192 + 1033
    assert plan.needed_gib == pytest.approx(needed, abs=0.005)
    # 0.25 counted one batch: ceil((127 + 8192) / 16) + 1 blocks.
    before = kv_plan(layout, newest(vllm_version="0.25.1"), 100.0, 131072)
    assert before.blocks_per_request == 8192 + 521


def test_an_issue_with_another_batch_size_is_reproduced() -> None:
    """The sizes of https://github.com/vllm-project/vllm/issues/49878: 50 sliding and 10 full layers."""
    layout = CacheLayout(
        buckets=(
            AttentionLayers(layers=10, kv_heads=1, head_dim=8192 // 64),
            AttentionLayers(layers=50, kv_heads=1, head_dim=8192 // 64, window=1024),
        )
    )
    settings = newest(max_num_batched_tokens=32768)
    assert kv_plan(layout, settings, 50.0, 131072).blocks_per_request == 8192 + 5 * 4161
    before = msgspec.structs.replace(settings, vllm_version="0.25.1")
    assert kv_plan(layout, before, 50.0, 131072).blocks_per_request == 8192 + 5 * 2113


def test_an_unknown_batch_counts_as_the_largest_default() -> None:
    layout = layout_of(model("gpt-oss-120b").config)
    unknown = kv_plan(layout, newest(max_num_batched_tokens=None), 100.0, 131072)
    assert unknown == kv_plan(layout, newest(max_num_batched_tokens=16384), 100.0, 131072)


def test_the_longest_window_is_the_last_that_fits() -> None:
    layout = layout_of(model("gpt-oss-120b").config)
    settings = newest()
    for people in (1, 3):
        longest = longest_window(layout, settings, 9.0, concurrency=people)
        plan = kv_plan(layout, settings, 9.0, longest)
        assert plan.blocks_per_request * people <= plan.num_blocks - 1
        beyond = kv_plan(layout, settings, 9.0, longest + 1)
        assert longest == 131072 or beyond.blocks_per_request * people > plan.num_blocks - 1
    assert longest_window(layout, settings, 9.0, concurrency=3) < 131072
    assert longest_window(layout, settings, 1000.0) == 131072


def test_an_absurd_context_is_still_bounded_by_the_memory() -> None:
    layout = layout_of({**model("gpt-oss-120b").config, "max_position_embeddings": 10**30})
    longest = longest_window(layout, newest(), 9.0)
    assert kv_plan(layout, newest(), 9.0, longest).max_concurrency >= 1
    assert 131072 < longest < 10**30


@pytest.mark.parametrize(
    "change",
    [
        {"architectures": ["BrandNewForCausalLM"]},
        {"architectures": []},
        {"num_hidden_layers": None},
        {"num_hidden_layers": "48"},
        {"num_key_value_heads": 0},
        {"sliding_window": 4096},
    ],
    ids=str,
)
def test_nothing_is_guessed(change: dict[str, Any]) -> None:
    assert cache_layout(model("qwen3-coder-30b-a3b").config | change) is None


def test_layers_of_an_unknown_kind_give_no_layout() -> None:
    config = model("gpt-oss-20b").config
    kinds = ["full_attention", "chunked_attention"] * 12
    assert cache_layout(config | {"layer_types": kinds}) is None
    assert cache_layout(config | {"layer_types": ["full_attention"]}) is None
    assert cache_layout(config | {"sliding_window": None}) is None
    assert cache_layout({}) is None


def test_the_text_part_of_a_multimodal_checkpoint_counts() -> None:
    config = dict(model("qwen3-coder-next").config)
    nested = {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "vision_config": {"depth": 27},
        "text_config": config,
    }
    assert cache_layout(nested) == cache_layout(config)
    assert weights_gib(nested) is None, "the vision tower's size is not known"


def test_a_window_flag_that_is_off_is_full_attention() -> None:
    config = model("qwen2.5-coder-32b").config | {"sliding_window": 131072, "use_sliding_window": False}
    assert layout_of(config).buckets == (AttentionLayers(layers=64, kv_heads=8, head_dim=128),)


def test_an_unknown_cache_type_offers_the_nearest() -> None:
    layout = layout_of(model("qwen3-coder-30b-a3b").config)
    with pytest.raises(UnknownNameError, match="fp8_e4m3"):
        kv_plan(layout, newest(kv_cache_dtype="fp8_e4"), 10.0, 4096)


def test_sizes_nobody_computes_promise_no_more_than_16_bit() -> None:
    layout = layout_of(model("qwen3-coder-30b-a3b").config)
    plain = kv_plan(layout, newest(), 10.0, 4096)
    for entry in memory_facts().kv_dtype:
        for name in entry.names:
            tokens = kv_plan(layout, newest(kv_cache_dtype=name), 10.0, 4096).cache_tokens
            assert tokens >= plain.cache_tokens
            assert math.isclose(tokens / plain.cache_tokens, 2 / entry.bytes, rel_tol=0.01)
