"""Asks the hub what belongs to a checkpoint, and compares it with what is on disk.

For the process that talks to the hub: its variables must be in place before huggingface_hub is imported.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from wizard.catalog import fetch_facts
from wizard.fetch.patience import Emit, Patience
from wizard.fetch.select import files_beside, weights_of
from wizard.fetch.store import UNFINISHED, caches, free_bytes, repository, snapshot_of
from wizard.fetch.trouble import GivenUpError, endpoint
from wizard.fetch.types import FetchFailed, FetchPlan, File, Order
from wizard.i18n import _

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo, RepoSibling


def look(order: Order, emit: Emit) -> FetchPlan:
    """What is missing of a checkpoint. Raises what huggingface_hub raises, and GivenUpError."""
    info = _info(order, emit)
    siblings = {sibling.rfilename: sibling for sibling in info.siblings or ()}
    weights = weights_of(siblings, order, lambda name: _content(order, name))
    if not weights:
        raise GivenUpError(
            FetchFailed(
                message=_("{checkpoint} holds no weights that vLLM loads.").format(
                    checkpoint=order.checkpoint
                ),
                hint=_("Choose a repository with safetensors files."),
            )
        )
    if absent := [name for name in weights if name not in siblings]:
        raise GivenUpError(
            FetchFailed(
                message=_("{checkpoint} is not whole at the hub either: {file} is missing there.").format(
                    checkpoint=order.checkpoint, file=absent[0]
                ),
                hint=_("Wait until its owner has uploaded everything, or choose another."),
            )
        )
    target, rest = caches(order)
    wanted = [(name, target) for name in weights]
    wanted += [(name, rest) for name in files_beside(siblings) if name not in weights]
    files = [_file(siblings[name], cache, order) for name, cache in wanted]
    missing = tuple(file for file in files if not _linked(file, order, info.sha))
    if info.gated and missing:
        _try_access(order, missing[0])
    lacking = sum(max(0, (file.size or 0) - file.have) for file in missing)
    return FetchPlan(
        checkpoint=order.checkpoint,
        revision=order.revision,
        endpoint=endpoint(),
        folder=str(target),
        total_bytes=sum(file.size or 0 for file in files),
        missing_bytes=lacking,
        free_bytes=free_bytes(target),
        needed_bytes=int(lacking * (1 + fetch_facts().download.spare_share)),
        gated=bool(info.gated),
        files=missing,
    )


def _info(order: Order, emit: Emit) -> ModelInfo:
    from huggingface_hub import HfApi

    facts = fetch_facts().download
    patience = Patience(emit, facts.look_s / 2)
    while True:
        try:
            return HfApi().model_info(
                order.checkpoint, revision=order.revision, files_metadata=True, timeout=facts.silent_s
            )
        except Exception as error:  # noqa: BLE001 - raised again unless it passes
            patience.wait(error)


def _content(order: Order, name: str) -> bytes | None:
    """A small file of the repository, from a folder that is gone afterwards: nothing was agreed to yet."""
    from huggingface_hub import hf_hub_download

    with tempfile.TemporaryDirectory() as folder:
        path = hf_hub_download(order.checkpoint, name, revision=order.revision, cache_dir=folder)
        return Path(path).read_bytes()


def _try_access(order: Order, file: File) -> None:
    """Ask for a file as the download will: a gated repository shows its names to everybody."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    get_hf_file_metadata(
        hf_hub_url(order.checkpoint, file.path, revision=order.revision),
        timeout=fetch_facts().download.silent_s,
    )


def _file(sibling: RepoSibling, cache: Path, order: Order) -> File:
    etag = sibling.lfs.sha256 if sibling.lfs else sibling.blob_id
    have = 0
    if etag:
        blob = repository(cache, order.checkpoint) / "blobs" / etag
        have = next((path.stat().st_size for path in (blob, partial(blob)) if path.exists()), 0)
    return File(path=sibling.rfilename, size=sibling.size, etag=etag, cache=str(cache), have=have)


def partial(blob: Path) -> Path:
    """Where a blob grows until it is whole."""
    return blob.with_name(blob.name + UNFINISHED)


def _linked(file: File, order: Order, commit: str | None) -> bool:
    """Whether the file is there under the very revision the hub has now."""
    folder = repository(Path(file.cache), order.checkpoint)
    snapshot = snapshot_of(folder, order.revision)
    return snapshot is not None and snapshot.name == commit and (snapshot / file.path).is_file()
