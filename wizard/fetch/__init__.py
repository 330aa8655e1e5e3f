"""Weights on disk: what is there, what is missing, and bringing it before vLLM needs it.

vLLM downloads by itself but shows nothing of it, and huggingface_hub begins an interrupted file anew.
"""

from wizard.fetch.job import follow, look, require_room, running, start, stop
from wizard.fetch.store import is_hub_id, on_disk, presence, uses_modelscope
from wizard.fetch.types import (
    Fetched,
    FetchEvent,
    FetchFailed,
    FetchPlan,
    FetchProgress,
    FetchWaiting,
    Job,
    Order,
    Presence,
)
from wizard.fetch.words import progress_words

__all__ = [
    "FetchEvent",
    "FetchFailed",
    "FetchPlan",
    "FetchProgress",
    "FetchWaiting",
    "Fetched",
    "Job",
    "Order",
    "Presence",
    "follow",
    "is_hub_id",
    "look",
    "on_disk",
    "presence",
    "progress_words",
    "require_room",
    "running",
    "start",
    "stop",
    "uses_modelscope",
]
