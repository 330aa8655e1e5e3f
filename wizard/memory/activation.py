"""What vLLM's trial run of a full batch takes beside the weights, and what its CUDA graphs take.

The sums are fitted to 69 starts of vLLM 0.26.0 on H200 with dummy weights; on all without latent attention
they are within 0.07 GiB. Figures and their source are in assets/memory.toml.
"""

from __future__ import annotations

from wizard.catalog import memory_facts, reached, vllm_facts
from wizard.memory.shape import ModelShape
from wizard.memory.types import EngineSettings

_MIB = 1 << 20
_BYTES = 2
"""Of an element of an activation."""


def activation_bytes(shape: ModelShape, settings: EngineSettings) -> int:
    """Peak of the trial run: the widest of what the layers, the sampler and the compiler need.

    ``settings`` must name the batch limits.
    """
    facts = memory_facts().activation
    batch, sequences = settings.max_num_batched_tokens or 0, settings.max_num_seqs or 0
    experts = _experts_bytes(shape, settings, batch)
    steps = [
        experts + _layers_bytes(shape, settings, batch) + facts.fixed_mib * _MIB,
        experts
        + _sampler_bytes(shape, settings, sequences)
        + batch * shape.hidden_size * _BYTES
        + facts.fixed_mib * _MIB,
    ]
    if not settings.enforce_eager and second_runner(shape, settings):
        table = shape.vocab_size // settings.tensor_parallel_size * shape.hidden_size
        steps.append((table + 2 * batch * shape.hidden_size) * _BYTES)
    return max(steps)


def graphs_bytes(shape: ModelShape, settings: EngineSettings) -> int:
    """What vLLM sets aside for CUDA graphs: as much a graph and layer, and something for the batches."""
    facts, sequences = memory_facts().graphs, settings.max_num_seqs or 0
    since = facts.second_runner_since if second_runner(shape, settings) else vllm_facts().graphs_counted_since
    if settings.enforce_eager or not reached(settings.vllm_version, since):
        return 0
    largest = min(2 * sequences, facts.largest_batches.get(shape.architecture, facts.largest_batch))
    sizes: list[int] = [1, 2, 4, *range(8, min(largest, 256) + 1, 8), *range(272, largest + 1, 16)]
    graphs = len(sizes) + sum(1 for size in sizes if size <= sequences)
    mib = facts.layer_mib * graphs * shape.num_hidden_layers
    return round((mib + facts.base_mib + facts.sequence_mib * min(sequences, facts.largest_batch)) * _MIB)


def second_runner(shape: ModelShape, settings: EngineSettings) -> bool:
    """Whether vLLM runs this model with its newer model runner, which samples in less memory."""
    facts = memory_facts().activation
    if reached(settings.vllm_version, facts.second_runner_since):
        return True
    simple = not shape.experts and shape.linear_num_value_heads is None
    early = simple or shape.architecture in facts.second_runner_early
    return early and reached(settings.vllm_version, facts.second_runner_dense_since)


def _experts_bytes(shape: ModelShape, settings: EngineSettings, batch: int) -> int:
    """Buffers of the experts a token goes through; kept until the end of the run."""
    if not shape.experts or shape.architecture in memory_facts().activation.experts_in_place:
        return 0
    width = (shape.expert_width or 0) // settings.tensor_parallel_size
    ungated = shape.architecture in memory_facts().activation.ungated_experts
    into = width if ungated else 2 * width
    widest = max(width, shape.hidden_size) + max(into, shape.hidden_size)
    return batch * shape.active_experts * widest * _BYTES


def _layers_bytes(shape: ModelShape, settings: EngineSettings, batch: int) -> int:
    """The widest layer: feed-forward of a dense model, attention where experts have buffers of their own."""
    facts, tensor, hidden = memory_facts().activation, settings.tensor_parallel_size, shape.hidden_size
    compiled = 0 if settings.enforce_eager else 1
    queries = shape.num_attention_heads * shape.head_size / tensor
    if shape.latent_width is not None:
        heads = shape.num_attention_heads / tensor
        plain, value = shape.qk_nope_head_dim or 0, shape.v_head_dim or 0
        asked = heads * (plain + (shape.qk_rope_head_dim or 0) + value)
        packed = (shape.q_lora_rank or 0) + shape.latent_width
        unpacked = facts.latent_workspace_tokens * heads * (plain + value)
        return round((batch * (2 * hidden + asked + 2 * packed) + unpacked) * _BYTES)
    if shape.experts:
        keys = shape.kv_heads * shape.head_size / tensor
        width = (3 + compiled) * hidden + 3 * queries + 3 * keys
    else:
        copies = facts.hidden_copies.get(shape.architecture, facts.usual_hidden_copies)
        width = 3 * (shape.intermediate_size or 0) / tensor + copies * hidden
    return round(batch * width * _BYTES)


def _sampler_bytes(shape: ModelShape, settings: EngineSettings, sequences: int) -> int:
    """Scores of every entry of the vocabulary for the last token of every sequence, sorted or not."""
    facts, vocabulary, hidden = memory_facts().activation, shape.vocab_size, shape.hidden_size
    if second_runner(shape, settings):
        gathered = facts.gathered_scores if settings.tensor_parallel_size > 1 else 1.0
        return round(sequences * (vocabulary * gathered + hidden) * _BYTES)
    return round(
        sequences * (facts.sorted_score_bytes * vocabulary + 2 * _BYTES * hidden + facts.sequence_bytes)
        + facts.entry_bytes * vocabulary
    )
