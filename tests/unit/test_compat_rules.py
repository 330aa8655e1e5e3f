"""The rules of the matrix as data: every refusal has one, each can be switched off, and none is broken."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from wizard import catalog
from wizard.compat import Row, matrix, version_for
from wizard.errors import CorruptDataError
from wizard.machine import Machine, load_machine
from wizard.memory import EngineSettings
from wizard.runtime import assumed_runtime

MACHINES = sorted(
    entry.name.removesuffix(".json")
    for entry in (resources.files("assets") / "machines").iterdir()
    if entry.name.endswith(".json")
)
REFUSING = [rule.id for rule in catalog.rules() if rule.effect == "refuse"]
# Restated from get_min_capability of vLLM's quantization layers and its documentation's table of hardware:
# the lowest compute capability, times ten, that runs a format at all.
FLOORS = {
    "bf16": 70,
    "fp16": 70,
    "fp8": 75,
    "fp8-dynamic": 75,
    "mxfp4": 80,
    "nvfp4": 75,
    "awq": 75,
    "gptq-int4": 75,
    "gptq-int8": 75,
    "w4a16": 75,
    "w8a16": 75,
    "int8": 75,
    "bitsandbytes": 70,
    "gguf": 70,
}


def rows_of(machine: Machine, version: str | None = None) -> tuple[Row, ...]:
    runtime = assumed_runtime(version or version_for(machine))
    assert runtime.version is not None
    return matrix(machine, runtime, EngineSettings(vllm_version=runtime.version))


@functools.cache
def usual_rows(name: str, version: str | None = None) -> tuple[Row, ...]:
    return rows_of(load_machine(name), version)


@pytest.fixture
def overlay(own_home: Path) -> Iterator[Path]:
    """The user's overlay folder, empty; forgotten afterwards."""
    folder = own_home / ".config" / "vllm-opencode" / "assets.d"
    folder.mkdir(parents=True)
    yield folder
    catalog.clear_cache()


@pytest.mark.parametrize("name", MACHINES)
def test_every_refusal_names_a_rule_and_a_source(name: str) -> None:
    known = {rule.id for rule in catalog.rules()}
    for row in usual_rows(name):
        for reason in row.reasons:
            if reason.refuses:
                assert reason.code in known
                assert reason.source
        assert (row.verdict == "no") == any(reason.refuses for reason in row.reasons)


@pytest.mark.parametrize("name", MACHINES)
def test_no_offered_row_is_below_its_formats_floor(name: str) -> None:
    machine = load_machine(name)
    capability = {gpu.index: gpu.capability for gpu in machine.gpus if gpu.compute_capability}
    for row in usual_rows(name):
        if row.verdict != "no" and row.quantization in FLOORS:
            assert all(capability[index] >= FLOORS[row.quantization] for index in row.gpus)


@pytest.mark.parametrize("rule", REFUSING)
def test_a_rule_switched_off_flips_exactly_the_rows_that_cite_it(overlay: Path, rule: str) -> None:
    places = (("v100x10", None), ("v100x10", "0.33.0"), ("t4", None), ("a100x4", None), ("no-gpu", None))
    before = {place: usual_rows(*place) for place in places}
    overlay.joinpath("mine.toml").write_text(f'[[rule]]\nid = "{rule}"\ndisabled = true\n', encoding="utf-8")
    catalog.clear_cache()
    cited = 0
    for name, version in places:
        after = {(row.model, row.variant): row for row in rows_of(load_machine(name), version)}
        for row in before[name, version]:
            now = after[row.model, row.variant]
            left = tuple(reason for reason in row.reasons if reason.code != rule)
            cited += left != row.reasons
            assert now.reasons == left
            still = any(reason.refuses for reason in left)
            assert (now.verdict == "no") == still
            if left == row.reasons:
                assert now == row
    assert cited or rule in ("no-parser", "wrong-parser"), "no row of these machines cites it"


def test_volta_gets_what_volta_runs() -> None:
    """Ten V100: FP16 with --dtype half, 4 bit by bitsandbytes; no FP8, AWQ, GPTQ or MLA; vLLM 0.19.1."""
    assert version_for(load_machine("v100x10")) == "0.19.1"
    rows = usual_rows("v100x10")
    offered = [row for row in rows if row.verdict != "no"]
    assert offered
    assert {row.quantization for row in offered} <= {"bf16", "fp16", "bitsandbytes"}
    codes = {row.model: {reason.code for reason in row.reasons} for row in rows}
    assert "latent-attention-on-volta" in codes["deepseek-v3.1"]
    assert all("triton-attention" in codes[row.model] for row in offered)
    gptq = [row for row in rows if row.quantization.startswith("gptq")]
    assert gptq
    assert all("exllama-on-volta" in {reason.code for reason in row.reasons} for row in gptq)
    doubted = next(row for row in rows if (row.model, row.variant) == ("qwen3-coder-next", "bf16"))
    assert doubted.verdict == "warn"
    assert rows.index(doubted) > max(rows.index(row) for row in rows if row.verdict == "ok")


@pytest.mark.parametrize(
    ("name", "model", "parser"),
    [
        ("gb10", "qwen3-coder-next", "qwen3_coder"),
        ("thor", "qwen3-coder-next", "qwen3_coder"),
        ("h200", "qwen3-coder-next", "qwen3_coder"),
        ("rtx4090x2", "qwen3.8-27b", "qwen3_coder"),
    ],
)
def test_what_leads(name: str, model: str, parser: str) -> None:
    first = usual_rows(name)[0]
    assert (first.model, first.parser, first.verdict) == (model, parser, "ok")
    assert first.quantization == "fp8"


def test_sparse_attention_needs_its_generations() -> None:
    def verdicts(name: str) -> set[str]:
        return {row.verdict for row in usual_rows(name) if row.model == "deepseek-v3.2"}

    assert verdicts("a100x4") == {"no"}
    cites = {
        reason.code for row in usual_rows("a100x4") if row.model == "deepseek-v3.2" for reason in row.reasons
    }
    assert "sparse-attention-floor" in cites
    assert "ok" in verdicts("b200x8")


def test_one_stream_is_bound_by_reading_the_active_weights() -> None:
    """GB10: 273 GB/s over 75 GiB of 79.7 billion weights, of which 3 billion work on a token."""
    first = usual_rows("gb10")[0]
    assert first.tokens_per_second == pytest.approx(273e9 / (75 * 2**30 * 3.0 / 79.7), rel=1e-6)


@pytest.mark.parametrize("text", ["{gpu} is wrong", "{", "{0}", "{capability.nothing}"])
def test_a_sentence_that_cannot_be_filled_in_is_named(overlay: Path, text: str) -> None:
    overlay.joinpath("mine.toml").write_text(f'[[rule]]\nid = "mine"\ntext = "{text}"\n', encoding="utf-8")
    catalog.clear_cache()
    with pytest.raises(CorruptDataError, match="the text of rule mine"):
        catalog.rules()


def test_a_rule_of_ones_own_refuses_what_it_names(overlay: Path) -> None:
    rule = (
        '[[rule]]\nid = "no-qwen"\nfamilies = ["Qwen3NextForCausalLM"]\ntext = "Not here, on {capability}."\n'
    )
    overlay.joinpath("mine.toml").write_text(rule, encoding="utf-8")
    catalog.clear_cache()
    rows = [row for row in rows_of(load_machine("gb10")) if row.model == "qwen3-coder-next"]
    assert {row.verdict for row in rows} == {"no"}
    assert all("Not here, on 12.1." in [reason.text for reason in row.reasons] for row in rows)
