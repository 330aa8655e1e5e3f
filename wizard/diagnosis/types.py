"""What is known about faults, and what was found in a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Severity = Literal["error", "warning", "info"]
Verdict = Literal["healthy", "failed", "unknown", "incomplete"]
RemedyKind = Literal["flag", "env", "package", "os", "model", "client", "container", "operation", "hardware"]

UNRECOGNISED = "unrecognised"
"""The fault of a finding that only quotes the cause, because the fault base does not know it."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A line that shows the fault: its number in the text, counted from 1, and what it says."""

    line: int
    text: str


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that helps. ``set`` (None: a switch), ``unset`` and ``env`` change the launch plan."""

    title: str
    kind: RemedyKind
    set: Mapping[str, str | None] = {}
    unset: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    commands: tuple[str, ...] = ()
    effect: str = ""
    """What it costs, or what it needs; empty when nothing is lost."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that shows in the text, with its evidence and what helps, best first."""

    fault: str
    severity: Severity
    title: str
    cause: str
    evidence: tuple[Evidence, ...]
    remedies: tuple[Remedy, ...] = ()
    sources: tuple[str, ...] = ()


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one text of ``lines`` lines and ``bytes`` bytes, most likely cause first.

    ``unknown``: it failed and nobody knows why; ``incomplete``: it ends before one can tell.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    lines: int
    bytes: int


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the fault base."""


class Signature(_Entry, frozen=True, kw_only=True):
    """A line that shows a fault: it holds ``literal``, and ``pattern`` finds something in it."""

    literal: str
    pattern: str = ""


class Figure(_Entry, frozen=True, kw_only=True):
    """A value computed from others; see the head of ``assets/faults/core.toml`` for the rules."""

    name: str
    rule: Literal["floor", "share", "nearest"]
    of: tuple[str, ...]
    step: float = 1


class RemedyRule(_Entry, frozen=True, kw_only=True):
    """A remedy with ``{name}`` for values, offered when all of them are known and ``between`` holds."""

    title: str
    kind: RemedyKind
    set: Mapping[str, str | bool] = {}
    unset: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    commands: tuple[str, ...] = ()
    effect: str = ""
    between: Mapping[str, tuple[float, float]] = {}


class Fault(_Entry, frozen=True, kw_only=True):
    """One fault of the base."""

    id: str
    title: str
    cause: str
    severity: Severity = "error"
    scope: Literal["start", "request"] = "start"
    served_severity: Severity = "info"
    """Severity of a fault of scope ``request`` in the log of a server that runs."""
    last_resort: bool = False
    """Also follows from other faults: told only when the text shows none and names no other cause."""
    exit_codes: tuple[int, ...] = ()
    """Exit codes that show this fault when the text names no cause."""
    signature: tuple[Signature, ...] = ()
    figures: tuple[Figure, ...] = ()
    remedy: tuple[RemedyRule, ...] = ()
    sources: tuple[str, ...]


class FaultBase(_Entry, frozen=True, kw_only=True):
    """A file of ``assets/faults/``."""

    landmarks: tuple[str, ...]
    """What a line must hold to be read, if it holds no signature's literal."""
    ready: tuple[str, ...]
    """Patterns of the line that ends a start that went well."""
    serving: tuple[str, ...]
    """Words of lines that only a running server writes."""
    crash: tuple[str, ...]
    """Patterns of lines that a process leaves which the system ended for a fault in it."""
    stopping: tuple[str, ...]
    """Patterns of lines that begin an orderly stop."""
    harmless: tuple[str, ...]
    """Patterns of lines that name an error and mean nothing."""
    model: str
    """Pattern of the model's name in the line with vLLM's arguments, group ``model``."""
    port: str
    """Pattern of the port in that line, group ``port``."""
    fault: tuple[Fault, ...]
