"""What is known about faults, and what was found in a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from wizard.plan import Instruction, LaunchPlan

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
    until: str = ""
    """When a workaround can go again; empty for a cure."""
    again: bool = False
    """Starting once more, unchanged, is the remedy."""
    manual: bool = False
    """It costs quality or safety, or is half of what is to be done: never applied unasked."""
    instructions: tuple[Instruction, ...] = ()
    """How exactly the server is started anew with the change, where its plan is known."""
    certain: bool = True
    """False: whether it is for this machine and plan is not known; a person decides."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that shows in the text, with its evidence and what helps, best first."""

    fault: str
    severity: Severity
    title: str
    cause: str
    evidence: tuple[Evidence, ...]
    remedies: tuple[Remedy, ...] = ()
    will_not_help: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one text of ``lines`` lines and ``bytes`` bytes, most likely cause first.

    ``unknown``: it failed and nobody knows why; ``incomplete``: it ends before one can tell, with a warning
    where a start ends without a word.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    lines: int
    bytes: int
    plan: LaunchPlan | None = None
    """The server the remedies are for: the plan that was given, else the one the text itself tells of."""


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the fault base."""


class Condition(_Entry, frozen=True, kw_only=True):
    """What must hold of machine, plan, versions, log. Empty members ask nothing; ranges include both ends."""

    capability: tuple[int, int] | None = None
    """Ten times the compute capability of any usable GPU: sm_121 is 121."""
    arch: str = ""
    unified: bool | None = None
    container: bool | None = None
    gpus: tuple[int, int] | None = None
    vllm: str = ""
    """A version specifier such as ``<0.21``; so are ``torch`` and ``driver``."""
    torch: str = ""
    driver: str = ""
    model: str = ""
    """Pattern of the model's name, case ignored."""
    flags: Mapping[str, str] = {}
    """Options of vLLM that must be set, each with a pattern of its value."""
    stage: tuple[str, ...] = ()
    """How far the start must have come at the line; names of ``assets/faults/log.toml``."""
    between: Mapping[str, tuple[float, float]] = {}
    """Ranges of values that the line names, the upper end excluded."""


class Signature(_Entry, frozen=True, kw_only=True):
    """A line that shows a fault: it holds ``literal``, and ``pattern`` finds something in it.

    The pattern sees the line with all quotation marks as ``'``, and escaped ones of JSON as ``"``.
    """

    literal: str
    pattern: str = ""
    needs: tuple[str, ...] = ()
    """Words that must all be somewhere in the text."""
    after: tuple[str, ...] = ()
    """Words that must all be in lines before this one, or in it."""
    unless: tuple[str, ...] = ()
    """Words of which none may be in the text."""
    last: bool = False
    """Only where the start shows no progress after this line, and nothing more comes."""
    excerpt: bool = False
    """Only in a short text that is no log of a start: something a person pasted or wrote."""
    weak: bool = False
    """Such a line has other causes too: findings with stronger lines come first."""


class Figure(_Entry, frozen=True, kw_only=True):
    """A value computed from others; see the head of ``assets/faults/log.toml`` for the rules."""

    name: str
    rule: Literal["floor", "share", "nearest"]
    of: tuple[str, ...]
    step: float = 1


class RemedyRule(_Entry, frozen=True, kw_only=True):
    """A remedy with ``{name}`` for values, offered when all are known, ``between`` holds and ``when`` may."""

    title: str
    kind: RemedyKind
    set: Mapping[str, str | bool] = {}
    unset: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    commands: tuple[str, ...] = ()
    effect: str = ""
    until: str = ""
    again: bool = False
    manual: bool = False
    between: Mapping[str, tuple[float, float]] = {}
    when: Condition = Condition()
    only_known: bool = False
    """Left out where it is unknown whether ``when`` holds."""


class Fault(_Entry, frozen=True, kw_only=True):
    """One fault of the base: a cause, however many lines betray it."""

    id: str
    title: str
    cause: str
    severity: Severity = "error"
    scope: Literal["start", "request"] = "start"
    served_severity: Severity = "info"
    """Severity of a fault of scope ``request`` in the log of a server that runs."""
    last_resort: bool = False
    """Also follows from other faults: told only when the text shows none and names no other cause."""
    silence: bool = False
    """Shown by a start that ends without a word."""
    exit_codes: tuple[int, ...] = ()
    """Exit codes that show this fault when the text names no cause."""
    when: Condition = Condition()
    """The fault is left out where this is known not to hold, and comes earlier where it is known to."""
    only_known: bool = False
    """Also left out where it is unknown whether ``when`` holds."""
    replaces: tuple[str, ...] = ()
    """Faults that say the same less exactly: left out beside this one."""
    signature: tuple[Signature, ...] = ()
    figures: tuple[Figure, ...] = ()
    remedy: tuple[RemedyRule, ...] = ()
    will_not_help: tuple[str, ...] = ()
    """What people try and what is known not to cure it."""
    sources: tuple[str, ...]


class FaultFile(_Entry, frozen=True, kw_only=True):
    """A topic of the fault base: any file of ``assets/faults/`` but ``log.toml``."""

    fault: tuple[Fault, ...]


class Stage(_Entry, frozen=True, kw_only=True):
    """A part of vLLM's start, and the words that show it has begun."""

    name: str
    words: tuple[str, ...]


class LogWords(_Entry, frozen=True, kw_only=True):
    """``assets/faults/log.toml``: what tells how a log goes, apart from its faults."""

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
    trouble: str
    """Pattern of a line that tells of an error without naming it in a way that is understood."""
    stage: tuple[Stage, ...]
    """In their order."""
    facts: tuple[str, ...]
    """Patterns whose groups are facts: vllm, torch, driver, capability."""
    arguments: tuple[str, ...]
    """Words of the line in which vLLM repeats its arguments."""
