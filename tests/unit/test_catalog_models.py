"""The catalogue of models against vLLM's recipes, the parser table and figures published elsewhere."""

from __future__ import annotations

import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.version import Version

from wizard import catalog
from wizard.catalog import Model, ParserKind, parsers
from wizard.memory import EngineSettings, cache_layout, kv_plan

DATA = Path(__file__).parents[1] / "data"
RECIPES: dict[str, list[str]] = tomllib.loads((DATA / "recipe_checkpoints.toml").read_text(encoding="utf-8"))


def model_of(checkpoint: str) -> Model:
    found = catalog.find_model(checkpoint)
    assert found is not None, checkpoint
    return found


@pytest.mark.parametrize("parser", RECIPES)
def test_every_checkpoint_of_the_recipes_is_found_with_its_parser(parser: str) -> None:
    for checkpoint in RECIPES[parser]:
        for spelling in (checkpoint, checkpoint.upper(), checkpoint.lower()):
            model = model_of(spelling)
            assert checkpoint in [variant.checkpoint for variant in model.variants]
            assert model.tool_parser == parser, checkpoint


def test_the_recipes_are_all_there() -> None:
    """So that an emptied list cannot pass for a complete catalogue."""
    assert sum(len(checkpoints) for checkpoints in RECIPES.values()) == 319


@pytest.mark.parametrize(
    "checkpoint",
    [
        "Qwen/Qwen3-Coder-30B-A3B-Instruct",
        "Qwen/Qwen3-Coder-Next",
        "mistralai/Devstral-Small-2507",
        "mistralai/Devstral-2-123B-Instruct-2512",
        "zai-org/GLM-4.5-Air-FP8",
        "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
        "zai-org/GLM-4.7-Flash",
        "inclusionAI/Ling-2.6-1T",
    ],
)
def test_known_models_without_a_recipe_or_parser_are_found_too(checkpoint: str) -> None:
    assert checkpoint in [variant.checkpoint for variant in model_of(checkpoint).variants]


@pytest.mark.parametrize("kind", ["tool", "reasoning"])
def test_parsers_are_registered_in_every_version_that_serves_the_model(kind: ParserKind) -> None:
    spans = {entry.name: (entry.first_version, entry.last_version) for entry in parsers(kind)}
    boundaries = {first for first, _last in spans.values()}
    missing = []
    for model in catalog.models():
        if kind == "tool" and model.tool_parser_plugin:
            continue
        for version in map(Version, {model.min_vllm, *boundaries}):
            name = model.parser(kind, str(version))
            if name is None or version < Version(model.min_vllm):
                continue
            first, last = spans[name]
            if not Version(first) <= version <= Version(last):
                missing.append((model.id, name, str(version)))
    assert not missing


def test_only_a_plugin_brings_a_parser_vllm_does_not_have() -> None:
    (model,) = [entry for entry in catalog.models() if entry.tool_parser_plugin]
    assert model.id == "nemotron-nano-9b-v2"
    assert model.tool_parser not in [entry.name for entry in catalog.parsers("tool")]
    assert model.blocked


@pytest.mark.parametrize(
    ("model", "version", "parser"),
    [
        # Qwen3's own guide: deepseek_r1 up to vLLM 0.8.5, then qwen3.
        ("qwen3-32b", "0.8.5", "deepseek_r1"),
        ("qwen3-32b", "0.9.2", "qwen3"),
        ("qwen3-32b", None, "qwen3"),
        # The reasoning parser glm47 is in no source distribution before 0.24.0.
        ("glm-4.7", "0.23.0", "glm45"),
        ("glm-4.7", "0.24.0rc1", "glm47"),
        ("glm-4.7", None, "glm47"),
    ],
)
def test_reasoning_parsers_that_changed(model: str, version: str | None, parser: str) -> None:
    assert catalog.model(model).parser("reasoning", version) == parser


def test_earlier_parsers_are_in_order() -> None:
    for model in catalog.models():
        for kind in ("tool", "reasoning"):
            until = [Version(entry.before) for entry in model.earlier_parsers if entry.kind == kind]
            assert all(first < second for first, second in pairwise(until))
            assert all(Version(model.min_vllm) < before for before in until)


def test_a_shared_configuration_comes_from_a_model_that_has_its_own() -> None:
    for model in catalog.models():
        if model.config_of is not None:
            base = catalog.model(model.config_of)
            assert base.config_of is None
            assert base.config.keys() <= model.config.keys()


def test_configurations_name_the_architecture() -> None:
    for model in catalog.models():
        if model.config:
            assert model.config["architectures"] == [model.architecture], model.id


def test_windows_fit_their_configuration() -> None:
    for model in catalog.models():
        longest = model.config.get("max_position_embeddings")
        assert longest is None or isinstance(longest, int)
        assert longest is None or model.context <= longest, model.id
        assert model.context >= catalog.opencode_facts().refuse_below, model.id


def test_sizes_are_plausible() -> None:
    """Parameters times the format's bits; embeddings in 16 bit and mixed formats make up for the rest."""
    for model in catalog.models():
        assert model.params_b is not None
        for variant in model.variants:
            bits = catalog.quantization(variant.quantization).bits
            rule = model.params_b * 1e9 * bits / 8 / 2**30
            if variant.weights_origin in ("computed", "assumed"):
                assert rule * 0.75 <= variant.weights_gib <= rule * 1.25 + embeddings_gib(model), variant
            # Formats called FP8 may hold experts in 4 bit; nobody ships more than 16 bit.
            assert model.params_b * 0.4 <= variant.weights_gib <= model.params_b * 2.1, variant


def embeddings_gib(model: Model) -> float:
    """Two tables in 16 bit: in a small model of a narrow format they outweigh the rest."""
    vocabulary, width = model.config.get("vocab_size", 0), model.config.get("hidden_size", 0)
    assert isinstance(vocabulary, int)
    assert isinstance(width, int)
    return 2 * vocabulary * width * 2 / 2**30


def test_active_parameters_are_a_part() -> None:
    for model in catalog.models():
        assert model.params_b is not None
        assert (model.active_params_b or 0.0) <= model.params_b


@pytest.mark.parametrize(
    ("checkpoint", "params_b", "active_b", "context", "min_vllm"),
    [
        # vLLM 0.33.0 recipes; parameters of the model cards and technical reports.
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 480, 35, 262144, "0.10.2"),
        ("Qwen/Qwen3-Coder-Next", 80, 3, 262144, "0.15.0"),
        ("mistralai/Devstral-Small-2-24B-Instruct-2512", 24, 24, 262144, "0.13.0"),
        ("openai/gpt-oss-120b", 117, 5.1, 131072, "0.10.2"),
        ("zai-org/GLM-4.6", 357, 32, 202752, "0.11.0"),
        ("moonshotai/Kimi-K2-Instruct", 1026, 32, 131072, "0.12.0"),
        ("MiniMaxAI/MiniMax-M2.7", 230, 10, 196608, "0.20.0"),
        ("deepseek-ai/DeepSeek-V3.1", 671, 37, 163840, "0.12.0"),
        ("deepseek-ai/DeepSeek-V4-Flash", 284, 13, 1048576, "0.20.2"),
        ("poolside/Laguna-S-2.1", 118, 8, 262144, "0.25.0"),
    ],
)
def test_figures_of_well_known_models(
    checkpoint: str, params_b: float, active_b: float, context: int, min_vllm: str
) -> None:
    model = model_of(checkpoint)
    assert model.params_b == pytest.approx(params_b, rel=0.015)
    assert model.active_params_b == pytest.approx(active_b, rel=0.015)
    assert (model.context, model.min_vllm) == (context, min_vllm)


@pytest.mark.parametrize(
    ("model", "bytes_per_token"),
    [
        # Two bytes an element: 2 x layers x key-value heads x head size, or layers x latent width (512 + 64).
        ("qwen3-coder-30b-a3b", 2 * 2 * 48 * 4 * 128),
        ("qwen3-coder-480b-a35b", 2 * 2 * 62 * 8 * 128),
        ("minimax-m2.7", 2 * 2 * 62 * 8 * 128),
        ("glm-4.7", 2 * 2 * 92 * 8 * 128),
        ("kimi-k2.7-code", 2 * 61 * 576),
        ("deepseek-r1-0528", 2 * 61 * 576),
        ("glm-4.7-flash", 2 * 47 * 576),
    ],
)
def test_cache_per_token(model: str, bytes_per_token: int) -> None:
    layout = cache_layout(catalog.model(model).config)
    assert layout is not None
    plan = kv_plan(layout, EngineSettings(vllm_version="0.33.0"), 100.0, 32768)
    assert plan.bytes_per_token == bytes_per_token


def test_what_is_known_not_to_work_says_why() -> None:
    blocked = [model for model in catalog.models() if model.blocked]
    assert {model.id for model in blocked} == {"qwen2.5-coder-32b", "nemotron-nano-9b-v2"}
    assert all(model.warning for model in blocked)
    silent = {model.id for model in catalog.models() if model.tool_parser is None}
    assert silent == {"ling-2.6-1t", "ling-2.6-flash", "ring-2.6-1t", "ring-1t"}
    assert all(
        "hermes" in catalog.model(name).unreadable_by for name in ("qwen3-coder-next", "qwen3-coder-480b")
    )


def test_every_warning_is_a_sentence() -> None:
    for model in catalog.models():
        assert not model.warning or model.warning.endswith("."), model.id


def test_chat_templates_are_files_of_vllms_examples() -> None:
    # Listed in the source distribution 0.33.0, examples/.
    needed = {model.chat_template for model in catalog.models()} - {""}
    assert needed == {
        "tool_chat_template_deepseekr1.jinja",
        "tool_chat_template_deepseekv3.jinja",
        "tool_chat_template_deepseekv31.jinja",
        "tool_chat_template_llama4_pythonic.jinja",
        "tool_chat_template_phi4_mini.jinja",
    }


def test_too_small_models_rank_below_all_that_can_work() -> None:
    models = catalog.models()
    smallest = [model.rank for model in models if (model.params_b or 0) < 3 and not model.blocked]
    others = [model.rank for model in models if (model.params_b or 0) >= 6 and model.rank < 900]
    assert max(others) < min(smallest)


def test_gated_weights_are_metas() -> None:
    gated = {variant.checkpoint for model in catalog.models() for variant in model.variants if variant.gated}
    assert gated
    assert all(checkpoint.startswith("meta-llama/") for checkpoint in gated)
