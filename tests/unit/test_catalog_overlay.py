"""What the user lays over the tables: added, replaced, or refused with the place and the nearest key."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wizard import catalog
from wizard.errors import CorruptDataError

Write = Callable[..., Path]

MODEL = """
[[model]]
id = "house-model"
name = "House Model 9B"
rank = 1
params_b = 9
active_params_b = 9
context = 65536
architecture = "LlamaForCausalLM"
tool_parser = "hermes"
min_vllm = "0.10.0"

[[model.variants]]
id = "bf16"
checkpoint = "/srv/models/house"
quantization = "bf16"
weights_gib = 17
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    folder = tmp_path / "assets.d"
    folder.mkdir()
    monkeypatch.setattr("wizard.paths.overlay_dir", lambda: folder)
    catalog.clear_cache()

    def write_file(content: str, name: str = "mine.toml") -> Path:
        (folder / name).write_text(content, encoding="utf-8")
        catalog.clear_cache()
        return folder / name

    yield write_file
    catalog.clear_cache()


def test_no_folder_is_no_overlay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("wizard.paths.overlay_dir", lambda: tmp_path / "absent")
    catalog.clear_cache()
    assert catalog.find_model("qwen3-coder-next") is not None
    catalog.clear_cache()


def test_adds_a_model_and_names_the_file_as_its_source(write: Write) -> None:
    bundled = len(catalog.models())
    file = write(MODEL)
    assert len(catalog.models()) == bundled + 1
    added = catalog.model("house-model")
    assert added.source == added.variants[0].source == str(file)
    assert added.variants[0].weights_gib == 17.0


def test_a_source_of_its_own_is_kept(write: Write) -> None:
    write(MODEL.replace("rank = 1\n", 'rank = 1\nsource = "measured in house"\n'))
    added = catalog.model("house-model")
    assert added.source == added.variants[0].source == "measured in house"


def test_the_configuration_of_a_known_model_with_fields_of_its_own(write: Write) -> None:
    shared = 'rank = 1\nconfig_of = "qwen3-32b"\nconfig = { max_position_embeddings = 131072 }\n'
    write(MODEL.replace("rank = 1\n", shared))
    assert catalog.model("house-model").config == catalog.model("qwen3-32b").config | {
        "max_position_embeddings": 131072
    }


def test_the_configuration_of_an_unknown_model_is_refused(write: Write) -> None:
    write(MODEL.replace("rank = 1\n", 'rank = 1\nconfig_of = "qwen3-23b"\n'))
    with pytest.raises(CorruptDataError, match=r"house-model.*qwen3-23b.*qwen3-32b"):
        catalog.models()


def test_replaces_the_entry_of_equal_id(write: Write) -> None:
    bundled = len(catalog.models())
    write(MODEL.replace("house-model", "qwen3-coder-next"))
    assert len(catalog.models()) == bundled
    assert catalog.model("qwen3-coder-next").name == "House Model 9B"


def test_adds_gpu_parser_and_format(write: Write) -> None:
    write(
        """
        [[gpu]]
        id = "rtx-9090"
        product = "RTX 9090"
        nvml_names = ["NVIDIA GeForce RTX 9090"]
        compute_capability = "13.0"
        architecture = "Rubin"
        memory_mib = 65536

        [[parser]]
        name = "house"
        kind = "tool"
        wire_format = "Between house tags."
        first_version = "0.33.0"
        last_version = "0.33.0"
        markers = ["<house>"]

        [[quantization]]
        id = "fp8"
        title = "FP8, replaced"
        bits = 8
        native_capability = 200
        """
    )
    gpu = catalog.gpu_by_name("NVIDIA GeForce RTX 9090", 65000)
    assert gpu is not None
    assert gpu.architecture == "Rubin"
    assert catalog.parser("tool", "house").wire_format == "Between house tags."
    assert "<house>" in {leak.marker for leak in catalog.leak_markers()}
    assert catalog.quantization("fp8").native_capability == 200


def test_later_files_win(write: Write) -> None:
    write(MODEL)
    write(MODEL.replace("House Model 9B", "Second"), "z-later.toml")
    assert catalog.model("house-model").name == "Second"


@pytest.mark.parametrize(
    ("content", "place", "hint"),
    [
        (MODEL.replace("tool_parser", "tool_parsr"), "model[0].tool_parsr", "tool_parser"),
        (MODEL.replace("checkpoint", "checkpont"), "model[0].variants[0].checkpont", "checkpoint"),
        ("[[modell]]\nid = 'x'\n", "modell", "model"),
        ("[model]\nid = 'x'\n", "model", "away"),
        (MODEL.replace("context = 65536\n", ""), "model[0]", "away"),
        (MODEL.replace("context = 65536", 'context = "long"'), "model[0].context", "away"),
        (MODEL.replace('"0.10.0"', '"newest"'), "model[0].min_vllm", "away"),
        (MODEL.replace("weights_gib = 17", "weights_gib = 0"), "model[0].variants[0].weights_gib", "away"),
        ("id = [1\n", "not valid TOML", "away"),
    ],
)
def test_a_bad_file_is_named_with_the_place(write: Write, content: str, place: str, hint: str) -> None:
    file = write(content)
    with pytest.raises(CorruptDataError) as caught:
        catalog.models()
    assert str(file) in caught.value.message
    assert place in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


def test_an_unknown_weight_format_is_refused(write: Write) -> None:
    write(MODEL.replace('quantization = "bf16"', 'quantization = "bf61"'))
    with pytest.raises(CorruptDataError, match=r"house-model.*bf61.*bf16"):
        catalog.models()


def test_a_file_that_is_no_text_is_named(write: Write) -> None:
    file = write("")
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CorruptDataError, match=r"mine\.toml"):
        catalog.gpus()


def test_a_pipe_is_named_and_not_waited_for(write: Write) -> None:
    os.mkfifo(write("").with_name("pipe.toml"))
    catalog.clear_cache()
    with pytest.raises(CorruptDataError, match=r"pipe\.toml is not a regular file"):
        catalog.gpus()


def test_keys_cannot_steer_the_terminal(write: Write) -> None:
    write('[[model]]\n"\\u001b[31mred" = 1\n' + MODEL.split("[[model]]")[1])
    with pytest.raises(CorruptDataError) as caught:
        catalog.models()
    assert "\x1b" not in str(caught.value)
