"""What the tables say about one release of vLLM, against that release: its own registries and its help."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version
from realkit import RealKit

import assets
from wizard import catalog
from wizard.plan import parse_arguments
from wizard.runtime import Runtime, probe

ASSETS = Path(assets.__file__).parent
RELEASE = tomllib.loads((Path(__file__).parent / "versions.toml").read_text())["vllm"]["version"]

# Asked in vLLM's own Python, without a word of the wizard in between.
ASK = """
import json
from vllm import envs
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager
print("TOLD" + json.dumps({
    "tool": ToolParserManager.list_registered(),
    "reasoning": ReasoningParserManager.list_registered(),
    "variables": list(envs.environment_variables),
}))
"""


@pytest.fixture(scope="module")
def told(realkit: RealKit) -> dict[str, list[str]]:
    """vLLM's registries and the variables it reads."""
    run = subprocess.run(
        [str(realkit.vllm_python), "-c", ASK], capture_output=True, text=True, check=True, timeout=120
    )
    answer: dict[str, list[str]] = json.loads(run.stdout.partition("TOLD")[2])
    return answer


@pytest.fixture(scope="module")
def options(realkit: RealKit) -> set[str]:
    """The options that ``vllm serve --help=all`` prints."""
    run = subprocess.run(
        [str(realkit.vllm), "serve", "--help=all"], capture_output=True, text=True, check=True, timeout=120
    )
    heads = [line for line in run.stdout.splitlines() if re.match(r"  -", line)]
    found = {name for line in heads for name in re.findall(r"(?<![\w-])--[a-z0-9][\w-]*", line)}
    assert len(found) > 300
    return found


@pytest.fixture(scope="module")
def probed(realkit: RealKit) -> Runtime:
    """The same vLLM as the wizard sees it."""
    return probe((str(realkit.vllm),))


@pytest.mark.parametrize("kind", ["tool", "reasoning"])
def test_the_parsers_of_the_tables_are_those_registered(
    kind: catalog.ParserKind, told: dict[str, list[str]]
) -> None:
    listed = {
        entry.name
        for entry in catalog.parsers(kind)
        if Version(entry.first_version) <= Version(RELEASE) <= Version(entry.last_version)
    }
    assert listed == set(told[kind])


def test_the_recorded_options_are_those_of_the_help(options: set[str]) -> None:
    recorded = catalog.flag_facts().recorded
    assert recorded.version == RELEASE
    assert set(recorded.names) == options


@pytest.mark.parametrize("flag", catalog.flag_facts().flag, ids=lambda flag: flag.name)
def test_each_option_is_there_or_gone_as_the_table_says(flag: catalog.Flag, options: set[str]) -> None:
    assert (flag.name.partition(" ")[0] in options) is flag.known_to(RELEASE)


@pytest.mark.parametrize("variable", catalog.flag_facts().variable, ids=lambda flag: flag.name)
def test_each_variable_is_there_or_gone_as_the_table_says(
    variable: catalog.Flag, told: dict[str, list[str]]
) -> None:
    assert (variable.name in told["variables"]) is variable.known_to(RELEASE)


def test_what_replaces_a_name_exists(options: set[str]) -> None:
    facts = catalog.flag_facts()
    instead = {entry.instead.partition(".")[0] for entry in (*facts.flag, *facts.variable) if entry.instead}
    assert instead
    assert instead <= options


def test_every_option_and_variable_that_the_tables_would_set_exists(
    options: set[str], told: dict[str, list[str]]
) -> None:
    models = [(model, variant) for model in catalog.models() for variant in model.variants]
    words = [entry.fallback_args for entry in catalog.quantizations()]
    words += [args for model, variant in models for args in (model.args, variant.args)]
    used = {option.flag.partition(".")[0] for each in words for option in parse_arguments(each)}
    variables = {name for model, _variant in models for name in model.env}
    for file in sorted(ASSETS.glob("faults/*.toml")):
        for remedy in _remedies(tomllib.loads(file.read_text())):
            used |= {flag.partition(".")[0] for flag in remedy.get("set", ()) if flag.startswith("--")}
            variables |= set(remedy.get("env", ()))
    assert used
    later = {flag.name for flag in catalog.flag_facts().flag if not flag.known_to(RELEASE)}
    assert used - later <= options
    own = {name for name in variables if name.startswith("VLLM_")}
    assert own
    gone = {entry.name for entry in catalog.flag_facts().variable if not entry.known_to(RELEASE)}
    assert own - gone <= set(told["variables"])


def test_the_probe_tells_all_that_vllm_itself_tells(
    probed: Runtime, told: dict[str, list[str]], options: set[str]
) -> None:
    assert probed.problem == ""
    assert probed.notes == ()
    assert (probed.version or "").partition("+")[0] == RELEASE
    assert probed.cpu_build
    assert set(probed.tool_parsers) == set(told["tool"])
    assert set(probed.reasoning_parsers) == set(told["reasoning"])
    assert set(probed.flags) == options
    assert set(probed.variables) == {name for name in told["variables"] if name.startswith("VLLM_")}
    assert "fp8" in probed.choices["--kv-cache-dtype"]
    assert "compressed-tensors" in probed.choices["--quantization"]
    assert {"FLASH_ATTN", "TRITON_ATTN"} <= set(probed.attention_backends)
    # A build of PyTorch without CUDA holds code for no GPU.
    assert (probed.cuda, probed.arch_list) == (None, ())


def _remedies(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        remedy for fault in tree.get("fault", []) for remedy in fault.get("remedy", fault.get("remedies", []))
    ]
