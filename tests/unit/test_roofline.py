"""The physical limit of decoding against sizes their makers publish and sums done here by hand."""

from __future__ import annotations

import math

import msgspec
import pytest
from launching import plan_for

from wizard import catalog
from wizard.memory import EngineSettings, cache_layout, read_bytes, read_share
from wizard.plan import Option, PlanEdit, apply
from wizard.plan.words import read_options
from wizard.smoke import Hardware, Speed, SpeedReading, StreamRate, beside_limit, brakes_of, release, roofline

H200_GBS = 4800.0


def hardware(model: str, gigabytes: float, *, bits: float = 16, tensor: int = 1) -> Hardware:
    """One of the catalogue's models with weights of this size (decimal GB) on GPUs of an H200."""
    return Hardware(
        bandwidth_gbs=H200_GBS,
        tensor_parallel_size=tensor,
        weights_gib=gigabytes * 1e9 / 2**30,
        bits=bits,
        config=catalog.model(model).config,
        settings=EngineSettings(vllm_version="0.33.0", tensor_parallel_size=tensor),
    )


def limit(found: Hardware, **asked: int) -> float:
    bound = roofline(found, **asked)
    assert bound is not None
    return bound.tokens_per_second


def test_a_dense_8b_in_16_bit_on_an_h200() -> None:
    # Llama 3.1 8B has 8,030,261,248 parameters; one row is read of the 128,256 of its embeddings.
    read = (8_030_261_248 - 128_256 * 4096) * 2
    assert limit(hardware("llama-3.1-8b", 16.06)) == pytest.approx(4.8e12 / read, rel=1e-3)
    # 128 KiB a token in the cache: 32 layers, keys and values, 8 heads of 128, 2 bytes.
    full = read + 100_000 * 131_072
    assert limit(hardware("llama-3.1-8b", 16.06), context=100_000) == pytest.approx(4.8e12 / full, rel=1e-3)


def test_two_gpus_read_twice_as_fast_each_its_half_of_weights_and_heads() -> None:
    one, two = hardware("llama-3.1-8b", 16.06), hardware("llama-3.1-8b", 16.06, tensor=2)
    assert limit(two, context=50_000) == pytest.approx(2 * limit(one, context=50_000))


def test_streams_share_the_weights_of_a_dense_model_and_not_the_cache() -> None:
    found = hardware("llama-3.1-8b", 16.06)
    read = (8_030_261_248 - 128_256 * 4096) * 2 + 8 * 2000 * 131_072
    assert limit(found, streams=8, context=2000) == pytest.approx(8 * 4.8e12 / read, rel=1e-3)
    bound = roofline(found, streams=8)
    assert bound is not None
    assert bound.origin == "computed"


@pytest.mark.parametrize(
    ("model", "total", "active", "table"),
    [
        # The makers' cards; the table of embeddings is counted as active by Qwen, not by OpenAI.
        ("qwen3-30b-a3b", 30.5e9, 3.3e9, 151_936 * 2048),
        ("gpt-oss-120b", 116.83e9, 5.13e9, 0),
    ],
)
def test_a_mixture_reads_what_its_maker_calls_active(
    model: str, total: float, active: float, table: int
) -> None:
    share = read_share(catalog.model(model).config)
    assert share is not None
    assert share * total == pytest.approx(active - table, rel=0.02)
    bound = limit(hardware(model, total * 2 / 1e9))
    assert bound == pytest.approx(4.8e12 / (2 * (active - table)), rel=0.02)


def test_several_streams_go_through_more_experts() -> None:
    # 8 of 128 experts: the chance that none of four tokens takes a certain one.
    missed = (math.comb(127, 8) / math.comb(128, 8)) ** 4
    config = catalog.model("qwen3-30b-a3b").config
    experts = 48 * 128 * 3 * 2048 * 768
    rest = 48 * (2048 * 128 * (32 + 32 + 4 + 4) + 2048 * 128) + 151_936 * 2048
    whole = experts + rest + 151_936 * 2048
    assert read_share(config) == pytest.approx((experts / 16 + rest) / whole)
    assert read_share(config, sequences=4) == pytest.approx((experts * (1 - missed) + rest) / whole)
    bound = roofline(hardware("qwen3-30b-a3b", 61.1), streams=4)
    assert bound is not None
    assert bound.origin == "assumed"


def test_a_window_bounds_what_is_read_of_the_cache() -> None:
    # gpt-oss-120b: 36 layers, every other one keeps 128 tokens; 8 heads of 64, keys and values, 2 bytes.
    layout = cache_layout(catalog.model("gpt-oss-120b").config)
    assert layout is not None
    read = read_bytes(layout, EngineSettings(vllm_version="0.33.0"), 10_000)
    assert read == 18 * (10_000 + 128) * 2 * 8 * 64 * 2


def test_compressed_vectors_are_read_whole_by_every_gpu() -> None:
    # DeepSeek-V3: 61 layers, 512 + 64 elements a token.
    layout = cache_layout(catalog.model("deepseek-v3.1").config)
    assert layout is not None
    settings = EngineSettings(vllm_version="0.33.0", tensor_parallel_size=8)
    assert read_bytes(layout, settings, 1000) == 1000 * 61 * 576 * 2


def test_an_architecture_that_cannot_be_counted_gets_no_limit() -> None:
    unknown = msgspec.structs.replace(hardware("llama-3.1-8b", 16.06), config={})
    assert roofline(unknown) is None
    known = msgspec.structs.replace(unknown, active_share=0.1)
    assert limit(known) == pytest.approx(4.8e12 / 1.606e9)
    assert roofline(known, streams=4) is None


def test_measured_figures_stand_beside_their_limits() -> None:
    speed = Speed(
        ttft_ms=100.0,
        decode_tps=160.0,
        streams=(StreamRate(streams=1, decode_tps=160.0), StreamRate(streams=4, decode_tps=600.0)),
        origins={"decode_tps": "measured"},
    )
    judged = beside_limit(SpeedReading(speed=speed), hardware("llama-3.1-8b", 16.06))
    assert judged.roofline_tps == pytest.approx(319.8, abs=0.2)
    assert judged.share == pytest.approx(0.5, abs=0.001)
    assert judged.streams[1].roofline_tps == pytest.approx(4 * 319.8, abs=1)
    assert judged.streams[1].share == pytest.approx(600 / (4 * 319.8), abs=0.001)
    assert judged.origins == {"decode_tps": "measured", "roofline_tps": "computed", "share": "computed"}


def test_conservative_options_are_found_with_their_price_and_can_be_left_out() -> None:
    plan = plan_for(
        "vllm",
        "serve",
        base_options=(Option(flag="--enforce-eager"), Option(flag="--tensor-parallel-size", value="2")),
        base_env={"NCCL_P2P_DISABLE": "1", "CUDA_LAUNCH_BLOCKING": "0"},
    )
    plan = apply(plan, PlanEdit(origin="user", title="mine", set={"--no-async-scheduling": None}))
    found = {cost.option: cost for cost in brakes_of(plan)}
    assert list(found) == ["--enforce-eager", "--no-async-scheduling", "NCCL_P2P_DISABLE=1"]
    assert (found["--enforce-eager"].price_min, found["--enforce-eager"].price_max) == (0.15, 0.75)
    for cost in found.values():
        plan = apply(plan, release(cost, plan))
    assert brakes_of(plan) == ()
    assert plan.argv == ("vllm", "serve", "--tensor-parallel-size", "2")
    assert plan.env == {"CUDA_LAUNCH_BLOCKING": "0"}


@pytest.mark.parametrize(
    ("words", "shown", "left"),
    [
        # What vLLM 0.32's own parser makes of these words: see vllm/utils/argparse_utils.py and
        # vllm/config/compilation.py.
        ("-O0 --port 1", ["-O0"], "--port 1"),
        ("-O=1", ["-O 1"], ""),
        ("-O 0", ["-O 0"], ""),
        ("-O2", [], "-O2"),
        ("--optimization-level 1", ["--optimization-level 1"], ""),
        ('-cc {"cudagraph_mode":"none"}', ["--compilation-config.cudagraph_mode none"], ""),
        (
            '--compilation-config {"mode":0,"cudagraph_mode":"PIECEWISE","backend":"eager"}',
            ["--compilation-config.cudagraph_mode PIECEWISE", "--compilation-config.mode 0"],
            '--compilation-config {"backend":"eager"}',
        ),
        ('--compilation-config {"mode":3}', [], '--compilation-config {"mode":3}'),
        ("-cc.mode=none", ["--compilation-config.mode none"], ""),
        ("--compilation-config {broken", [], "--compilation-config {broken"),
    ],
)
def test_brakes_are_found_however_they_are_written(words: str, shown: list[str], left: str) -> None:
    plan = plan_for("vllm", "serve", base_options=read_options(words.split()))
    found = brakes_of(plan)
    assert [cost.option for cost in found] == shown
    for cost in found:
        plan = apply(plan, release(cost, plan))
    assert " ".join(plan.argv[2:]).replace(": ", ":") == left


def test_what_costs_nothing_on_one_gpu_or_in_this_version_is_no_brake() -> None:
    plan = plan_for("vllm", base_options=(Option(flag="--disable-custom-all-reduce"),))
    assert brakes_of(plan) == ()
    old = plan_for("vllm", base_options=(Option(flag="--no-async-scheduling"),), vllm_version="0.10.0")
    assert brakes_of(old) == ()


def test_every_brake_is_an_option_or_a_variable_that_is_known() -> None:
    names = {*catalog.flag_facts().recorded.names}
    for brake in catalog.speed_facts().brake:
        assert (brake.flag is None) != (brake.variable is None)
        assert brake.flag is None or brake.flag.partition(".")[0] in names
        assert (brake.price_min is None) == (brake.price_max is None)
    assert {entry.flag for entry in catalog.speed_facts().unlimited} <= names
