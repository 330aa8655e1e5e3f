"""The command ``budget``: exact sizes, context parallelism, the prompt of the user, and small windows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wizard.cli import main

GIB = 1 << 30
# Qwen3-Coder-30B-A3B: 48 layers, 4 heads of 128, key and value, two bytes each.
BYTES_PER_TOKEN = 48 * 4 * 128 * 2 * 2


def budget(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    command = ["--simulate", "h200", "--json", "budget", "--model", "qwen3-coder-30b-a3b"]
    code = main([*command, *words])
    out = capfd.readouterr().out
    return code, json.loads(out)


@pytest.mark.parametrize(
    ("text", "size"),
    [("24G", 24 * GIB), ("25769803776", 24 * GIB), ("24g", 24 * 10**9), ("1.5T", 1.5 * 1024 * GIB)],
)
def test_an_exact_size_takes_the_place_of_the_estimate(
    capfd: pytest.CaptureFixture[str], text: str, size: float
) -> None:
    code, found = budget(capfd, "--kv-cache-memory-bytes", text, "--max-model-len", "65536")
    assert code == (1 if size > 141 * GIB else 0), "more than the GPU has is refused"
    assert found["memory"]["available_kv_gib"] == pytest.approx(size / GIB)
    blocks = int(size) // (BYTES_PER_TOKEN * 16)
    assert found["kv"]["cache_tokens"] == blocks * 16
    parts = ("weights_gib", "activation_gib", "graphs_gib", "other_gib", "available_kv_gib")
    assert found["memory"]["requested_gib"] == pytest.approx(sum(found["memory"][part] for part in parts))


def test_context_parallelism_divides_a_request(capfd: pytest.CaptureFixture[str]) -> None:
    words = ("--available-kv-gib", "24", "--max-model-len", "65536", "--tensor-parallel-size", "8")
    _code, one = budget(capfd, *words)
    _code, two = budget(capfd, *words, "--decode-context-parallel-size", "2")
    assert one["kv"]["blocks_per_request"] == 65536 // 16
    assert two["kv"]["blocks_per_request"] == 65536 // 2 // 16


def test_what_the_user_adds_to_the_prompt_is_counted(capfd: pytest.CaptureFixture[str]) -> None:
    _code, plain = budget(capfd, "--max-model-len", "65536")
    _code, more = budget(capfd, "--max-model-len", "65536", "--extra-prompt-tokens", "5000")
    assert more["opencode"]["base_prompt_tokens"] == plain["opencode"]["base_prompt_tokens"] + 5000


def test_a_small_window_is_refused_unless_tools_are_given_up(capfd: pytest.CaptureFixture[str]) -> None:
    code, whole = budget(capfd, "--max-model-len", "12288")
    assert code == 1
    assert "window-too-small" in [warning["code"] for warning in whole["opencode"]["warnings"]]
    code, trimmed = budget(capfd, "--max-model-len", "12288", "--trim-tools")
    assert code == 0
    limits = trimmed["opencode"]
    assert (limits["input"], limits["output"], limits["reserved"]) == (11264, 1024, 1024)
    assert "websearch" in limits["denied_tools"]


def test_a_model_that_thinks_gets_room_for_it(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"architectures": ["BrandNewForCausalLM"], "max_position_embeddings": 65536}')
    words = ["--simulate", "h200", "--json", "budget", "--config", str(file), "--max-model-len", "40960"]
    outputs = []
    for more in ([], ["--thinks"]):
        main([*words, *more])
        outputs.append(json.loads(capfd.readouterr().out)["opencode"]["output"])
    assert outputs[0] < 8192 <= outputs[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kv-cache-memory-bytes", "much"], "24G"),
        (["--kv-cache-memory-bytes", "0"], "above 0"),
        (["--kv-cache-memory-bytes", "1G", "--available-kv-gib", "1"], "exclude each other"),
        (["--decode-context-parallel-size", "0"], "--decode-context-parallel-size"),
        (["--extra-prompt-tokens", "-1"], "extra_prompt_tokens"),
        (["--measure-prompt"], "rehearsal"),
        (["--available-kv-gib", "1e300"], "finite"),
        (["--vllm-version", "newest"], "newest is not a version"),
        (["--vllm-version", ""], "not a version"),
    ],
)
def test_wrong_calls_are_told(capfd: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(["--simulate", "h200", "budget", *words]) == 2
    assert said in capfd.readouterr().err


def test_a_checkpoints_own_format_sizes_its_weights(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Qwen3-32B in compressed-tensors FP8: 31.2e9 parameters of a byte, embeddings of two."""
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "hidden_size": 5120,
        "intermediate_size": 25600,
        "num_hidden_layers": 64,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "float-quantized",
            "config_groups": {
                "group_0": {
                    "weights": {"num_bits": 8, "type": "float"},
                    "input_activations": {"num_bits": 8, "type": "float"},
                }
            },
        },
    }
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    assert main(["--simulate", "h200", "--json", "budget", "--config", str(file)]) == 0
    weights = json.loads(capfd.readouterr().out)["memory"]["weights_gib"]
    assert weights == pytest.approx((31.2e9 + 2 * 1.556e9) / 2**30, rel=0.01)


def test_more_gpus_than_there_are_can_be_asked_about(capfd: pytest.CaptureFixture[str]) -> None:
    code, found = budget(capfd, "--tensor-parallel-size", "2")
    assert code == 0
    assert "for 2 GPUs; this machine has 1" in found["opencode"]["warnings"][0]["text"]
