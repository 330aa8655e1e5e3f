"""What is on disk, by the layout of huggingface_hub's cache: from names and sizes, nothing is hashed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from wizard import paths
from wizard.catalog import fetch_facts
from wizard.errors import UsageError
from wizard.fetch.select import weights_of
from wizard.fetch.types import Order, Presence
from wizard.machine import models_folder

UNFINISHED = ".incomplete"
"""What huggingface_hub puts behind the name of a blob that is not whole yet."""

_HUB_ID = re.compile(r"(?!.*(--|\.\.))[\w.-]{1,96}(/[\w.-]{1,96})?")
_TRUE = ("1", "on", "yes", "true")


def on_disk(checkpoints: Iterable[str], environ: Mapping[str, str] | None = None) -> Mapping[str, Presence]:
    """What of each checkpoint, a hub id or a local folder, is on this disk."""
    variables = {} if environ is None else environ
    return {name: presence(Order(checkpoint=name, env=variables)) for name in checkpoints}


def presence(order: Order) -> Presence:
    """What of a checkpoint is on this disk, where vLLM will look for it. Never raises for what it finds."""
    folder = paths.expanded(order.checkpoint)
    if folder.is_dir():
        return _judged(_files(folder), order, (folder, folder), unfinished=0)
    if not is_hub_id(order.checkpoint):
        return Presence(state="absent")
    try:
        weights, rest = (repository(cache, order.checkpoint) for cache in caches(order))
    except UsageError:
        # Who has no home has no cache in it.
        return Presence(state="absent")
    snapshot = snapshot_of(weights, order.revision)
    files = {} if snapshot is None else _files(snapshot)
    unfinished = sum(_size(file) for file in _entries(weights / "blobs") if file.endswith(UNFINISHED))
    description = snapshot_of(rest, order.revision)
    if snapshot is None or description is None:
        return Presence(state="partial" if files or unfinished else "absent", bytes=unfinished)
    return _judged(files, order, (snapshot, description), unfinished)


def is_hub_id(checkpoint: str) -> bool:
    """Whether this names a repository of the hub, and not a folder, an address or a file in one."""
    return _HUB_ID.fullmatch(checkpoint) is not None


def environment(order: Order) -> dict[str, str]:
    """The variables that vLLM will see."""
    return {**os.environ, **order.env}


def caches(order: Order) -> tuple[Path, Path]:
    """The cache vLLM takes weights from, and the one it takes everything else from."""
    rest = models_folder(environment(order))
    return (paths.expanded(order.download_dir) if order.download_dir else rest), rest


def repository(cache: Path, checkpoint: str) -> Path:
    """The folder of a repository in a cache."""
    return cache / f"models--{checkpoint.replace('/', '--')}"


def snapshot_of(repository: Path, revision: str) -> Path | None:
    """The folder of a revision that was downloaded, whole or not."""
    try:
        commit = (repository / "refs" / revision).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    folder = repository / "snapshots" / commit
    return folder if commit and folder.is_dir() else None


def is_offline(order: Order) -> bool:
    """Whether nothing may be downloaded: asked for, or by huggingface_hub's own variables."""
    return order.offline or _is_set(order, "HF_HUB_OFFLINE") or _is_set(order, "TRANSFORMERS_OFFLINE")


def uses_modelscope(order: Order) -> bool:
    """Whether vLLM is told to take models from ModelScope instead."""
    return _is_set(order, "VLLM_USE_MODELSCOPE")


def free_bytes(folder: Path) -> int:
    """Room for this user on the file system of a folder, or of the nearest one above it that exists."""
    for place in (folder, *folder.parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return 0


def _is_set(order: Order, name: str) -> bool:
    return environment(order).get(name, "").lower() in _TRUE


def _judged(files: dict[str, int], order: Order, places: tuple[Path, Path], unfinished: int) -> Presence:
    """Whole when every weight file is there and something says what model it is."""
    folder, description = places

    def read(name: str) -> bytes | None:
        try:
            return (folder / name).read_bytes()
        except OSError:
            return None

    weights = weights_of(files, order, read)
    size = sum(files.get(name, 0) for name in weights)
    described = any((description / name).is_file() for name in fetch_facts().descriptions)
    if weights and described and all(name in files for name in weights):
        return Presence(state="whole", bytes=size)
    return Presence(state="partial" if size or unfinished else "absent", bytes=size + unfinished)


def _files(folder: Path) -> dict[str, int]:
    """Names and sizes of the files at the top of a folder; links that lead nowhere are not there."""
    sizes: dict[str, int] = {}
    for path in _entries(folder):
        if Path(path).is_file():
            sizes[os.path.basename(path)] = _size(path)  # noqa: PTH119
    return sizes


def _entries(folder: Path) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(folder)]
    except OSError:
        return []


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
