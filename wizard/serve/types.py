"""A start of vLLM, what happened during it, and the server that came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

StartedBy = Literal["wizard", "somebody else", "rehearsal"]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One start of vLLM: its process, its folder, its log. Survives the wizard on disk as ``run.json``."""

    id: str
    plan_id: str
    folder: str
    log: str
    pid: int
    process_started: float
    """Creation time of the process, seconds since the epoch: tells it from a later one with its number."""
    started_at: float
    base_url: str
    served_model_name: str
    argv: tuple[str, ...]
    vllm_version: str | None = None
    api_key_file: str | None = None
    """Where the key of the server is kept; the key itself is never part of a run."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, kept as ``end.json``. A negative ``code`` is a signal; None when nobody saw it."""

    code: int | None = None
    asked: bool = False
    """The wizard stopped it; else it died, or somebody else stopped it."""


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """What stopping a run came to. ``left`` holds the process numbers that even SIGKILL did not end."""

    was_running: bool
    code: int | None
    left: tuple[int, ...] = ()


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of what happens during a run; ``seconds`` counts from its start."""

    seconds: float


class Milestone(Event, frozen=True, kw_only=True, tag="milestone"):
    """A stage of the start was reached; ``detail`` is what vLLM said about it."""

    id: str
    title: str
    detail: str = ""


class Progress(Event, frozen=True, kw_only=True, tag="progress"):
    """How far a countable stage is."""

    id: str
    done: int
    total: int


class LogLine(Event, frozen=True, kw_only=True, tag="log"):
    """A line of the log, made inert."""

    number: int
    text: str


class Ready(Event, frozen=True, kw_only=True, tag="ready"):
    """The server answers."""

    base_url: str
    served_names: tuple[str, ...]
    max_model_len: int | None


class EngineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a running vLLM says it measured, per GPU; None where it does not say. GiB are binary."""

    weights_gib: float | None = None
    available_kv_gib: float | None = None
    graphs_gib: float | None = None
    cache_tokens: int | None = None
    """The size of its KV cache, as it counts it for a window of ``window`` tokens."""
    window: int | None = None
    max_concurrency: float | None = None
    """How many whole windows it holds at once."""
    block_size: int | None = None
    num_blocks: int | None = None
    gpu_memory_utilization: float | None = None


class Measured(Event, frozen=True, kw_only=True, tag="read-back"):
    """The engine's own figures beside the estimate they were planned with."""

    vllm: EngineFigures
    estimate: Mapping[str, float | int | None]
    """The same figures as the plan expected them; empty for a server that was not planned here."""
    max_model_len: int | None
    """The window it serves."""
    longer: int | None = None
    """A longer window that its memory safely holds, tokens; None: there is no such."""


class Finding(Event, frozen=True, kw_only=True, tag="finding"):
    """What the log says about a failure: the last error block, or a recognised fault."""

    code: str
    text: str
    evidence: tuple[str, ...] = ()
    hint: str = ""


class Exited(Event, frozen=True, kw_only=True, tag="exited"):
    """The process ended. ``asked`` tells a stop by the wizard from a death."""

    code: int | None
    asked: bool


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A running server, whoever started it. ``api_key`` never leaves the process."""

    base_url: str
    served_names: tuple[str, ...]
    model: str
    """The served name in use: what a client must send as ``model``."""
    max_model_len: int | None
    version: str | None
    started_by: StartedBy
    pid: int | None = None
