"""A checkpoint read from a folder, the Hugging Face cache and a hub, whole and damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hub import COMMIT, REPO, serving

from wizard.catalog import checkpoint_facts, quantizations
from wizard.checkpoint import Checkpoint, read_checkpoint
from wizard.errors import CorruptDataError, RefusedError, UsageError

MIB = 2**20
# https://huggingface.co/Qwen/Qwen3-0.6B config.json: 0.6 B parameters in bfloat16, 40960 tokens.
QWEN3_06B = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "torch_dtype": "bfloat16",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "max_position_embeddings": 40960,
}


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that means a hub names its own."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for name in ("HF_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


def written(folder: Path, config: Mapping[str, object] | str = QWEN3_06B, **files: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = config if isinstance(config, str) else json.dumps(config)
    (folder / "config.json").write_text(text, encoding="utf-8")
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def read(folder: Path) -> Checkpoint:
    return read_checkpoint(str(folder), offline=True)


def test_a_folder_tells_what_it_is(tmp_path: Path) -> None:
    found = read(written(tmp_path, model__safetensors=b"\0" * MIB))
    assert (found.place, found.architecture, found.model_type) == ("folder", "Qwen3ForCausalLM", "qwen3")
    assert (found.quantization, found.context) == ("bf16", 40960)
    assert found.weights_gib == pytest.approx(1 / 1024)
    assert found.weights_origin == "measured"
    assert found.notes == ()


def test_without_weights_their_size_is_counted(tmp_path: Path) -> None:
    found = read(written(tmp_path))
    # 596,049,920 parameters, as the hub counts them; norms, 65,536 of them, are not counted here.
    assert found.weights_gib == pytest.approx(596_049_920 * 2 / 2**30, rel=0.001)
    assert found.weights_origin == "computed"
    assert any("No weights" in note for note in found.notes)


def test_the_index_beats_the_files_and_ten_thousand_shards_are_no_trouble(tmp_path: Path) -> None:
    shards = {f"layer.{i}": f"model-{i:05}-of-10000.safetensors" for i in range(10_000)}
    index = {"metadata": {"total_size": 5 * 2**30}, "weight_map": shards}
    folder = written(tmp_path, **{"model.safetensors.index__json": json.dumps(index)})
    for name in list(shards.values())[:9_990]:
        (folder / name).touch()
    found = read(folder)
    assert (found.weights_gib, found.weights_origin) == (5.0, "measured")
    assert found.missing.startswith("10 of its 10000")
    assert "model-09990-of-10000.safetensors" in found.missing


def test_the_same_weights_in_two_layouts_count_once(tmp_path: Path) -> None:
    folder = written(tmp_path, model__safetensors=b"\0" * MIB, consolidated__safetensors=b"\0" * MIB)
    assert read(folder).weights_gib == pytest.approx(1 / 1024)


def test_weights_of_32_bit_are_loaded_as_16(tmp_path: Path) -> None:
    folder = written(tmp_path, {**QWEN3_06B, "torch_dtype": "float32"}, model__safetensors=b"\0" * 2 * MIB)
    found = read(folder)
    assert (found.quantization, found.weights_gib, found.weights_origin) == ("bf16", 1 / 1024, "computed")


@pytest.mark.parametrize(
    ("described", "format_id"),
    [
        # Qwen/Qwen3-Coder-Next-FP8
        ({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}, "fp8"),
        # RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic
        (
            {
                "quant_method": "compressed-tensors",
                "format": "float-quantized",
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 8, "type": "float"},
                        "input_activations": {"num_bits": 8, "type": "float", "dynamic": True},
                    }
                },
            },
            "fp8-dynamic",
        ),
        # RedHatAI/…-quantized.w4a16
        (
            {
                "quant_method": "compressed-tensors",
                "format": "pack-quantized",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 4, "type": "int"}, "input_activations": None}
                },
            },
            "w4a16",
        ),
        # RedHatAI/…-quantized.w8a8
        (
            {
                "quant_method": "compressed-tensors",
                "format": "int-quantized",
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 8, "type": "int"},
                        "input_activations": {"num_bits": 8},
                    }
                },
            },
            "int8",
        ),
        # RedHatAI/…-NVFP4
        (
            {
                "quant_method": "compressed-tensors",
                "format": "nvfp4-pack-quantized",
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 4, "type": "float"},
                        "input_activations": {"num_bits": 4},
                    }
                },
            },
            "nvfp4",
        ),
        # Four bits with activations of eight: a scheme of its own, for which the tables have no entry.
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 4, "type": "int"},
                        "input_activations": {"num_bits": 8},
                    }
                },
            },
            "",
        ),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}, "awq"),
        ({"quant_method": "gptq", "bits": 4}, "gptq-int4"),
        ({"quant_method": "gptq", "bits": 8}, "gptq-int8"),
        ({"quant_method": "gptq", "bits": 3}, ""),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes"),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, "mxfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "modelopt-fp8"),
        ({"quant_method": "something-new"}, ""),
        ({"config_groups": ["no", "table"]}, ""),
    ],
)
def test_weight_formats_as_published_checkpoints_describe_them(
    tmp_path: Path, described: object, format_id: str
) -> None:
    found = read(written(tmp_path, {**QWEN3_06B, "quantization_config": described}))
    assert found.quantization == format_id
    assert any("weight format" in note for note in found.notes) == (format_id == "")


def test_modelopts_own_file_is_read(tmp_path: Path) -> None:
    own = json.dumps({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}})
    assert read(written(tmp_path, hf_quant_config__json=own)).quantization == "nvfp4"


def test_every_format_of_the_table_is_one_the_catalogue_knows() -> None:
    assert {entry.quantization for entry in checkpoint_facts().stored} <= {
        entry.id for entry in quantizations()
    }


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


@pytest.mark.parametrize(
    ("fields", "context", "noted"),
    [
        ({"max_position_embeddings": 131072}, 131072, False),
        ({"text_config": {"max_position_embeddings": 262144}}, 262144, False),
        ({"seq_length": 8192}, 8192, False),
        ({}, None, False),
        # vLLM 0.33 takes the window of YaRN as it stands; here it has its factor in it, and here it has not.
        ({"max_position_embeddings": 131072, "rope_scaling": YARN}, 131072, False),
        ({"max_position_embeddings": 32768, "rope_scaling": YARN}, 32768, True),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}}, 16384, False),
        (
            {
                "max_position_embeddings": 131072,
                "original_max_position_embeddings": 4096,
                "rope_scaling": {"type": "longrope", "long_factor": [1.0]},
            },
            4096,
            False,
        ),
        ({"max_position_embeddings": True}, None, False),
        ({"max_position_embeddings": -5}, None, False),
        ({"max_position_embeddings": 40960, "rope_scaling": None}, 40960, False),
    ],
)
def test_the_window_is_the_one_vllm_derives(
    tmp_path: Path, fields: dict[str, object], context: int | None, noted: bool
) -> None:
    config = {"architectures": ["Qwen3ForCausalLM"], "dtype": "bfloat16", **fields}
    found = read(written(tmp_path, config))
    assert found.context == context
    assert any("No weights" not in note for note in found.notes) == noted


@pytest.mark.parametrize(
    "content", ["[1]", "{", "\0", "[" * 100_000, '{"a": \ud83d}'.encode("utf-8", "ignore")]
)
@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "model.safetensors.index.json"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: str | bytes) -> None:
    folder = written(tmp_path)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CorruptDataError, match=name.replace(".", r"\.")):
        read(folder)


@pytest.mark.parametrize("number", ["1" * 400, "Infinity", "NaN", "-1", "1e308", "true", '"7"'])
def test_absurd_numbers_give_no_figure_and_no_crash(tmp_path: Path, number: str) -> None:
    index = f'{{"metadata": {{"total_size": {number}}}}}'
    scaling = f'{{"rope_type": "linear", "factor": {number}}}'
    config = json.dumps({**QWEN3_06B, "max_position_embeddings": "WINDOW", "hidden_size": "SIZE"})
    config = config.replace('"WINDOW"', number).replace('"SIZE"', number)
    config = f'{config[:-1]}, "rope_scaling": {scaling}}}'
    found = read(written(tmp_path, config, **{"model.safetensors.index__json": index}))
    assert (found.weights_gib, found.context) == (None, None)


def test_a_huge_file_a_pipe_and_binary_rubbish_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path)
    with (folder / "tokenizer_config.json").open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(CorruptDataError, match="too large"):
        read(folder)
    (folder / "tokenizer_config.json").unlink()
    os.mkfifo(folder / "chat_template.jinja")
    with pytest.raises(CorruptDataError, match="no file"):
        read(folder)
    (folder / "chat_template.jinja").unlink()
    (folder / "chat_template.jinja").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CorruptDataError, match="UTF-8"):
        read(folder)


def test_links_are_followed_and_broken_ones_are_nothing(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole", model__safetensors=b"\0" * MIB)
    linked = tmp_path / "linked"
    linked.mkdir()
    for name in ("config.json", "model.safetensors"):
        (linked / name).symlink_to(whole / name)
    (linked / "chat_template.jinja").symlink_to("nowhere")
    found = read(linked)
    assert found.weights_gib == pytest.approx(1 / 1024)
    assert found.template == ""


def test_what_comes_from_the_files_is_inert(tmp_path: Path) -> None:
    config = {
        **QWEN3_06B,
        "model_type": "q\x1b[31m",
        "quantization_config": {"quant_method": "\x1b]0;x\x07evil"},
    }
    found = read(written(tmp_path, config))
    assert found.model_type == "q"
    assert all("\x1b" not in note for note in found.notes)


@pytest.mark.parametrize("name", ["no/such/thing", "../etc", "a b", "x" * 300, ""])
def test_what_is_neither_a_folder_nor_an_id_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        read_checkpoint(name, offline=True)


def cached(home: Path, **files: str | bytes) -> None:
    repository = home / "hub" / f"models--{REPO.replace('/', '--')}"
    written(repository / "snapshots" / COMMIT, **files)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)


def test_the_cache_is_read_where_the_environment_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    cached(tmp_path, model__safetensors=b"\0" * MIB)
    found = read_checkpoint(REPO)
    assert (found.place, found.context) == ("cache", 40960)


def test_offline_says_that_the_hub_was_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(RefusedError, match="offline the hub was not asked"):
        read_checkpoint(REPO, offline=True)


HUB_FILES = {
    "config.json": json.dumps(QWEN3_06B).encode(),
    "chat_template.jinja": b"{{ messages }}",
    "model.safetensors": b"\0" * MIB,
    "original/consolidated.safetensors": b"\0" * MIB,
    "README.md": b"never fetched",
}


def test_the_hub_hands_over_small_files_and_sizes_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with serving(HUB_FILES) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        found = read_checkpoint(REPO)
        fetched = {path.rpartition("/")[2] for method, path, _part in hub.asked if method == "GET"}
    assert (found.place, found.template) == ("hub", "{{ messages }}")
    assert found.weights_gib == pytest.approx(1 / 1024)
    assert fetched.isdisjoint({"model.safetensors", "consolidated.safetensors", "README.md"})
    assert not list(tmp_path.rglob("config.json"))


def test_a_gated_model_says_that_a_token_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with serving(HUB_FILES, gated=True) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        with pytest.raises(RefusedError, match="gated") as refused:
            read_checkpoint(REPO)
    assert "HF_TOKEN" in refused.value.hint


def test_an_unknown_model_and_a_dead_hub_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with serving(HUB_FILES) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        with pytest.raises(UsageError, match="knows no model"):
            read_checkpoint("org/other")
    with pytest.raises(RefusedError, match="could not be asked"):
        read_checkpoint("org/other")


def test_a_hub_that_does_not_answer_in_time_falls_back_to_what_the_cache_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    cached(tmp_path)
    found = read_checkpoint(REPO, deadline_s=0.2)
    assert found.place == "cache"
    assert any("0 seconds" in note or "could not be asked" in note for note in found.notes)


@pytest.mark.parametrize(
    ("file", "said"), [("adapter_config.json", "--lora-modules"), ("model-Q4_K_M.gguf", "safetensors")]
)
def test_what_is_no_checkpoint_is_told_for_what_it_is(tmp_path: Path, file: str, said: str) -> None:
    (tmp_path / file).write_text("{}")
    with pytest.raises(UsageError) as caught:
        read(tmp_path)
    assert said in caught.value.hint
