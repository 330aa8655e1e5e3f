"""What is on disk, and what vLLM would load of it: caches as huggingface_hub lays them out, and folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from wizard.fetch import Order, is_hub_id, on_disk, presence
from wizard.fetch.select import files_beside, weights_of
from wizard.fetch.store import is_offline

COMMIT = "a" * 40
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
INDEX = json.dumps({"weight_map": {"a": SHARDS[0], "b": SHARDS[1]}}).encode()


def cached(hub: Path, files: Mapping[str, int | bytes], name: str = "org/m", commit: str = COMMIT) -> Path:
    """A repository in a cache, by the layout in huggingface_hub's documentation; returns its folder."""
    folder = hub / f"models--{name.replace('/', '--')}"
    snapshot = folder / "snapshots" / commit
    for part in ("blobs", "refs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text(commit)
    for number, (file, content) in enumerate(files.items()):
        blob = folder / "blobs" / f"{number:064x}"
        blob.write_bytes(bytes(content) if isinstance(content, int) else content)
        (snapshot / file).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / file).symlink_to(Path("../" * (file.count("/") + 2)) / "blobs" / blob.name)
    return folder


def order(hub: Path, **fields: str | None) -> Order:
    return Order(checkpoint="org/m", env={"HF_HUB_CACHE": str(hub)}, **fields)  # type: ignore[arg-type]


def test_shards_are_whole_only_together(tmp_path: Path) -> None:
    files: dict[str, int | bytes] = {
        "config.json": b"{}",
        "model.safetensors.index.json": INDEX,
        SHARDS[0]: 700,
    }
    cached(tmp_path, files)
    half = presence(order(tmp_path))
    assert (half.state, half.bytes) == ("partial", 700)
    cached(tmp_path / "2", {**files, SHARDS[1]: 300})
    whole = presence(order(tmp_path / "2"))
    assert (whole.state, whole.bytes) == ("whole", 1000)


def test_numbers_in_names_tell_what_is_missing_without_an_index(tmp_path: Path) -> None:
    cached(tmp_path, {"config.json": b"{}", SHARDS[0]: 10})
    assert presence(order(tmp_path)).state == "partial"


@pytest.mark.parametrize("name", ["sha.incomplete", "sha.1a2b3c4d.incomplete"])
def test_an_unfinished_file_counts(tmp_path: Path, name: str) -> None:
    folder = cached(tmp_path, {"config.json": b"{}"})
    (folder / "blobs" / name).write_bytes(b"x" * 500)
    found = presence(order(tmp_path))
    assert (found.state, found.bytes) == ("partial", 500)


def test_a_left_over_of_another_download_does_not_spoil_what_is_whole(tmp_path: Path) -> None:
    folder = cached(tmp_path, {"config.json": b"{}", "model.safetensors": 9})
    (folder / "blobs" / "other.incomplete").write_bytes(b"x")
    assert presence(order(tmp_path)).state == "whole"


def test_a_configuration_alone_or_a_dead_link_is_nothing(tmp_path: Path) -> None:
    folder = cached(tmp_path, {"config.json": b"{}", "model.safetensors": 9})
    (folder / "blobs" / f"{1:064x}").unlink()
    assert presence(order(tmp_path)).state == "absent"


def test_the_revision_that_main_names_counts(tmp_path: Path) -> None:
    folder = cached(tmp_path, {"config.json": b"{}", "model.safetensors": 9})
    (folder / "refs" / "main").write_text("b" * 40)
    assert presence(order(tmp_path)).state == "absent"


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"HF_HOME": "{0}/a"}, "a/hub"),
        ({"HF_HUB_CACHE": "{0}/b", "HF_HOME": "{0}/a"}, "b"),
        ({"HUGGINGFACE_HUB_CACHE": "{0}/c"}, "c"),
    ],
)
def test_it_looks_where_vllm_will(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], place: str
) -> None:
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    cached(tmp_path / place, {"config.json": b"{}", "model.safetensors": 9})
    variables = {name: value.format(tmp_path) for name, value in environ.items()}
    assert on_disk(["org/m"], variables)["org/m"].state == "whole"


def test_download_dir_holds_weights_and_the_cache_the_rest(tmp_path: Path) -> None:
    cached(tmp_path / "dir", {"model.safetensors": 9})
    wanted = order(tmp_path / "hub", download_dir=str(tmp_path / "dir"))
    assert presence(wanted).state == "partial"
    cached(tmp_path / "hub", {"config.json": b"{}"})
    assert presence(wanted).state == "whole"


def test_many_checkpoints_and_a_local_folder(tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.mkdir()
    (local / "config.json").write_text("{}")
    assert presence(Order(checkpoint=str(local))).state == "absent"
    (local / "model.safetensors").write_bytes(b"12345")
    found = on_disk([str(local), "org/none", "/no/such/folder"], {"HF_HUB_CACHE": str(tmp_path)})
    assert {name: each.state for name, each in found.items()} == {
        str(local): "whole",
        "org/none": "absent",
        "/no/such/folder": "absent",
    }


MISTRAL = ("consolidated.safetensors", "params.json", *SHARDS, "model.safetensors.index.json", "tekken.json")


@pytest.mark.parametrize(
    ("version", "load_format", "expected"),
    [
        # vllm-project/vllm#28659, in 0.12.0: Mistral's own format is preferred where its files are.
        ("0.12.0", None, ("consolidated.safetensors",)),
        (None, None, ("consolidated.safetensors",)),
        ("0.11.2", None, SHARDS),
        ("0.11.2", "mistral", ("consolidated.safetensors",)),
    ],
)
def test_mistrals_format_by_version(
    version: str | None, load_format: str | None, expected: tuple[str, ...]
) -> None:
    wanted = Order(checkpoint="org/m", vllm_version=version, load_format=load_format)
    index = {"model.safetensors.index.json": INDEX}
    assert weights_of(MISTRAL, wanted, index.get) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("model.safetensors", "pytorch_model.bin"), ("model.safetensors",)),
        (("pytorch_model.bin", "training_args.bin"), ("pytorch_model.bin",)),
        (
            ("original/consolidated.00.pth", "original/model.safetensors", "model.safetensors"),
            ("model.safetensors",),
        ),
        (("weights.pt",), ("weights.pt",)),
        (("model.gguf", "config.json"), ()),
    ],
)
def test_only_what_vllm_loads(names: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert weights_of(names, Order(checkpoint="org/m"), lambda name: None) == expected


@pytest.mark.parametrize("content", [b"", b"[]", b'{"weight_map": {}}', b"\xff"])
def test_an_index_that_says_nothing_is_passed_over(content: bytes) -> None:
    names = ("model.safetensors", "model.safetensors.index.json")
    assert weights_of(names, Order(checkpoint="org/m"), lambda name: content) == ("model.safetensors",)


def test_what_belongs_beside_the_weights() -> None:
    names = (
        "config.json",
        "chat_template.jinja",
        "README.md",
        "original/params.json",
        "tokenizer.model",
        "x.png",
    )
    assert files_beside(names) == ("chat_template.jinja", "config.json", "tokenizer.model")


@pytest.mark.parametrize(
    ("text", "is_id"),
    [
        ("gpt2", True),
        ("Qwen/Qwen3-0.6B", True),
        ("/models/x", False),
        ("a/b/c", False),
        ("s3://b/k", False),
        ("org/m:Q4_K_M", False),
        ("", False),
        ("../x", False),
        ("a--b/c", False),
    ],
)
def test_names_of_repositories(text: str, is_id: bool) -> None:
    assert is_hub_id(text) is is_id


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_by_the_hubs_own_variables(name: str) -> None:
    assert is_offline(Order(checkpoint="org/m", env={name: "1"}))
    assert not is_offline(Order(checkpoint="org/m", env={name: "0"}))
