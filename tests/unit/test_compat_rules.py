"""The rules of the matrix as data: every refusal has one, each can be switched off, and none is broken."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import msgspec
import pytest
from packaging.version import Version

from wizard import catalog
from wizard.compat import Row, Wishes, attention_rule, choose, matrix, version_for
from wizard.errors import CorruptDataError
from wizard.machine import Machine, load_machine
from wizard.memory import EngineSettings
from wizard.runtime import assumed_runtime

MACHINES = sorted(
    entry.name.removesuffix(".json")
    for entry in (resources.files("assets") / "machines").iterdir()
    if entry.name.endswith(".json")
)
RULES = [rule.id for rule in catalog.rules()]
# Shown by tests of their own; no recorded machine is a Jetson Orin.
NOT_SHOWN = {
    "wrong-parser",
    "no-attention-backend",
    "half-precision-unstable",
    "no-parser",
    "orin-needs-own-build",
    "weights-missing",
}
# Versions that rules speak of and that no recorded machine would be offered.
EARLIER = (
    ("v100x10", "0.33.0"),
    ("v100x10", "0.10.2"),
    ("t4", "0.13.0"),
    ("a100x4", "0.19.1"),
    ("rtx5090", "0.8.5"),
    ("thor", "0.19.1"),
    ("gb10", "0.23.0"),
    ("gb10", "0.25.1"),
)


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


# What must never be offered, restated by hand from vLLM's source and its issues, not from the tables.
# Here the lowest compute capability, times ten, that runs a format at all.
FLOORS = {
    "bf16": 70,
    "fp16": 70,
    "fp8": 75,
    "fp8-dynamic": 75,
    "modelopt-fp8": 80,
    "mxfp4": 80,
    "mxfp8": 80,
    "nvfp4": 75,
    "awq": 75,
    "gptq-int4": 75,
    "gptq-int8": 75,
    "w4a16": 75,
    "w8a16": 75,
    "int8": 75,
    "bitsandbytes": 70,
}
LATENT = ("deepseek-v3", "deepseek-r1", "kimi-k2", "kimi-k3", "kimi-linear", "glm-4.7-flash")
SPARSE = ("deepseek-v3.2", "deepseek-v4", "glm-5")


@pytest.mark.parametrize("name", MACHINES)
def test_no_offered_row_is_one_that_cannot_run(name: str) -> None:
    machine = load_machine(name)
    version = Version(version_for(machine))
    for row in usual_rows(name):
        if row.verdict == "no":
            continue
        on = {gpu.capability for gpu in machine.gpus if gpu.index in row.gpus}
        assert on
        lowest, highest = min(on), max(on)
        assert lowest >= FLOORS[row.quantization], row.checkpoint
        assert lowest >= 75 or version < Version("0.20"), "no build of 0.20 and newer has sm_70"
        assert row.quantization != "int8" or highest < 100, "INT8 is not wired on Blackwell"
        if row.model.startswith((*LATENT, *SPARSE)):
            assert lowest >= 75, row.model
        if row.model.startswith(SPARSE):
            assert all(number // 10 in (9, 10, 12) for number in on), row.model
        assert not (row.model.startswith("gemma-4") and 75 <= lowest < 80), "heads of 512 on Turing"
        if row.quantization == "bitsandbytes":
            assert row.verdict == "warn" or version < Version("0.28"), "a plugin since 0.28"


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_switched_off_flips_exactly_the_rows_that_cite_it(overlay: Path, rule: str) -> None:
    place = citing(rule)
    if place is None:
        assert rule in NOT_SHOWN, "no row of these machines cites it"
        return
    before = usual_rows(*place)
    switch_off(overlay, rule)
    after = {(row.model, row.variant): row for row in rows_of(load_machine(place[0]), place[1])}
    for row in before:
        now = after[row.model, row.variant]
        left = tuple(reason for reason in row.reasons if reason.code != rule)
        assert now.reasons == left
        assert (now.verdict == "no") == any(reason.refuses for reason in left)
        if left == row.reasons:
            assert now == row


def citing(rule: str) -> tuple[str, str | None] | None:
    """A place whose rows cite it, of those with the fewest GPUs; None when there is none."""
    places = sorted(
        (*((name, None) for name in MACHINES), *EARLIER), key=lambda place: len(load_machine(place[0]).gpus)
    )
    return next(
        (
            place
            for place in places
            if any(reason.code == rule for row in usual_rows(*place) for reason in row.reasons)
        ),
        None,
    )


def switch_off(overlay: Path, rule: str, beside: str = "") -> None:
    text = f'{beside}\n[[rule]]\nid = "{rule}"\ndisabled = true\n'
    overlay.joinpath("mine.toml").write_text(text, encoding="utf-8")
    catalog.clear_cache()


def test_the_parser_that_loses_calls_can_be_switched_off_too(overlay: Path) -> None:
    row = next(row for row in usual_rows("gb10") if row.model == "qwen3-coder-next")
    wishes, runtime = Wishes(parser="hermes"), assumed_runtime()
    assert "wrong-parser" in {reason.code for reason in choose(row, runtime, wishes).reasons}
    switch_off(overlay, "wrong-parser")
    assert "wrong-parser" not in {reason.code for reason in choose(row, runtime, wishes).reasons}


def test_no_attention_for_a_model_can_be_switched_off_too(overlay: Path) -> None:
    runtime = msgspec.structs.replace(assumed_runtime("0.33.0"), attention_backends=("FLASHMLA",))
    assert [reason.code for reason in attention_rule(None, "", 90, runtime)] == ["no-attention-backend"]
    switch_off(overlay, "no-attention-backend")
    assert not attention_rule(None, "", 90, runtime)


# What the bundled models do not show: a family that FP16 breaks, and calls that no parser reads.
MINE = """
[[model]]
id = "house-gemma"
name = "House Gemma 3"
context = 65536
architecture = "Gemma3ForCausalLM"
tool_parser = "pythonic"
source = "mine"
[[model.variants]]
id = "bf16"
checkpoint = "house/gemma-3"
quantization = "bf16"
weights_gib = 8.0

[[model]]
id = "house-mute"
name = "House Mute"
source = "mine"
context = 65536
[[model.variants]]
id = "fp16"
checkpoint = "house/mute"
quantization = "fp16"
weights_gib = 8.0
"""


@pytest.mark.parametrize(
    ("model", "rule"), [("house-gemma", "half-precision-unstable"), ("house-mute", "no-parser")]
)
def test_what_only_models_of_ones_own_show(overlay: Path, model: str, rule: str) -> None:
    overlay.joinpath("mine.toml").write_text(MINE, encoding="utf-8")
    catalog.clear_cache()
    row = next(row for row in rows_of(load_machine("t4")) if row.model == model)
    assert [reason.code for reason in row.reasons if reason.refuses] == [rule]
    switch_off(overlay, rule, MINE)
    now = next(row for row in rows_of(load_machine("t4")) if row.model == model)
    assert now.verdict != "no"
    assert now.reasons == tuple(reason for reason in row.reasons if reason.code != rule)


# vLLM 0.32.0 vllm/model_executor/models: classes with IsHybrid, by the beginnings of the catalogue's ids.
LINEAR = ("qwen3.5", "qwen3.6", "qwen3-next", "qwen3-coder-next", "nemotron-3", "kimi-linear", "ling-3.0-")


def test_linear_attention_is_doubted_on_volta_whether_its_shape_is_known_or_not() -> None:
    rows = [row for row in usual_rows("v100x10") if row.model.startswith(LINEAR)]
    assert {row.max_context is None for row in rows if row.verdict == "warn"} == {True, False}
    for row in rows:
        cited = "linear-attention-on-volta" in {reason.code for reason in row.reasons}
        assert cited or row.verdict == "no", row.checkpoint


def test_volta_gets_what_volta_runs() -> None:
    """Ten V100: FP16 with --dtype half, 4 bit by bitsandbytes; no FP8, AWQ, GPTQ or MLA; vLLM 0.19.1."""
    assert version_for(load_machine("v100x10")) == "0.19.1"
    rows = usual_rows("v100x10")
    offered = [row for row in rows if row.verdict != "no"]
    assert offered
    assert {row.quantization for row in offered} <= {"bf16", "fp16", "bitsandbytes"}
    codes: dict[str, set[str]] = {}
    for row in rows:
        codes.setdefault(row.model, set()).update(reason.code for reason in row.reasons)
    assert "latent-attention-on-volta" in codes["deepseek-v3.1"]
    assert "fp8-inside-on-volta" in codes["minimax-m2.5"]
    texts = {reason.text for row in offered for reason in row.reasons if reason.code == "attention"}
    assert all("TRITON_ATTN" in text and "0.19.1" in text for text in texts)
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


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('id = "mine"\nfamilys = ["X"]', r"mine\.toml, rule mine: unknown key rule\[0\]\.familys.*families"),
        ('id = "mine"\ncapability_max = "7.5"', r"mine\.toml, rule mine: Expected `int`, got `str`"),
        ('id = "mine"\neffect = "maybe"', r"mine\.toml, rule mine: Invalid enum value"),
        ('id = "mine"\nsince = "soon"', r"mine\.toml, rule mine: Expected `str` matching regex"),
        ('id = "mine"\ntext = "x"\nquantizations = ["fp9"]', r"rule mine has the unknown weight format fp9"),
    ],
)
def test_a_mistake_in_a_rule_names_file_rule_and_mistake(overlay: Path, rule: str, said: str) -> None:
    overlay.joinpath("mine.toml").write_text(f"[[rule]]\n{rule}\n", encoding="utf-8")
    catalog.clear_cache()
    with pytest.raises(CorruptDataError, match=said) as raised:
        catalog.rules()
    assert raised.value.exit_code == 2


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
