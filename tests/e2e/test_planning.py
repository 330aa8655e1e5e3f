"""The KV-cache arithmetic against vLLM's own model and planning classes, layout by layout, block by block."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from planning import MARK
from realkit import RealKit
from serving import vllm_environment

from wizard.memory import EngineSettings, cache_layout, kv_plan, weights_gib

BATCH = 8192
VERSION = "0.32.0"
PLAIN: dict[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 512,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 1024,
    "max_position_embeddings": 131072,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
EXPERTS: dict[str, Any] = {
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 256,
    "decoder_sparse_step": 1,
    "norm_topk_prob": True,
}
LATENT: dict[str, Any] = {
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "q_lora_rank": None,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "moe_intermediate_size": 256,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "greedy",
    "scoring_func": "softmax",
    "routed_scaling_factor": 1.0,
    "norm_topk_prob": True,
}
LINEAR: dict[str, Any] = {
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "partial_rotary_factor": 0.25,
    "shared_expert_intermediate_size": 256,
    **EXPERTS,
}


@dataclass(frozen=True)
class Case:
    """A checkpoint's own fields beside the plain ones, and what is left for its cache."""

    model_type: str
    architecture: str
    fields: dict[str, Any]
    kinds: set[str]
    max_model_len: int = 65536
    available_gib: float = 7.3
    args: dict[str, Any] = field(default_factory=dict)
    read_as: dict[str, Any] = field(default_factory=dict)
    """Fields of a checkpoint that vLLM plans like this one, but whose class needs more than is installed."""

    @property
    def config(self) -> dict[str, Any]:
        own = {"model_type": self.model_type, "architectures": [self.architecture]}
        return {**PLAIN, **own, **self.fields}


FULL, SLIDING, CHUNKED = {"FullAttentionSpec"}, {"SlidingWindowSpec"}, {"ChunkedLocalAttentionSpec"}
CASES = {
    "grouped heads": Case("llama", "LlamaForCausalLM", {}, FULL),
    "one head for all": Case("llama", "LlamaForCausalLM", {"num_key_value_heads": 1}, FULL),
    "as many heads": Case("qwen2", "Qwen2ForCausalLM", {"num_key_value_heads": 16}, FULL),
    "experts": Case("qwen3_moe", "Qwen3MoeForCausalLM", EXPERTS, FULL),
    "one window for all": Case("mistral", "MistralForCausalLM", {"sliding_window": 4096}, SLIDING),
    "every other layer": Case(
        "gpt_oss",
        "GptOssForCausalLM",
        {
            "sliding_window": 128,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "layer_types": ["sliding_attention", "full_attention"] * 6,
        },
        FULL | SLIDING,
    ),
    "five windows to one": Case(
        "gemma3_text",
        "Gemma3ForCausalLM",
        {
            "sliding_window": 1024,
            "num_hidden_layers": 26,
            "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 4 + ["sliding_attention"] * 2,
            "query_pre_attn_scalar": 64,
            "hidden_activation": "gelu_pytorch_tanh",
        },
        FULL | SLIDING,
    ),
    "wider heads without window": Case(
        "gemma4_text",
        "Gemma4ForCausalLM",
        {
            "sliding_window": 512,
            "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 2,
            "per_layer_config": {"05": {"head_dim": 128}, "11": {"head_dim": 128}},
            "num_kv_shared_layers": 0,
            "hidden_activation": "gelu_pytorch_tanh",
        },
        FULL | SLIDING,
    ),
    "chunks": Case(
        "llama4_text",
        "Llama4ForCausalLM",
        {
            "attention_chunk_size": 8192,
            "num_local_experts": 8,
            "num_experts_per_tok": 1,
            "intermediate_size_mlp": 512,
            "interleave_moe_layer_step": 1,
            "layer_types": (["chunked_attention"] * 3 + ["full_attention"]) * 3,
            "no_rope_layers": [1, 1, 1, 0] * 3,
        },
        FULL | CHUNKED,
    ),
    "compressed vectors": Case("deepseek_v2", "DeepseekV2ForCausalLM", LATENT, {"MLAAttentionSpec"}),
    "states": Case(
        "qwen3_next",
        "Qwen3NextForCausalLM",
        LINEAR,
        FULL | {"MambaSpec"},
    ),
    "states whose width nobody reads": Case(
        "qwen3_next",
        "Qwen3NextForCausalLM",
        {**LINEAR, "mamba_ssm_dtype": "float32"},
        FULL | {"MambaSpec"},
    ),
    "wide states": Case(
        "qwen3_next",
        "Qwen3NextForCausalLM",
        LINEAR,
        FULL | {"MambaSpec"},
        args={"mamba_ssm_cache_dtype": "float32"},
        read_as={"architectures": ["Qwen3_5ForCausalLM"], "mamba_ssm_dtype": "float32"},
    ),
    "mamba among experts": Case(
        "granitemoehybrid",
        "GraniteMoeHybridForCausalLM",
        {
            "layer_types": (["mamba"] * 5 + ["attention"]) * 2,
            "mamba_d_conv": 4,
            "mamba_d_head": 64,
            "mamba_d_state": 256,
            "mamba_expand": 2,
            "mamba_n_groups": 1,
            "mamba_n_heads": 32,
            "num_local_experts": 0,
            "shared_intermediate_size": 512,
            "position_embedding_type": "rope",
            "attention_multiplier": 1.0,
            "embedding_multiplier": 1.0,
            "residual_multiplier": 1.0,
            "logits_scaling": 1.0,
        },
        FULL | {"MambaSpec"},
    ),
    "another size with a window": Case(
        "mimo_v2_flash",
        "MiMoV2FlashForCausalLM",
        {
            "hybrid_layer_pattern": [0, 1, 1, 1, 1, 1] * 2,
            "sliding_window": 128,
            "sliding_window_size": 128,
            "head_dim": 192,
            "v_head_dim": 128,
            "swa_head_dim": 192,
            "swa_v_head_dim": 128,
            "swa_num_attention_heads": 16,
            "swa_num_key_value_heads": 8,
            "moe_layer_freq": [0] * 12,
            "partial_rotary_factor": 0.334,
            "layernorm_epsilon": 1e-6,
            "add_swa_attention_sink_bias": False,
            "attention_value_scale": 0.7,
            "n_routed_experts": 8,
        },
        FULL | SLIDING,
    ),
    "latent, smaller": Case(
        "mistral4",
        "Mistral4ForCausalLM",
        {**LATENT, "kv_lora_rank": 256, "q_lora_rank": 256, "qk_nope_head_dim": 64, "qk_head_dim": 128},
        {"MLAAttentionSpec"},
    ),
    "mamba": Case(
        "nemotron_h",
        "NemotronHForCausalLM",
        {
            "hybrid_override_pattern": "M-M-M*-M-M*-",
            "conv_kernel": 4,
            "mamba_head_dim": 64,
            "mamba_num_heads": 32,
            "n_groups": 8,
            "ssm_state_size": 128,
            "chunk_size": 128,
            "mlp_hidden_act": "relu2",
        },
        FULL | {"MambaSpec"},
    ),
}

SLIDES = (["sliding_attention"] * 3 + ["full_attention"]) * 3
SCALED = dict.fromkeys(
    ("attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling"), 1.0
)
ROUTED = {
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 256,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
}
LOCAL = {"num_local_experts": 8, "num_experts_per_tok": 2}
TIED = {"tie_word_embeddings": True}
GELU = "gelu_pytorch_tanh"
CASES |= {
    "phi": Case("phi3", "Phi3ForCausalLM", {}, FULL),
    "phi, experts": Case("phimoe", "PhiMoEForCausalLM", LOCAL, FULL),
    "granite": Case("granite", "GraniteForCausalLM", SCALED, FULL),
    "granite, experts": Case("granitemoe", "GraniteMoeForCausalLM", {**SCALED, **LOCAL}, FULL),
    "olmo": Case("olmo2", "Olmo2ForCausalLM", {}, FULL),
    "olmo, windows": Case(
        "olmo3", "Olmo3ForCausalLM", {"layer_types": SLIDES, "sliding_window": 4096}, FULL | SLIDING
    ),
    "exaone": Case(
        "exaone4",
        "Exaone4ForCausalLM",
        {"layer_types": SLIDES, "sliding_window": 4096, "sliding_window_pattern": 4},
        FULL | SLIDING,
    ),
    "command": Case(
        "cohere2",
        "Cohere2ForCausalLM",
        {"layer_types": SLIDES, "sliding_window": 4096, "logit_scale": 1.0, "layer_norm_eps": 1e-5, **TIED},
        FULL | SLIDING,
    ),
    "gemma 2": Case(
        "gemma2",
        "Gemma2ForCausalLM",
        {
            "layer_types": ["sliding_attention", "full_attention"] * 6,
            "sliding_window": 4096,
            "query_pre_attn_scalar": 64,
            "hidden_activation": GELU,
            **TIED,
        },
        FULL | SLIDING,
    ),
    "glm": Case("glm4", "Glm4ForCausalLM", {"partial_rotary_factor": 0.5, "attention_bias": True}, FULL),
    "glm, experts": Case("glm4_moe", "Glm4MoeForCausalLM", {**ROUTED, "use_qk_norm": True}, FULL),
    "glm, compressed": Case("glm4_moe_lite", "Glm4MoeLiteForCausalLM", LATENT, {"MLAAttentionSpec"}),
    "ernie": Case("ernie4_5", "Ernie4_5ForCausalLM", {"use_bias": False}, FULL),
    "ernie, experts": Case(
        "ernie4_5_moe",
        "Ernie4_5_MoeForCausalLM",
        {
            "moe_num_experts": 8,
            "moe_k": 2,
            "moe_intermediate_size": 256,
            "moe_layer_start_index": 1,
            "moe_layer_end_index": 11,
            "moe_layer_interval": 1,
            "moe_num_shared_experts": 1,
            "use_bias": False,
            "moe_use_aux_free": True,
        },
        FULL,
    ),
    "hunyuan": Case("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", {"use_qk_norm": True}, FULL),
    "starcoder": Case(
        "starcoder2",
        "Starcoder2ForCausalLM",
        {"use_bias": True, "norm_epsilon": 1e-5, "hidden_act": GELU, **TIED},
        FULL,
    ),
    "nemotron": Case("nemotron", "NemotronForCausalLM", {"hidden_act": "relu2", "norm_eps": 1e-5}, FULL),
    "mixtral": Case("mixtral", "MixtralForCausalLM", LOCAL, FULL),
    "minimax": Case(
        "minimax_m2",
        "MiniMaxM2ForCausalLM",
        {**LOCAL, "rotary_dim": 32, "use_qk_norm": True, "scoring_func": "sigmoid"},
        FULL,
    ),
    "seed": Case("seed_oss", "SeedOssForCausalLM", {"attention_bias": True}, FULL),
    "qwen 2, experts": Case(
        "qwen2_moe", "Qwen2MoeForCausalLM", {**EXPERTS, "shared_expert_intermediate_size": 256}, FULL
    ),
    "ministral": Case("ministral3", "Ministral3ForCausalLM", {}, FULL),
}
UNCOUNTED = {
    "wider heads without window",
    "chunks",
    "another size with a window",
    "mamba among experts",
}
"""Where the weights are not counted, because their sizes are not all understood."""


@pytest.fixture(scope="module")
def planned(realkit: RealKit) -> dict[str, dict[str, Any]]:
    """What vLLM plans for every case, from one process of its environment."""
    asked = [
        {
            "config": case.config,
            "available_gib": case.available_gib,
            "max_model_len": case.max_model_len,
            "args": {"max_num_batched_tokens": BATCH, **case.args},
        }
        for case in CASES.values()
    ]
    script = Path(__file__).parent / "planning.py"
    told = subprocess.run(
        [str(realkit.vllm_python), str(script)],
        input=json.dumps(asked),
        env={**vllm_environment(), "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = [line.removeprefix(MARK) for line in told.stdout.splitlines() if line.startswith(MARK)]
    assert len(lines) == len(CASES), told.stderr[-3000:]
    return dict(zip(CASES, map(json.loads, lines), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_vllms_own(planned: dict[str, dict[str, Any]], name: str) -> None:
    case, said = CASES[name], planned[name]
    assert "error" not in said
    assert set(said["kinds"]) == case.kinds, "the checkpoint is not of the kind this case is for"
    layout = cache_layout({**case.config, **case.read_as})
    assert layout is not None
    settings = EngineSettings(vllm_version=VERSION, max_num_batched_tokens=BATCH)
    plan = kv_plan(layout, settings, case.available_gib, case.max_model_len)
    assert said["in_flight_tokens"] == 2 * BATCH
    assert plan.block_size == said["block_size"]
    assert plan.num_blocks == said["num_blocks"]
    assert plan.max_concurrency == pytest.approx(said["concurrency"], rel=1e-12)
    assert plan.cache_tokens == said["cache_tokens"]


@pytest.mark.parametrize("name", CASES)
def test_the_weights_are_vllms_own(planned: dict[str, dict[str, Any]], name: str) -> None:
    counted = weights_gib(CASES[name].config)
    if name in UNCOUNTED:
        assert counted is None
    else:
        assert counted is not None
        assert counted * (1 << 30) == pytest.approx(planned[name]["weight_bytes"], rel=0.005)
