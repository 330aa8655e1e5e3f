"""The live tool-call test."""

from __future__ import annotations

from typing import Literal

import msgspec

from wizard.serve import Server
from wizard.smoke.rates import Speed as Speed

SmokeStatus = Literal["ok", "warn", "fail", "skip"]
SmokeVerdict = Literal["pass", "fail", "inconclusive"]


class SmokeCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One request and what its answer proves. A ``required`` one that fails fails the test.

    One that only warns, or was skipped, leaves it inconclusive.
    """

    id: str
    title: str
    required: bool
    status: SmokeStatus
    detail: str
    evidence: str = ""
    hint: str = ""
    ms: int


class SmokeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole test of one served model; ``speed`` is without figures until it was measured."""

    server: Server
    checks: tuple[SmokeCheck, ...]
    verdict: SmokeVerdict
    speed: Speed = Speed()
