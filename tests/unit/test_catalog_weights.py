"""The size of the weights, counted here from the shape of each model, independent of the table's figure."""

from __future__ import annotations

import pytest

from wizard import catalog
from wizard.memory import AttentionLayers, cache_layout

GIB = 2**30


def shape(model: str) -> dict[str, int]:
    """The whole numbers among the configuration's fields."""
    config = catalog.model(model).config
    return {key: value for key, value in config.items() if isinstance(value, int)}


def embeddings(c: dict[str, int]) -> int:
    return (1 if c["tie_word_embeddings"] else 2) * c["vocab_size"] * c["hidden_size"]


def attention(c: dict[str, int]) -> int:
    """Query (twice as wide with an output gate), key, value and output projections of one layer."""
    head = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    query = c["num_attention_heads"] * head
    gate = query if "linear_num_value_heads" in c else 0
    return c["hidden_size"] * (2 * query + gate + 2 * c["num_key_value_heads"] * head)


def latent_attention(c: dict[str, int]) -> int:
    """Both ranks down and up again, and the output of one layer."""
    heads, hidden = c["num_attention_heads"], c["hidden_size"]
    queries = c["q_lora_rank"] * (hidden + heads * (c["qk_nope_head_dim"] + c["qk_rope_head_dim"]))
    keys = hidden * (c["kv_lora_rank"] + c["qk_rope_head_dim"])
    unpacked = c["kv_lora_rank"] * heads * (c["qk_nope_head_dim"] + c["v_head_dim"])
    return queries + keys + unpacked + heads * c["v_head_dim"] * hidden


def mlp(c: dict[str, int], width: int) -> int:
    return 3 * c["hidden_size"] * width


def delta_net(c: dict[str, int]) -> int:
    """Query, key, value, gate, the two small projections and the output of one linear-attention layer."""
    key = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    value = c["linear_num_value_heads"] * c["linear_value_head_dim"]
    return c["hidden_size"] * (2 * key + 2 * value + 2 * c["linear_num_value_heads"] + value)


def mixers(c: dict[str, int]) -> int:
    """Whatever mixes tokens, in all layers."""
    layers = c["num_hidden_layers"]
    if "kv_lora_rank" in c:
        return layers * latent_attention(c)
    if "full_attention_interval" in c:
        full = layers // c["full_attention_interval"]
        return full * attention(c) + (layers - full) * delta_net(c)
    return layers * attention(c)


def body(model: str) -> int:
    """Parameters of the layers, embeddings left out."""
    c = shape(model)
    layers, dense = c["num_hidden_layers"], c.get("first_k_dense_replace", 0)
    experts = c.get("num_experts") or c.get("n_routed_experts") or c.get("num_local_experts")
    if experts is None:
        return mixers(c) + layers * mlp(c, c["intermediate_size"])
    width = c["moe_intermediate_size"] if "moe_intermediate_size" in c else c["intermediate_size"]
    shared = c.get("shared_expert_intermediate_size", c.get("n_shared_experts", 0) * width)
    sparse = mlp(c, experts * width + shared) + c["hidden_size"] * experts
    return mixers(c) + dense * mlp(c, c.get("intermediate_size", 0)) + (layers - dense) * sparse


VISION = {
    "devstral-small-2": 0.4e9,
    "kimi-k2.5": 0.4e9,
    "kimi-k2.6": 0.4e9,
    "kimi-k2.7-code": 0.4e9,
    "qwen3-vl-235b-a22b": 0.6e9,
    "qwen3-vl-30b-a3b": 0.6e9,
    **dict.fromkeys(("qwen3.5-27b", "qwen3.6-27b", "qwen3.8-27b"), 0.46e9),
    **dict.fromkeys(("qwen3.5-35b-a3b", "qwen3.6-35b-a3b", "qwen3.5-122b-a10b", "qwen3.5-397b-a17b"), 0.45e9),
}
"""Parameters of the part that sees, of the model cards; it stays in 16 bit."""
OTHERWISE = ("Gemma4", "Llama4", "MiMoV2", "NemotronH")
"""Families whose layers differ in more than the sums above know."""
SHAPED = [
    model.id
    for model in catalog.models()
    if cache_layout(model.config) is not None and not model.architecture.startswith(OTHERWISE)
]
CASES = [
    (model.id, variant.id)
    for model in catalog.models()
    if model.id in SHAPED
    for variant in model.variants
    if variant.quantization in ("bf16", "fp8", "fp8-dynamic", "gptq-int8")
    and variant.weights_origin != "table"
]


@pytest.mark.parametrize("model", SHAPED)
def test_parameters(model: str) -> None:
    entry = catalog.model(model)
    counted = body(model) + embeddings(shape(model)) + VISION.get(model, 0)
    assert counted / 1e9 == pytest.approx(entry.params_b, rel=0.015)


@pytest.mark.parametrize(("model", "variant"), CASES)
def test_weights(model: str, variant: str) -> None:
    entry = next(entry for entry in catalog.model(model).variants if entry.id == variant)
    wide = embeddings(shape(model)) + VISION.get(model, 0)
    bits = catalog.quantization(entry.quantization).bits
    counted = (2 * wide + body(model) * bits / 8) / GIB
    assert entry.weights_gib == pytest.approx(counted, rel=0.035)
    assert entry.weights_gib >= counted * 0.995


@pytest.mark.parametrize(
    ("model", "variant", "gib"),
    [
        # "Model loading took" of vLLM 0.26.0 on an H200, and of 0.22.1 for the FP8 one.
        ("qwen3-coder-30b-a3b", "bf16", 56.93),
        ("qwen3-coder-30b-a3b", "fp8", 29.08),
        ("qwen2.5-coder-32b", "bf16", 2 * 30.71),
        # Model card of gpt-oss (arXiv 2508.10925), checkpoint size.
        ("gpt-oss-120b", "mxfp4", 60.8),
        ("gpt-oss-20b", "mxfp4", 12.8),
    ],
)
def test_weights_as_others_report_them(model: str, variant: str, gib: float) -> None:
    entry = next(entry for entry in catalog.model(model).variants if entry.id == variant)
    assert entry.weights_gib == pytest.approx(gib, abs=0.1)


def test_gpt_oss_alternates_its_layers() -> None:
    for model, layers in (("gpt-oss-120b", 36), ("gpt-oss-20b", 24)):
        layout = cache_layout(catalog.model(model).config)
        assert layout is not None
        assert [(type(part), part.layers) for part in layout.buckets] == [(AttentionLayers, layers // 2)] * 2
