"""An installed vLLM and how it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

RuntimeKind = Literal["venv", "conda", "system", "container", "command", "rehearsal", "assumed"]
"""``venv`` covers what uv and pipx make for a tool; ``system`` is a Python outside of any environment."""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """A vLLM that can be started with ``command`` followed by ``serve MODEL …``.

    ``assumed`` stands for the newest version the tables know, when none was found or asked. What only the
    installed vLLM can tell is empty when it was not asked, or did not answer that far.
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
    arch_list: tuple[str, ...] = ()
    """What its PyTorch holds code for, as ``sm_90``; vLLM's own kernels may hold less."""
    tool_parsers: tuple[str, ...] = ()
    reasoning_parsers: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """Every long option of ``vllm serve``, other spellings and ``--no-`` twins included."""
    choices: Mapping[str, tuple[str, ...]] = {}
    """The values of options that take one of a few."""
    variables: tuple[str, ...] = ()
    """Variables of vLLM's own that it reads."""
    attention_backends: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    """Installed packages that vLLM loads when it starts."""
    notes: tuple[str, ...] = ()
    """What is worth knowing though it can be started."""
    problem: str = ""
    """Why it cannot be taken; empty when it answered."""
