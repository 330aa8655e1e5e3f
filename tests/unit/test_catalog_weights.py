"""The size of the weights, counted here from the shape of each model, independent of the table's figure."""

from __future__ import annotations

import pytest

from wizard import catalog

GIB = 2**30


def shape(model: str) -> dict[str, int]:
    """The whole numbers among the configuration's fields."""
    config = catalog.model(model).config
    return {key: value for key, value in config.items() if isinstance(value, int)}


def embeddings(c: dict[str, int]) -> int:
    return 2 * c["vocab_size"] * c["hidden_size"]


def attention(c: dict[str, int], gated: bool = False) -> int:
    """Query (twice as wide with an output gate), key, value and output projections of one layer."""
    head = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    query = c["num_attention_heads"] * head
    return c["hidden_size"] * (query * (2 if gated else 1) + 2 * c["num_key_value_heads"] * head + query)


def mlp(c: dict[str, int], width: int) -> int:
    return 3 * c["hidden_size"] * width


def delta_net(c: dict[str, int]) -> int:
    """Query, key, value, gate, the two small projections and the output of one linear-attention layer."""
    key = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    value = c["linear_num_value_heads"] * c["linear_value_head_dim"]
    return c["hidden_size"] * (2 * key + 2 * value + 2 * c["linear_num_value_heads"] + value)


def body(model: str) -> int:
    """Parameters of the layers, embeddings left out."""
    c = shape(model)
    layers = c["num_hidden_layers"]
    if model in DENSE:
        return layers * (attention(c) + mlp(c, c["intermediate_size"]))
    if model == "qwen3-coder-30b-a3b":
        experts = c["num_experts"] * (mlp(c, c["moe_intermediate_size"]) + c["hidden_size"])
        return layers * (attention(c) + experts)
    if model == "qwen3-coder-next":
        full = layers // c["full_attention_interval"]
        experts = c["num_experts"] * (mlp(c, c["moe_intermediate_size"]) + c["hidden_size"])
        shared = mlp(c, c["shared_expert_intermediate_size"])
        return full * attention(c, gated=True) + (layers - full) * delta_net(c) + layers * (experts + shared)
    if model == "qwen3.6-27b":
        full = layers // c["full_attention_interval"]
        dense = layers * mlp(c, c["intermediate_size"])
        return full * attention(c, gated=True) + (layers - full) * delta_net(c) + dense
    if model == "glm-4.5-air":
        dense = c["first_k_dense_replace"]
        sparse = (c["n_routed_experts"] + c["n_shared_experts"]) * mlp(c, c["moe_intermediate_size"])
        return layers * attention(c) + dense * mlp(c, c["intermediate_size"]) + (layers - dense) * sparse
    return layers * (attention(c) + c["num_local_experts"] * mlp(c, c["intermediate_size"]))


DENSE = (
    "qwen2.5-coder-32b",
    "qwen2.5-72b",
    "llama-3.3-70b",
    "devstral-small-2507",
    "devstral-small-2",
)
VISION = {"qwen3.6-27b": 0.46e9, "devstral-small-2": 0.4e9}
CASES = [
    (model.id, variant.id)
    for model in catalog.models()
    for variant in model.variants
    if variant.quantization in ("bf16", "fp8", "fp8-dynamic", "gptq-int8")
]


@pytest.mark.parametrize("model", [entry.id for entry in catalog.models()])
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
        assert catalog.model(model).config["layer_types"] == ["sliding_attention", "full_attention"] * (
            layers // 2
        )
