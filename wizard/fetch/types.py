"""What is on disk, what is missing, and what happens while it is brought. Sizes are bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

State = Literal["whole", "partial", "absent"]


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """What of a checkpoint is on this disk; ``bytes`` counts the weights, unfinished files included."""

    state: State
    bytes: int = 0


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint to have on disk, and what decides which of its files vLLM loads and where it looks.

    ``checkpoint`` is a hub id or a local folder. ``env`` are the variables vLLM will be started with, beside
    those of this process: they may move the cache or name a mirror.
    """

    checkpoint: str
    revision: str = "main"
    download_dir: str | None = None
    load_format: str | None = None
    vllm_version: str | None = None
    env: Mapping[str, str] = {}
    offline: bool = False


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a repository that is missing, or was begun: ``have`` bytes of it are there.

    ``etag`` is what the hub knows it by, a SHA-256 for large files and git's id for others, and its name
    among the blobs of the cache. Without it or ``size`` the file can only be brought in one go.
    """

    path: str
    size: int | None
    etag: str | None
    cache: str
    have: int = 0


class FetchEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of what happens while weights are brought."""


class FetchPlan(FetchEvent, frozen=True, kw_only=True, tag="plan"):
    """What will be brought, and whether there is room for it. ``folder`` is the cache the weights go to."""

    checkpoint: str
    revision: str
    endpoint: str
    folder: str
    total_bytes: int
    missing_bytes: int
    free_bytes: int
    needed_bytes: int
    """What must be free: what is missing and a margin."""
    gated: bool = False
    files: tuple[File, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the file system has room for it."""
        return self.needed_bytes <= self.free_bytes


class FetchProgress(FetchEvent, frozen=True, kw_only=True, tag="progress"):
    """How far it is, in bytes counted on the disk. The pace is that of the last seconds, if it is known."""

    id: str = "weights"
    """Tells it from the other things that are counted during a launch."""
    done: int
    total: int
    bytes_per_s: float | None
    seconds_left: float | None


class FetchWaiting(FetchEvent, frozen=True, kw_only=True, tag="waiting"):
    """Something is in the way, and will be tried again in ``seconds``."""

    text: str
    seconds: float


class Fetched(FetchEvent, frozen=True, kw_only=True, tag="done"):
    """Everything vLLM loads is on disk. ``downloaded_bytes`` were brought by this download."""

    checkpoint: str
    folder: str
    total_bytes: int
    downloaded_bytes: int
    seconds: float


class FetchFailed(FetchEvent, frozen=True, kw_only=True, tag="failed"):
    """Why the process that downloads gave up."""

    message: str
    hint: str


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A download in a process of its own, kept as ``job.json`` in its folder."""

    checkpoint: str
    folder: str
    pid: int
    process_started: float
    """Creation time of the process, seconds since the epoch: tells it from a later one with its number."""

    @property
    def events(self) -> str:
        """The file its events are written to, one a line."""
        return f"{self.folder}/events.jsonl"
