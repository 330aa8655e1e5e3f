"""The fields of a checkpoint's config.json that memory depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(gt=0)]


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """Names are those of config.json; what a file leaves out or sets to null is None."""

    architectures: tuple[str, ...] = ()
    num_hidden_layers: Count
    hidden_size: Count
    num_attention_heads: Count
    vocab_size: Count
    intermediate_size: Count | None = None
    num_key_value_heads: Count | None = None
    head_dim: Count | None = None
    max_position_embeddings: Count | None = None
    tie_word_embeddings: bool = False
    vision_config: Mapping[str, object] | None = None

    kv_lora_rank: Count | None = None
    q_lora_rank: Count | None = None
    qk_nope_head_dim: Count | None = None
    qk_rope_head_dim: Count | None = None
    v_head_dim: Count | None = None

    linear_conv_kernel_dim: Count | None = None
    linear_key_head_dim: Count | None = None
    linear_num_key_heads: Count | None = None
    linear_num_value_heads: Count | None = None
    linear_value_head_dim: Count | None = None

    num_experts: int | None = None
    n_routed_experts: int | None = None
    num_local_experts: int | None = None
    moe_num_experts: int | None = None
    num_experts_per_tok: Count | None = None
    moe_topk: int | None = None
    moe_k: int | None = None
    moe_intermediate_size: Count | None = None
    shared_expert_intermediate_size: Count | None = None
    moe_shared_expert_intermediate_size: Count | None = None
    moe_latent_size: Count | None = None
    n_shared_experts: int | None = None
    num_shared_experts: int | None = None
    num_shared_expert: int | None = None
    moe_num_shared_experts: int | None = None
    first_k_dense_replace: int | None = None
    moe_layer_start_index: int | None = None
    decoder_sparse_step: Count | None = None
    mlp_layer_types: tuple[str, ...] | None = None

    @property
    def architecture(self) -> str:
        """The class vLLM resolves it to; empty when the file names none."""
        return self.architectures[0] if self.architectures else ""

    @property
    def head_size(self) -> int:
        """Elements of one attention head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values; as many as queries when the file names none."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def experts(self) -> int:
        """Routed experts of a layer; 0 for a dense model."""
        return (
            self.num_experts or self.n_routed_experts or self.num_local_experts or self.moe_num_experts or 0
        )

    @property
    def active_experts(self) -> int:
        """Routed experts a token goes through."""
        return self.num_experts_per_tok or self.moe_topk or self.moe_k or 1

    @property
    def shared_experts(self) -> int:
        """Experts every token goes through."""
        return (
            self.n_shared_experts
            or self.num_shared_experts
            or self.num_shared_expert
            or self.moe_num_shared_experts
            or 0
        )

    @property
    def dense_layers(self) -> int:
        """Layers without experts, before the first that has some."""
        return self.first_k_dense_replace or self.moe_layer_start_index or 0

    @property
    def expert_width(self) -> int | None:
        """Inner width of one expert; some families call it like that of a dense layer."""
        return self.moe_intermediate_size or self.intermediate_size

    @property
    def latent_width(self) -> int | None:
        """Elements a token of compressed attention (MLA), position part included; None without it."""
        if self.kv_lora_rank is None or self.qk_rope_head_dim is None:
            return None
        return self.kv_lora_rank + self.qk_rope_head_dim


def read_shape(config: Mapping[str, object]) -> ModelShape | None:
    """The shape a config.json describes; None when it lacks the basic fields or they make no sense."""
    try:
        return msgspec.convert(text_fields(config), ModelShape)
    except msgspec.ValidationError:
        return None


def text_fields(config: Mapping[str, object]) -> dict[str, object]:
    """The fields that describe the language model.

    Of a multimodal checkpoint the text part counts: its fields lie under ``text_config``.
    """
    fields = dict(config)
    nested = config.get("text_config")
    if isinstance(nested, Mapping):
        fields |= {key: value for key, value in nested.items() if key != "architectures"}
    return fields
