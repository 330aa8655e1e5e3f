"""Weights on disk: what is already there. Downloading is vLLM's own work for now."""

from __future__ import annotations

from pathlib import Path

from wizard.machine import models_folder


def on_disk(checkpoint: str) -> bool:
    """Whether the weights of a checkpoint (local folder or hub id) are complete on this disk.

    A cached snapshot counts when it holds weights and no download of the repository was left half-way.
    """
    if Path(checkpoint).is_dir():
        return True
    repository = models_folder() / f"models--{checkpoint.replace('/', '--')}"
    if any((repository / "blobs").glob("*.incomplete")):
        return False
    return any((repository / "snapshots").glob("*/*.safetensors"))
