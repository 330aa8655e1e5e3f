"""Which attention vLLM takes, against what its own tables say for every generation of GPU."""

from __future__ import annotations

import msgspec
import pytest

from wizard import catalog
from wizard.compat import attention_rule
from wizard.compat.types import Reason
from wizard.memory import AttentionLayers, CacheLayout, LatentLayers
from wizard.runtime import assumed_runtime

FULL = CacheLayout(buckets=(AttentionLayers(layers=32, kv_heads=8, head_dim=128),))
NARROW = CacheLayout(buckets=(AttentionLayers(layers=32, kv_heads=8, head_dim=64),))
ODD = CacheLayout(buckets=(AttentionLayers(layers=32, kv_heads=8, head_dim=80),))
MLA = CacheLayout(buckets=(LatentLayers(layers=60, width=576),))
SPARSE = CacheLayout(buckets=(LatentLayers(layers=60, width=576, indexed=True),))
GPT_OSS = "GptOssForCausalLM"


def asked(
    layout: CacheLayout,
    capability: int,
    version: str = "0.33.0",
    cache: str = "auto",
    architecture: str = "",
) -> Reason | None:
    found = attention_rule(layout, architecture, capability, assumed_runtime(version), cache)
    assert len(found) <= 1
    return found[0] if found else None


# vLLM 0.33.0 vllm/platforms/cuda.py and its generated table of backends; 0.19.1 for compute capability 7.0.
@pytest.mark.parametrize(
    ("capability", "version", "backend"),
    [
        (70, "0.10.2", "XFORMERS"),
        (70, "0.19.1", "TRITON_ATTN"),
        (70, "0.19.1+cu129", "TRITON_ATTN"),
        (75, "0.33.0", "TRITON_ATTN"),
        (80, "0.33.0", "FLASH_ATTN"),
        (86, "0.33.0", "FLASH_ATTN"),
        (89, "0.33.0", "FLASH_ATTN"),
        (90, "0.33.0", "FLASH_ATTN"),
        (100, "0.33.0", "FLASHINFER"),
        (103, "0.33.0", "FLASHINFER"),
        (110, "0.33.0", "FLASH_ATTN"),
        (120, "0.33.0", "FLASH_ATTN"),
        (121, "0.33.0", "FLASH_ATTN"),
    ],
)
def test_the_usual_attention_by_generation(capability: int, version: str, backend: str) -> None:
    reason = asked(FULL, capability, version)
    assert reason is not None
    assert backend in reason.text.split(":")[0]
    assert version in reason.text
    assert not reason.refuses


@pytest.mark.parametrize(
    ("capability", "backend"),
    [
        (75, "TRITON_MLA"),
        (80, "TRITON_MLA"),
        (89, "TRITON_MLA"),
        (90, "FLASH_ATTN_MLA"),
        (100, "FLASHINFER_MLA"),
        (110, "TRITON_MLA"),
        (120, "TRITON_MLA"),
    ],
)
def test_latent_attention_by_generation(capability: int, backend: str) -> None:
    reason = asked(MLA, capability)
    assert reason is not None
    assert f" {backend} " in reason.text.split(":")[0]


# gpt-oss: FlashAttention 2 has no sinks; FlashInfer has them on 10.x, and since 0.28 on 9.0 and 12.x.
@pytest.mark.parametrize(
    ("capability", "version", "backend"),
    [
        (80, "0.33.0", "TRITON_ATTN"),
        (89, "0.33.0", "TRITON_ATTN"),
        (90, "0.33.0", "FLASH_ATTN"),
        (100, "0.33.0", "FLASHINFER"),
        (110, "0.33.0", "TRITON_ATTN"),
        (120, "0.27.1", "TRITON_ATTN"),
        (120, "0.28.0", "FLASHINFER"),
    ],
)
def test_attention_sinks(capability: int, version: str, backend: str) -> None:
    reason = asked(NARROW, capability, version, architecture=GPT_OSS)
    assert reason is not None
    assert f" {backend} " in reason.text.split(":")[0]


# The cells of the table of KV caches, one by one.
@pytest.mark.parametrize(
    ("layout", "architecture", "capability", "version", "cache", "works"),
    [
        (FULL, "", 75, "0.33.0", "fp8", False),
        (FULL, "", 75, "0.23.0", "fp8", True),  # FlashInfer still took 7.5: vLLM issue 47549
        (FULL, "", 70, "0.19.1", "fp8", False),
        (FULL, "", 80, "0.33.0", "fp8", True),
        (NARROW, GPT_OSS, 80, "0.33.0", "fp8", False),
        (NARROW, GPT_OSS, 86, "0.33.0", "fp8", False),
        (NARROW, GPT_OSS, 89, "0.33.0", "fp8", True),
        (FULL, "", 90, "0.33.0", "fp8", True),
        (MLA, "", 80, "0.33.0", "fp8", False),
        (MLA, "", 86, "0.33.0", "fp8", False),
        (MLA, "", 89, "0.33.0", "fp8", True),
        (MLA, "", 90, "0.33.0", "fp8", True),
        (MLA, "", 120, "0.33.0", "fp8", True),
        (FULL, "", 80, "0.31.0", "nvfp4", False),
        (FULL, "", 80, "0.32.0", "nvfp4", True),
        (FULL, "", 90, "0.32.0", "nvfp4", True),
        (NARROW, "", 120, "0.33.0", "nvfp4", False),
        (FULL, "", 120, "0.33.0", "nvfp4", True),
        (FULL, "", 100, "0.31.0", "nvfp4", True),
        (FULL, "", 75, "0.33.0", "nvfp4", False),
        (FULL, "", 100, "0.33.0", "nvfp4_4over6", True),
        (FULL, "", 120, "0.33.0", "nvfp4_4over6", False),
        (FULL, "", 75, "0.33.0", "int8_per_token_head", True),
        (FULL, "", 75, "0.33.0", "bfloat16", True),  # FLEX_ATTENTION
        (FULL, "", 80, "0.33.0", "turboquant_k8v4", True),
        (MLA, "", 80, "0.33.0", "nvfp4", False),
        (SPARSE, "", 90, "0.33.0", "fp8_ds_mla", True),
        (SPARSE, "", 120, "0.33.0", "nvfp4_ds_mla", False),
        (FULL, "", 90, "0.33.0", "fp8_ds_mla", False),
    ],
)
def test_what_the_cache_can_be(
    layout: CacheLayout, architecture: str, capability: int, version: str, cache: str, works: bool
) -> None:
    reason = asked(layout, capability, version, cache, architecture)
    assert reason is not None
    assert reason.refuses is not works
    if not works:
        assert reason.code == "cache-type-impossible"
        assert cache in reason.text
        assert version in reason.text
        assert reason.source


def test_below_8_0_the_kernel_is_named_as_the_version_takes_it() -> None:
    """--attention-backend came with 0.13; VLLM_ATTENTION_BACKEND was read until 0.14.1."""
    before, since = asked(FULL, 70, "0.12.0"), asked(FULL, 70, "0.19.1")
    assert before is not None
    assert since is not None
    assert (before.args, before.env) == ((), {"VLLM_ATTENTION_BACKEND": "TRITON_ATTN"})
    assert (since.args, since.env) == (("--attention-backend", "TRITON_ATTN"), {})
    newest = asked(FULL, 75, "0.33.0")
    assert newest is not None
    assert not newest.args


def test_with_heads_flashinfer_lacks_the_next_kernel_is_taken() -> None:
    reason = asked(ODD, 100)
    assert reason is not None
    assert "takes FLASH_ATTN " in reason.text
    assert "FLASHINFER has no heads of 80" in reason.text


def test_the_installed_vllm_is_believed_before_the_table() -> None:
    runtime = msgspec.structs.replace(assumed_runtime("0.33.0"), attention_backends=("TRITON_ATTN",))
    (reason,) = attention_rule(FULL, "", 90, runtime)
    assert "takes TRITON_ATTN " in reason.text
    runtime = msgspec.structs.replace(runtime, attention_backends=("FLASHMLA",))
    (reason,) = attention_rule(FULL, "", 90, runtime)
    assert (reason.code, reason.refuses) == ("no-attention-backend", True)
    assert not attention_rule(FULL, "", 90, msgspec.structs.replace(runtime, cpu_build=True))


def test_every_order_names_kernels_of_the_table() -> None:
    facts = catalog.attention_facts()
    names = [backend.name for backend in facts.backend]
    assert len(names) == len(set(names))
    assert {name for order in facts.order for name in order.backends} <= set(names)
    assert {demand.only for demand in facts.demand if demand.only} <= set(names)
    rules = {rule.id for rule in catalog.rules()}
    assert {"no-attention-backend", "cache-type-impossible"} <= rules
