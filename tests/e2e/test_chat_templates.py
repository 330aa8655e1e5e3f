"""The chat templates that vLLM ships name the parsers they are for, by what they render alone."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from realkit import NotInstallable, RealKit, vllm_source

from wizard.checkpoint import ParserGuess, detect_parsers, read_checkpoint

# From vLLM's documentation of tool calling, by what follows `tool_chat_template_`: any of these is right.
RIGHT = {
    "apertus": {"apertus"},
    "deepseekr1": {"deepseek_v3"},
    "deepseekv3": {"deepseek_v3"},
    "deepseekv31": {"deepseek_v31"},
    "functiongemma": {"functiongemma"},
    "gemma3_pythonic": {"pythonic"},
    "gemma4": {"gemma4"},
    # Writes no call, but teaches the form of GLM-4.5.
    "glm4": {"glm45", "glm47"},
    "granite": {"granite"},
    "granite_20b_fc": {"granite-20b-fc"},
    "hermes": {"hermes", "qwen3_json"},
    "hunyuan_a13b": {"hunyuan_a13b"},
    "internlm2_tool": {"internlm"},
    "llama3.1_json": {"llama3_json", "llama4_json"},
    "llama3.2_json": {"llama3_json", "llama4_json"},
    "llama3.2_pythonic": {"pythonic"},
    "llama4_json": {"llama3_json", "llama4_json"},
    "llama4_pythonic": {"llama4_pythonic", "pythonic"},
    "mistral": {"mistral"},
    "mistral3": {"mistral"},
    "mistral_parallel": {"mistral"},
    "muse_glimmer": {"muse_glimmer"},
    "phi4_mini": {"phi4_mini_json"},
    "qwen3coder": {"qwen3_coder", "qwen3_xml"},
    "toolace": {"pythonic"},
    "xlam_llama": {"xlam"},
    "xlam_qwen": {"xlam"},
}

# Templates of published checkpoints that vLLM's own tests keep, with what those checkpoints are.
PUBLISHED = {
    "qwen3": ("Qwen3ForCausalLM", "qwen3", "hermes", "qwen3"),
    "qwen35": ("Qwen3_5ForConditionalGeneration", "qwen3_5", "qwen3_coder", "qwen3"),
}


@pytest.fixture(scope="session")
def templates(realkit: RealKit) -> dict[str, Path]:
    """The templates of vLLM's examples, and of published checkpoints in its tests, by name without ending."""
    try:
        source = vllm_source(realkit)
    except NotInstallable as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))
    folders = ("examples", "rust/src/chat/tests/templates")
    return {path.stem: path for folder in folders for path in source.glob(f"*/{folder}/*.jinja")}


def guess(folder: Path, template: Path, architecture: str = "", model_type: str = "") -> ParserGuess:
    """From the template alone, in a folder whose name tells nothing."""
    place = folder / "checkpoint"
    place.mkdir()
    config = {"architectures": [architecture], "model_type": model_type}
    (place / "config.json").write_text(json.dumps(config))
    (place / "chat_template.jinja").write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
    return detect_parsers(read_checkpoint(str(place), offline=True))


def test_every_template_for_tools_that_vllm_ships_is_expected_here(templates: dict[str, Path]) -> None:
    shipped = {match[1] for name in templates if (match := re.fullmatch(r"tool_chat_template_(.+)", name))}
    assert shipped == set(RIGHT)


@pytest.mark.parametrize("name", RIGHT)
def test_a_template_for_tools_names_a_right_parser(
    templates: dict[str, Path], tmp_path: Path, name: str
) -> None:
    found = guess(tmp_path, templates[f"tool_chat_template_{name}"])
    assert found.tool_parser in RIGHT[name]
    assert found.sureness != "unknown"


def test_templates_without_tools_name_none(templates: dict[str, Path], tmp_path: Path) -> None:
    others = {name: path for name, path in templates.items() if re.match(r"template_", name)}
    assert len(others) > 5
    for name, path in others.items():
        (tmp_path / name).mkdir()
        found = guess(tmp_path / name, path)
        assert (found.tool_parser, found.sureness) == (None, "unknown"), name


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_checkpoint_is_recognised_surely(
    templates: dict[str, Path], tmp_path: Path, name: str
) -> None:
    architecture, model_type, tool_parser, reasoning_parser = PUBLISHED[name]
    found = guess(tmp_path, templates[name], architecture, model_type)
    assert (found.tool_parser, found.reasoning_parser) == (tool_parser, reasoning_parser)
    assert found.sureness == "sure"
