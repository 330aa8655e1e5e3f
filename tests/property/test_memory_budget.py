"""What must hold for every amount of memory and every window."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from wizard.budget import limits, would_loop
from wizard.catalog import models, opencode_facts
from wizard.memory import CacheLayout, EngineSettings, cache_layout, kv_plan, longest_window

LAYOUTS = [layout for entry in models() if (layout := cache_layout(entry.config)) is not None]

layouts = st.sampled_from(LAYOUTS)
engines = st.builds(
    EngineSettings,
    vllm_version=st.sampled_from(["0.20.2", "0.26.0", "0.33.0"]),
    kv_cache_dtype=st.sampled_from(["auto", "fp8", "nvfp4"]),
    tensor_parallel_size=st.sampled_from([1, 2, 4, 8]),
    pipeline_parallel_size=st.integers(1, 3),
    max_num_batched_tokens=st.sampled_from([2048, 8192]),
)
memory = st.floats(0, 400, allow_nan=False)
windows = st.integers(1, 262144)


@given(layouts, engines, memory, st.floats(0, 100), windows)
@settings(max_examples=60, deadline=None)
def test_more_memory_never_holds_fewer_tokens(
    layout: CacheLayout, engine: EngineSettings, gib: float, more: float, window: int
) -> None:
    less, greater = (kv_plan(layout, engine, amount, window) for amount in (gib, gib + more))
    assert greater.cache_tokens >= less.cache_tokens
    assert greater.max_model_len_fit >= less.max_model_len_fit
    assert greater.needed_gib == less.needed_gib


@given(layouts, engines, memory, windows, st.integers(0, 4096))
@settings(max_examples=60, deadline=None)
def test_the_figures_agree_with_each_other(
    layout: CacheLayout, engine: EngineSettings, gib: float, window: int, longer: int
) -> None:
    plan = kv_plan(layout, engine, gib, window)
    assert plan.num_blocks * plan.bytes_per_block <= gib * (1 << 30)
    assert plan.cache_tokens == int(plan.num_blocks / plan.blocks_per_request * window)
    assert plan.needed_gib * (1 << 30) == plan.blocks_per_request * plan.bytes_per_block
    assert kv_plan(layout, engine, gib, window + longer).blocks_per_request >= plan.blocks_per_request
    if window <= plan.max_model_len_fit:
        assert plan.max_concurrency >= 1


@given(layouts, engines, memory, windows)
@settings(max_examples=60, deadline=None)
def test_more_gpus_never_need_more_each(
    layout: CacheLayout, engine: EngineSettings, gib: float, window: int
) -> None:
    """Up to one block a group: shorter states make shorter blocks, which round differently."""
    more = msgspec.structs.replace(engine, tensor_parallel_size=2 * engine.tensor_parallel_size)
    one, two = (kv_plan(layout, settings, gib, window) for settings in (engine, more))
    groups = sum(bucket.layers for bucket in layout.buckets)
    assert two.bytes_per_token <= one.bytes_per_token
    assert two.needed_gib <= one.needed_gib + groups * max(one.bytes_per_block, two.bytes_per_block) / (
        1 << 30
    )


@given(layouts, engines, memory, st.integers(1, 16))
@settings(max_examples=60, deadline=None)
def test_a_window_for_several_fits_them_all(
    layout: CacheLayout, engine: EngineSettings, gib: float, people: int
) -> None:
    longest = longest_window(layout, engine, gib, concurrency=people)
    assert longest <= longest_window(layout, engine, gib)
    if longest:
        assert kv_plan(layout, engine, gib, longest).max_concurrency >= people


@given(st.integers(1, 2_000_000), st.booleans(), st.sampled_from([None, "1.1.65", "1.14.41", "1.18.33"]))
def test_limits_are_consistent_and_never_loop(window: int, thinks: bool, version: str | None) -> None:
    found = limits(window, thinks=thinks, opencode_version=version)
    assert found.context == window
    assert 1 <= found.output <= window
    assert 1 <= found.input <= window
    assert found.reserved == found.output
    assert found.room_tokens == max(0, found.input - found.reserved - found.base_prompt_tokens)
    loop = would_loop(
        found.context, found.input, found.output, found.reserved, found.base_prompt_tokens, window=window
    )
    assert (loop is not None) <= found.refused
    if window >= opencode_facts().warn_below:
        assert loop is None
        assert not found.refused
    if not found.refused:
        assert found.input < window
        assert found.base_prompt_tokens + found.output <= window


@given(st.integers(16384, 2_000_000), st.booleans())
def test_a_window_from_the_floor_up_is_never_refused(window: int, thinks: bool) -> None:
    found = limits(window, thinks=thinks)
    assert not found.refused
    assert found.room_tokens > 0
    larger = limits(window + 1024, thinks=thinks)
    assert larger.input >= found.input
    assert larger.output >= found.output


@given(st.integers(16384, 300_000), st.integers(1, 100_000))
def test_no_wish_gets_past_the_loop_check(window: int, output: int) -> None:
    found = limits(window, output=output)
    loop = would_loop(
        found.context, found.input, found.output, found.reserved, found.base_prompt_tokens, window=window
    )
    too_short = output < opencode_facts().output_refuse_below
    # A turn, and the last messages that opencode never lets go.
    crowded = found.input - found.reserved < found.base_prompt_tokens + 600 + 2000
    assert found.refused == (loop is not None or too_short or crowded)
    assert found.output <= min(output, opencode_facts().output_cap)
