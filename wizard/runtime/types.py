"""An installed vLLM and how it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

RuntimeKind = Literal["venv", "command", "rehearsal", "assumed"]


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """A vLLM that can be started with ``command`` followed by ``serve MODEL …``.

    ``assumed`` stands for the newest version the tables know, when none was found or asked.
    """

    kind: RuntimeKind
    path: str
    command: tuple[str, ...]
    env: Mapping[str, str] = {}
    """What it needs in its environment, in every probe and start alike."""
    version: str | None = None
    torch: str | None = None
    cuda: str | None = None
    cpu_build: bool = False
    """vLLM's CPU build: no GPU is needed nor used."""
    tool_parsers: tuple[str, ...] = ()
    reasoning_parsers: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    problem: str = ""
    """Why the probe failed; empty when it answered."""
