"""The compatibility tables against the real vLLM: its own floors, kernels, orders and cache types."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from realkit import RealKit

from wizard import catalog
from wizard.catalog import AttentionBackend

RELEASE = tomllib.loads((Path(__file__).parent / "versions.toml").read_text())["vllm"]["version"]
CAPABILITIES = (70, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)

# Asked in vLLM's own Python, without a word of the wizard in between. The module of its CUDA platform loads
# compiled CUDA parts that a CPU build has under the same names: empty ones stand in for them.
ASK = """
import json, sys, types, typing
for name in ("_C", "_C_stable_libtorch", "_moe_C", "_moe_C_stable_libtorch"):
    sys.modules["vllm." + name] = types.ModuleType(name)
from vllm.config.cache import CacheDType
from vllm.config.model import _FLOAT16_NOT_SUPPORTED_MODELS
from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS, get_quantization_config
from vllm.model_executor.layers.quantization.compressed_tensors import schemes
from vllm.platforms.cuda import _get_backend_priorities
from vllm.platforms.interface import DeviceCapability
from vllm.v1.attention.backends.registry import AttentionBackendEnum

def capability(number):
    return DeviceCapability(number // 10, number % 10)

def kernel(member):
    try:
        found = member.get_class()
        runs = [n for n in CAPABILITIES if found.supports_compute_capability(capability(n))]
        return [runs, list(found.supported_kv_cache_dtypes)]
    except Exception:  # needs a GPU, or a package that is for GPUs only
        return None

print("TOLD" + json.dumps({
    "floors": {n: get_quantization_config(n).get_min_capability() for n in QUANTIZATION_METHODS},
    "bf16_only": [
        n for n in ("fp8", "awq", "gptq", "mxfp4", "gpt_oss_mxfp4")
        if [str(t) for t in get_quantization_config(n).get_supported_act_dtypes()] == ["torch.bfloat16"]
    ],
    "schemes": {
        n: getattr(schemes, n).get_min_capability()
        for n in dir(schemes)
        if n.startswith("CompressedTensorsW")
    },
    "cache_types": list(typing.get_args(CacheDType)),
    "unstable": list(_FLOAT16_NOT_SUPPORTED_MODELS),
    "kernels": {member.name: kernel(member) for member in AttentionBackendEnum},
    "orders": {
        kind: {n: [m.name for m in _get_backend_priorities(mla, capability(n))] for n in CAPABILITIES}
        for kind, mla in (("full", False), ("latent", True))
    },
}))
"""

# Which of vLLM's methods, or schemes of compressed-tensors, a format of ours is.
METHODS = {
    "fp8": "fp8",
    "modelopt-fp8": "modelopt",
    "mxfp4": "mxfp4",
    "mxfp8": "mxfp8",
    "nvfp4": "modelopt_fp4",
    "awq": "awq",
}
SCHEMES = {
    "fp8-dynamic": "CompressedTensorsW8A16Fp8",
    "nvfp4": "CompressedTensorsW4A4Fp4",
    "mxfp4": "CompressedTensorsW4A4Mxfp4",
    "w4a16": "CompressedTensorsWNA16",
    "w8a16": "CompressedTensorsWNA16",
    "int8": "CompressedTensorsW8A8Int8",
}
# vLLM's floor of 60 stands for ExLlama kernels that fail on 7.0: the rule exllama-on-volta says so.
BROKEN_FLOOR = {"gptq-int4": "gptq", "gptq-int8": "gptq"}
PLUGINS = {"bitsandbytes", "gguf"}
PLAIN = {"bf16", "fp16"}
UNSTABLE = {
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForConditionalGeneration",
    "gemma3_text": "Gemma3ForCausalLM",
    "glm4": "Glm4ForCausalLM",
}


@pytest.fixture(scope="module")
def told(realkit: RealKit) -> dict[str, Any]:
    """What vLLM says of itself."""
    ask = f"CAPABILITIES = {CAPABILITIES}\n{ASK}"
    run = subprocess.run(
        [str(realkit.vllm_python), "-c", ask], capture_output=True, text=True, check=True, timeout=180
    )
    answer: dict[str, Any] = json.loads(run.stdout.partition("TOLD")[2])
    return answer


def floor(name: str) -> int:
    entry = catalog.quantization(name)
    known = (entry.native_capability, entry.weight_only_capability)
    return min(capability for capability in known if capability is not None)


def test_every_format_is_held_against_vllm() -> None:
    ours = {entry.id for entry in catalog.quantizations()}
    assert ours == {*METHODS, *SCHEMES, *BROKEN_FLOOR, *PLUGINS, *PLAIN}


def test_the_floors_of_the_formats_are_vllms_own(told: dict[str, Any]) -> None:
    assert {name: floor(name) for name in METHODS} == {
        name: told["floors"][method] for name, method in METHODS.items()
    }
    assert {name: floor(name) for name in SCHEMES} == {
        name: told["schemes"][scheme] for name, scheme in SCHEMES.items()
    }
    assert (
        catalog.quantization("fp8-dynamic").native_capability == told["schemes"]["CompressedTensorsW8A8Fp8"]
    )
    assert all(told["floors"][method] == 60 < floor(name) for name, method in BROKEN_FLOOR.items())


def test_formats_that_are_plugins_are_gone(told: dict[str, Any]) -> None:
    for name in PLUGINS:
        entry = catalog.quantization(name)
        assert entry.plugin
        assert not catalog.within(RELEASE, None, entry.last_version)
        assert name not in told["floors"]


def test_formats_for_bf16_only(told: dict[str, Any]) -> None:
    asked = {"fp8", "awq", "gptq", "mxfp4", "gpt_oss_mxfp4"}
    ours = {
        METHODS[name] for name in METHODS if METHODS[name] in asked and catalog.quantization(name).needs_bf16
    }
    assert set(told["bf16_only"]) == ours | {"gpt_oss_mxfp4"}


def test_families_that_fp16_breaks(told: dict[str, Any]) -> None:
    rule = next(rule for rule in catalog.rules() if rule.id == "half-precision-unstable")
    assert set(rule.families) == {UNSTABLE[name] for name in told["unstable"]}


def test_the_cache_types_are_vllms_own(told: dict[str, Any]) -> None:
    sized = {name for entry in catalog.memory_facts().kv_dtype for name in entry.names}
    assert sized == set(told["cache_types"])
    kept = {name for backend in catalog.attention_facts().backend for name in backend.cache_types}
    assert kept <= sized


def here() -> list[AttentionBackend]:
    """The kernels the table has in this release."""
    return [backend for backend in catalog.attention_facts().backend if backend.floor(RELEASE) is not None]


def test_every_kernel_runs_and_keeps_what_vllm_says(told: dict[str, Any]) -> None:
    assert {backend.name for backend in here()} <= set(told["kernels"])
    compared = 0
    for backend in here():
        if (said := told["kernels"][backend.name]) is not None:
            runs, types = said
            assert [n for n in CAPABILITIES if backend.runs(n, RELEASE)] == runs, backend.name
            assert backend.cache_types == set(types), backend.name
            compared += 1
    # FlashInfer's, CUTLASS' and one of FlashAttention's modules cannot be loaded without a GPU.
    assert compared >= 12


@pytest.mark.parametrize("number", CAPABILITIES)
def test_the_orders_are_vllms_own(told: dict[str, Any], number: int) -> None:
    decided: set[str] = set()
    for order in catalog.attention_facts().order:
        if order.layers in decided or not order.where.holds(number, RELEASE):
            continue
        decided.add(order.layers)
        if order.layers in ("full", "latent", "sparse"):
            theirs = told["orders"]["full" if order.layers == "full" else "latent"][str(number)]
            assert list(order.backends) == [name for name in theirs if name in order.backends]
            assert order.layers != "full" or list(order.backends) == theirs
    assert "full" in decided
