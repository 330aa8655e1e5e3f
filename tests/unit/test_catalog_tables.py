"""The bundled tables against figures from outside, and against each other."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from pathlib import Path

import pytest

from wizard import catalog
from wizard.catalog.types import Sourced
from wizard.errors import UnknownNameError

TWO_SIZES = {
    "NVIDIA GeForce RTX 2060": (6, 12),
    "NVIDIA GeForce RTX 3050": (8, 6),
    "NVIDIA GeForce RTX 3060": (12, 8),
    "NVIDIA GeForce RTX 3080": (10, 12),
    "NVIDIA GeForce RTX 3080 Laptop GPU": (8, 16),
    "NVIDIA GeForce RTX 4060 Ti": (16, 8),
    "NVIDIA GeForce RTX 5060 Ti": (16, 8),
}


@pytest.fixture(autouse=True)
def _no_overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    catalog.clear_cache()
    yield
    catalog.clear_cache()


def every_entry() -> list[Sourced]:
    vllm, opencode = catalog.vllm_facts(), catalog.opencode_facts()
    entries: list[Sourced] = [
        vllm,
        opencode,
        vllm.unified_memory,
        vllm.log,
        *catalog.gpus(),
        *catalog.models(),
    ]
    entries += [variant for model in catalog.models() for variant in model.variants]
    entries += [*catalog.parsers("tool"), *catalog.parsers("reasoning"), *catalog.wire_formats()]
    entries += [*catalog.quantizations(), *opencode.base_prompt, *opencode.limits]
    entries += [*vllm.memory_utilization, *vllm.batch_default, *vllm.capability_support]
    host = catalog.host_facts()
    entries += [host, host.memory, host.disk, host.limits, host.nvcc, host.kernel_log, host.bar1]
    entries += [host.governor, *host.low_power, *host.file_system]
    entries += [*host.glibc, *host.driver, *host.python, *host.xid, *host.gb10_twin]
    flags, runtimes = catalog.flag_facts(), catalog.runtime_facts()
    entries += [flags, flags.recorded, *flags.flag, *flags.variable]
    entries += [runtimes, runtimes.command, runtimes.container]
    entries += [*runtimes.tools, *runtimes.engine, *runtimes.image]
    speed = catalog.speed_facts()
    entries += [speed, speed.measure, speed.prompt, *speed.unlimited, *speed.brake]
    return [*entries, *vllm.milestone, *vllm.failure]


def test_everything_names_its_source() -> None:
    assert not [entry for entry in every_entry() if len(entry.source) < 10]


def test_counts() -> None:
    # 136 products, seven names with a second memory size; vLLM 0.33.0 registers 58 and 42 parsers.
    assert len(catalog.gpus()) == 136 + len(TWO_SIZES)
    assert len(catalog.parsers("tool")) == 58
    assert len(catalog.parsers("reasoning")) == 42


def test_identifiers_are_unique() -> None:
    for names in (
        [gpu.id for gpu in catalog.gpus()],
        [model.id for model in catalog.models()],
        [model.rank for model in catalog.models()],
        [entry.id for entry in catalog.quantizations()],
        [entry.name for entry in catalog.parsers("tool")],
        [entry.name for entry in catalog.parsers("reasoning")],
        [flag.name for flag in catalog.flag_facts().flag],
        [milestone.id for milestone in catalog.vllm_facts().milestone],
    ):
        assert not [name for name, count in collections.Counter(names).items() if count > 1]


@pytest.mark.parametrize(
    ("name", "memory_mib", "id", "capability", "bandwidth"),
    [
        ("NVIDIA GB10", None, "gb10", "12.1", 273),
        ("NVIDIA H200", 143771, "h200-sxm", "9.0", 4800),
        ("Tesla V100-SXM2-32GB", 32768, "v100-sxm2-32", "7.0", 900),
        ("NVIDIA Tesla T4", 15360, "t4", "7.5", 320),
        ("NVIDIA A100-SXM4-80GB", 81920, "a100-sxm-80", "8.0", 2039),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 40192, "a100-sxm-80", "8.0", 2039),
        ("NVIDIA GeForce RTX 4090", 24564, "rtx-4090", "8.9", 1008),
        ("GeForce RTX 3090", 24576, "rtx-3090", "8.6", 936),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 97887, None, "12.0", 1792),
        ("Tesla P40", 24576, "p40", "6.1", 347),
    ],
)
def test_gpus_by_the_names_drivers_give(
    name: str, memory_mib: int | None, id: str | None, capability: str, bandwidth: float
) -> None:
    gpu = catalog.gpu_by_name(name, memory_mib)
    assert gpu is not None
    assert gpu.compute_capability == capability
    assert gpu.bandwidth_gbs == bandwidth
    assert id is None or gpu.id == id


@pytest.mark.parametrize(("name", "sizes"), TWO_SIZES.items())
def test_a_name_with_two_memory_sizes(name: str, sizes: tuple[int, int]) -> None:
    for size in sizes:
        gpu = catalog.gpu_by_name(name, size * 1024 - 200)
        assert gpu is not None
        assert gpu.memory_mib == size * 1024
    without = catalog.gpu_by_name(name)
    assert without is not None
    assert without.memory_mib == min(sizes) * 1024


def test_bandwidth_follows_the_memory_size() -> None:
    small, large = (catalog.gpu_by_name("NVIDIA GeForce RTX 3080", size) for size in (10240, 12288))
    assert small is not None
    assert large is not None
    assert (small.bandwidth_gbs, large.bandwidth_gbs) == (760, 912)


def test_unknown_gpu() -> None:
    assert catalog.gpu_by_name("NVIDIA GeForce RTX 9090", 65536) is None
    assert catalog.gpu_by_name("") is None


def test_one_name_means_one_capability() -> None:
    capabilities = collections.defaultdict(set)
    for gpu in catalog.gpus():
        for name in gpu.nvml_names:
            capabilities[name.lower()].add(gpu.compute_capability)
    assert not {name for name, found in capabilities.items() if len(found) > 1}


def test_only_these_share_memory_with_the_system() -> None:
    unified = {gpu.id for gpu in catalog.gpus() if gpu.unified}
    assert unified == {"gb10", "agx-orin-64", "agx-orin-32", "orin-nx-16", "thor-t5000", "thor-t4000"}


def test_models_are_sorted_and_complete() -> None:
    models = catalog.models()
    assert [model.rank for model in models] == sorted(model.rank for model in models)
    checkpoints = {variant.checkpoint for model in models for variant in model.variants}
    assert checkpoints >= {
        "Qwen/Qwen3-Coder-Next-FP8",
        "Qwen/Qwen3-Coder-30B-A3B-Instruct",
        "Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8",
        "Qwen/Qwen2.5-Coder-32B-Instruct",
        "Qwen/Qwen2.5-Coder-32B-Instruct-GPTQ-Int8",
        "RedHatAI/Qwen2.5-Coder-32B-Instruct-FP8-dynamic",
        "Qwen/Qwen3.6-27B",
        "Qwen/Qwen3.6-27B-FP8",
        "nvidia/Qwen3.6-27B-NVFP4",
        "mistralai/Devstral-Small-2507",
        "openai/gpt-oss-20b",
        "openai/gpt-oss-120b",
        "zai-org/GLM-4.5-Air",
        "zai-org/GLM-4.5-Air-FP8",
    }


def test_models_name_known_parsers_and_formats() -> None:
    for model in catalog.models():
        if model.tool_parser is not None and not model.tool_parser_plugin:
            catalog.parser("tool", model.tool_parser)
        if model.reasoning_parser is not None:
            catalog.parser("reasoning", model.reasoning_parser)
        for variant in model.variants:
            catalog.quantization(variant.quantization)


def test_qwen25_coder_is_known_not_to_work() -> None:
    model = catalog.model("Qwen/Qwen2.5-Coder-32B-Instruct")
    assert model.blocked
    assert "<tools>" in model.warning


@pytest.mark.parametrize(
    "name",
    [
        "qwen3-coder-next",
        "QWEN3-Coder-Next 80B-A3B",
        "Qwen/Qwen3-Coder-Next-FP8",
        "Qwen3-Coder-Next-FP8",
        " qwen3-coder-next ",
    ],
)
def test_model_by_any_of_its_names(name: str) -> None:
    assert catalog.model(name).id == "qwen3-coder-next"


def test_unknown_names_offer_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="qwen3-coder-next"):
        catalog.model("qwen3-codr-next")
    with pytest.raises(UnknownNameError, match="qwen3_coder"):
        catalog.parser("tool", "qwen3-coder")
    with pytest.raises(UnknownNameError, match="nvfp4"):
        catalog.quantization("nvfp")


def test_no_name_belongs_to_two_models() -> None:
    owners = collections.defaultdict(set)
    for model in catalog.models():
        for name in (
            model.id,
            model.name,
            *model.aliases,
            *(variant.checkpoint for variant in model.variants),
            *(variant.checkpoint.rpartition("/")[2] for variant in model.variants),
        ):
            owners[name.lower()].add(model.id)
    assert not {name for name, found in owners.items() if len(found) > 1}


@pytest.mark.parametrize(
    ("id", "native", "weight_only"),
    [
        # get_min_capability() of vLLM 0.33.0, of 0.19.1 for bitsandbytes; supports_fp8() is 89.
        ("bf16", 80, None),
        ("fp8", 89, 75),
        ("nvfp4", 100, 75),
        ("mxfp4", 100, 80),
        ("awq", 75, None),
        ("modelopt-fp8", 89, 80),
        ("bitsandbytes", None, 70),
    ],
)
def test_where_formats_run(id: str, native: int | None, weight_only: int | None) -> None:
    entry = catalog.quantization(id)
    assert (entry.native_capability, entry.weight_only_capability) == (native, weight_only)


def test_bf16_falls_back_to_fp16_on_a_v100() -> None:
    bf16 = catalog.quantization("bf16")
    assert bf16.fallback_args == ("--dtype", "half")
    assert bf16.fallback is not None
    assert catalog.quantization(bf16.fallback).native_capability == 70


def test_plugins_follow_the_last_version_with_the_format_inside() -> None:
    left = {entry.id: (entry.last_version, entry.plugin) for entry in catalog.quantizations() if entry.plugin}
    assert left == {"gguf": ("0.23.0", "vllm-gguf-plugin"), "bitsandbytes": ("0.27.1", "vllm-bnb-plugin")}


def test_leak_markers() -> None:
    leaks = {leak.marker: leak for leak in catalog.leak_markers()}
    assert leaks["<tools>"].parsers == ()
    assert leaks["<tools>"].format == "qwen2.5-coder-tools"
    assert {"hermes", "qwen3_coder", "glm45"} <= set(leaks["<tool_call>"].parsers)
    assert leaks["[TOOL_CALLS]"].parsers == ("mistral",)
    assert leaks["<|tool_calls_section_begin|>"].parsers == ("kimi_k2",)
    assert leaks["<think>"].kind == "reasoning"
    assert "deepseek_r1" in leaks["<think>"].parsers
    lengths = [len(leak.marker) for leak in catalog.leak_markers()]
    assert lengths == sorted(lengths, reverse=True)


def test_no_marker_is_shared_by_calls_and_thoughts_or_by_ordinary_code() -> None:
    tool = {marker for parser in catalog.parsers("tool") for marker in parser.markers}
    thoughts = {marker for parser in catalog.parsers("reasoning") for marker in parser.markers}
    unread = {marker for entry in catalog.wire_formats() for marker in entry.markers}
    assert not tool & thoughts
    assert not unread & (tool | thoughts)
    ordinary = (
        '{"name": "add", "arguments": {}} [add(a=1)] import functools <div>text</div> def function(x): ...'
    )
    assert not [marker for marker in tool | thoughts | unread if marker in ordinary]


def test_vllm_defaults_by_version() -> None:
    facts = catalog.vllm_facts()
    assert facts.newest == "0.33.0"
    assert [(entry.since, entry.value) for entry in facts.memory_utilization] == [
        ("0.8.0", 0.9),
        ("0.20.0", 0.92),
    ]
    assert facts.graphs_counted_since == "0.21.0"
    rows = [(row.min_memory_gib, row.max_num_batched_tokens, row.max_num_seqs) for row in facts.batch_default]
    assert rows == [(160, 16384, 1024), (70, 8192, 1024), (0, 2048, 256)]
    assert facts.batch_default[1].except_capabilities == (121,)
    assert facts.unified_memory.utilization <= facts.unified_memory.max_utilization <= 0.85
    eras = [(era.since, era.previous, era.min_capability) for era in facts.capability_support]
    assert eras == [("0.8.0", None, 70), ("0.20.0", "0.19.1", 75)]


@pytest.mark.parametrize(
    ("flag", "version", "known"),
    [
        ("--max-model-len auto", "0.13.0", False),
        ("--max-model-len auto", "0.14.0rc1", True),
        ("--max-model-len auto", None, True),
        ("--swap-space", "0.17.1", True),
        ("--swap-space", "0.18.0", False),
        ("--swap-space", None, False),
        ("--enable-reasoning", "0.9.2", True),
    ],
)
def test_flags_by_version(flag: str, version: str | None, known: bool) -> None:
    assert catalog.flag_known(flag, version) is known


def test_unknown_flag_is_an_error_of_ours() -> None:
    with pytest.raises(UnknownNameError):
        catalog.flag_known("--max-model-length", None)


def test_opencode_limits_add_up() -> None:
    facts = catalog.opencode_facts()
    assert facts.output_cap == 32000
    for row in facts.limits:
        assert row.reserved == row.output
        assert row.input < row.context
        assert row.output <= facts.output_cap
        # opencode tidies up at input - reserved: more than what it sends before anybody typed.
        base = facts.base_prompt[-1].trimmed if row.needs_trimmed_tools else facts.base_prompt[-1].plan_with
        assert row.input - row.reserved > base
        # One tool result comes in before opencode looks at the size again; 4 bytes a token.
        if row.tool_output_max_bytes is not None:
            assert row.context - row.input >= row.tool_output_max_bytes / 4
    assert [row.context for row in facts.limits] == sorted(
        (row.context for row in facts.limits), reverse=True
    )
    assert facts.refuse_below_trimmed < facts.refuse_below < facts.warn_below
