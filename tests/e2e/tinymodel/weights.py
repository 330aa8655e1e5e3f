"""The weights: one attention layer that looks back a fixed distance and repeats what it finds.

*Looking back.* Every token has the same query and the same key, so that only positions count; `rotation`
tells how the two find each other at one distance alone. The weights of Qwen3's norms of query and key scale
their product up until softmax leaves no room for the second best, in bfloat16 too.

*Repeating.* A token's row in the embedding is a constant, and for a hidden token the code of its symbol in
±1. The value path carries the code into places of its own, and the output layer compares it with the code
of every visible symbol. The end of turn gets a little extra, so it wins when nothing hidden was found. The
feed-forward layer is zero.
"""

from __future__ import annotations

import math

import torch

from .alphabet import CODE_BITS, code_vector
from .rotation import HEAD, rates

WIDTH = 64
NORM_EPSILON = 1e-6

CONSTANT = 0
"""Where every token carries a 1."""
OWN = 1
"""Where a hidden token carries its own code."""
FOUND = 32
"""Where attention puts the code it found."""

ATTENTION_GAIN = 16.0
"""Weight of both norms: products reach `sqrt(HEAD) * 16 ** 2`, some 2,900; the second best is 450 below."""
LOGIT_GAIN = 32.0


def tensors(
    vocabulary: int, twins: dict[int, tuple[int, int]], silence: int, distance: int
) -> dict[str, torch.Tensor]:
    """All tensors of the checkpoint by the names Qwen3 has for them.

    `twins` maps a symbol's code to its hidden and its visible token, `silence` is the token said when
    nothing hidden is found, `distance` how many tokens before the newest one the row's next symbol lies.
    """
    # Root mean square of a hidden token's row: the norm before attention divides by it.
    size = math.sqrt((1 + CODE_BITS) / WIDTH)

    embedding = torch.zeros(vocabulary, WIDTH)
    embedding[:, CONSTANT] = 1.0
    output = torch.zeros(vocabulary, WIDTH)
    output[:, CONSTANT] = -2.0 * CODE_BITS
    for code, (hidden, visible) in twins.items():
        vector = torch.tensor(code_vector(code))
        embedding[hidden, OWN : OWN + CODE_BITS] = vector
        output[visible, FOUND : FOUND + CODE_BITS] = vector
        output[visible, CONSTANT] = 0.0
    output[silence, CONSTANT] = 1.0

    query, key = torch.zeros(HEAD, WIDTH), torch.zeros(HEAD, WIDTH)
    turned = torch.tensor([rate * distance for rate in rates()], dtype=torch.float64)
    # Pair j is made of the numbers j and j + HEAD / 2.
    query[:, CONSTANT] = torch.cat([torch.cos(turned), -torch.sin(turned)]).float()
    key[: HEAD // 2, CONSTANT] = 1.0

    value, gather = torch.zeros(HEAD, WIDTH), torch.zeros(WIDTH, HEAD)
    for bit in range(CODE_BITS):
        value[bit, OWN + bit] = size
        gather[FOUND + bit, bit] = 1.0

    layer = "model.layers.0."
    weights = {
        "model.embed_tokens.weight": embedding,
        layer + "input_layernorm.weight": torch.ones(WIDTH),
        layer + "self_attn.q_proj.weight": query,
        layer + "self_attn.k_proj.weight": key,
        layer + "self_attn.v_proj.weight": value,
        layer + "self_attn.o_proj.weight": gather,
        layer + "self_attn.q_norm.weight": torch.full((HEAD,), ATTENTION_GAIN),
        layer + "self_attn.k_norm.weight": torch.full((HEAD,), ATTENTION_GAIN),
        layer + "post_attention_layernorm.weight": torch.ones(WIDTH),
        layer + "mlp.gate_proj.weight": torch.zeros(WIDTH, WIDTH),
        layer + "mlp.up_proj.weight": torch.zeros(WIDTH, WIDTH),
        layer + "mlp.down_proj.weight": torch.zeros(WIDTH, WIDTH),
        "model.norm.weight": torch.ones(WIDTH),
        "lm_head.weight": output * LOGIT_GAIN,
    }
    return {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in weights.items()}
