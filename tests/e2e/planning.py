"""Runs in vLLM's environment: what vLLM's own classes plan for the cache of a checkpoint, on a GPU's terms.

Reads a list of ``{config, available_gib, max_model_len, args}`` from standard input and writes one line of
JSON behind ``MARK`` for each. The model is built without memory (meta tensors), its layers are asked what
they keep, and vLLM's planner does the rest. Two things are set as on a GPU: blocks are counted from 16
tokens, and one batch is prepared while another runs. And every CPU is taken for the same one, with AMX, or
vLLM turns chunked prefill and prefix caching off for latent attention, and without bfloat16 in AVX-512, or it
keeps all states in 32 bit.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

MARK = "PLANNED "
BLOCK = 16


def main() -> None:
    import torch
    from vllm.distributed import init_distributed_environment
    from vllm.model_executor.models import registry

    # vLLM looks at each model class in a process of its own, to keep CUDA out of this one: none is here.
    registry._run_in_subprocess = lambda look: look()
    torch.cpu._is_amx_tile_supported = lambda: True
    torch.cpu._is_avx512_bf16_supported = lambda: False
    with tempfile.TemporaryDirectory() as folder:
        init_distributed_environment(1, 0, f"file://{folder}/meeting", 0, "gloo")
        for asked in json.load(sys.stdin):
            try:
                answer = planned(asked)
            except Exception as error:  # noqa: BLE001 - whatever a model class raises is its answer
                answer = {"error": f"{type(error).__name__}: {error}"}
            sys.stdout.write(f"\n{MARK}{json.dumps(answer)}\n")
            sys.stdout.flush()


def planned(asked: dict[str, Any]) -> dict[str, Any]:
    """Blocks and tokens for one checkpoint."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.distributed import destroy_model_parallel, ensure_model_parallel_initialized
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.v1.core import kv_cache_utils as planner

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(asked["config"]), encoding="utf-8")
        config = EngineArgs(
            model=folder,
            skip_tokenizer_init=True,
            load_format="dummy",
            enforce_eager=True,
            block_size=BLOCK,
            max_model_len=asked["max_model_len"],
            **asked["args"],
        ).create_engine_config()
        config.scheduler_config.async_scheduling = True
        with set_current_vllm_config(config):
            destroy_model_parallel()
            ensure_model_parallel_initialized(1, 1)
            torch.set_default_dtype(config.model_config.dtype)
            with torch.device("meta"):
                model = initialize_model(vllm_config=config)
            specs = layer_specs(config)
            config.cache_config.kv_cache_layout = "LBNHC"
            available = int(asked["available_gib"] * (1 << 30))
            cache = planner.get_kv_cache_configs(config, [specs], [available])[0]
            concurrency = planner.get_max_concurrency_for_kv_cache_config(config, cache)
    return {
        "weight_bytes": sum(weight.nbytes for weight in model.parameters()),
        "num_blocks": cache.num_blocks,
        "concurrency": concurrency,
        "cache_tokens": int(concurrency * asked["max_model_len"]),
        "block_size": config.cache_config.block_size,
        "in_flight_tokens": config.max_in_flight_tokens,
        "kinds": sorted({type(spec).__name__ for spec in specs.values()}),
    }


def layer_specs(config: Any) -> dict[str, Any]:
    """What every layer of the model says it keeps."""
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
    from vllm.platforms.interface import Platform
    from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend
    from vllm.v1.kv_cache_interface import AttentionSpec

    class OnGpu(Platform):
        @classmethod
        def _find_non_ssm_backends(cls, vllm_config: Any) -> list[Any]:
            return [FlashAttentionBackend]

    if config.model_config.is_hybrid:
        OnGpu._align_hybrid_block_size(config, FlashAttentionBackend)
    specs = {}
    for name, layer in config.compilation_config.static_forward_context.items():
        spec = layer.get_kv_cache_spec(config) if isinstance(layer, AttentionLayerBase) else None
        if isinstance(spec, AttentionSpec):
            spec = dataclasses.replace(spec, block_size=config.cache_config.block_size)
        if spec is not None:
            specs[name] = spec
    return specs


if __name__ == "__main__":
    main()
