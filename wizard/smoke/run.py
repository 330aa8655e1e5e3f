"""Runs the checks in order, from "is it there" to "does it work the way opencode uses it"."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from wizard.i18n import _
from wizard.serve import Server
from wizard.smoke.checks import CHECKS
from wizard.smoke.exchange import Line
from wizard.smoke.judge import Judgement
from wizard.smoke.material import CheckSpec, material
from wizard.smoke.talk import Learned, Talk, since
from wizard.smoke.trouble import Cancelled, Trouble
from wizard.smoke.types import SmokeCheck, SmokeReport, SmokeVerdict
from wizard.text import inert, one_line

_DETAIL = 200
_HINT = 500
_AT_ONCE = 4
"""Checks that ask at the same time: vLLM serves them in little more time than one."""


def run_smoke(
    server: Server,
    *,
    api_key: str | None = None,
    on_check: Callable[[SmokeCheck], object] | None = None,
    cancel: threading.Event | None = None,
) -> SmokeReport:
    """Ask ``server`` everything opencode will rely on, and judge the answers.

    ``on_check`` hears of every check as it ends. ``cancel`` ends the test within a moment; what was not asked
    is skipped then. Each check has its own deadline. Raises nothing for what a server does: a dead one is a
    failed test.
    """
    stop = cancel or threading.Event()
    line = Line(server.base_url, api_key, stop)
    with contextlib.closing(line), ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        try:
            return _Test(server, line, pool).run(on_check or (lambda _check: None))
        except BaseException:
            # Nobody waits for the answers any more, and the pool must not either.
            stop.set()
            raise


def verdict_of(checks: tuple[SmokeCheck, ...]) -> SmokeVerdict:
    """Fail when a required check failed, pass when all passed, else inconclusive."""
    statuses = {check.status for check in checks if check.required}
    if "fail" in statuses:
        return "fail"
    return "pass" if statuses == {"ok"} else "inconclusive"


class _Test:
    """One run: what earlier checks learned is used by later ones."""

    def __init__(self, server: Server, line: Line, pool: ThreadPoolExecutor) -> None:
        self._server = server
        self._line = line
        self._pool = pool
        self._learned = Learned(window=server.max_model_len)
        self._over = ""
        """Why nothing more is asked."""

    def run(self, on_check: Callable[[SmokeCheck], object]) -> SmokeReport:
        checks: list[SmokeCheck] = []
        asked: dict[str, Future[SmokeCheck]] = {}
        for place, spec in enumerate(material().check):
            if spec.together and not asked:
                asked = {one.id: self._pool.submit(self._check, one) for one in _group(place)}
            check = asked.pop(spec.id).result() if spec.together else self._check(spec)
            self._learned.statuses[spec.id] = check.status
            checks.append(check)
            on_check(check)
        done = tuple(checks)
        return SmokeReport(
            server=msgspec.structs.replace(self._server, max_model_len=self._learned.window),
            checks=done,
            verdict=verdict_of(done),
        )

    def _check(self, spec: CheckSpec) -> SmokeCheck:
        talk = Talk(spec, self._server, self._line, self._learned)
        began = time.monotonic()
        why_not = self._pointless(spec)
        judgement = Judgement(status="skip", detail=why_not) if why_not else self._ask(talk)
        return SmokeCheck(
            id=spec.id,
            title=_(spec.title),
            required=spec.required,
            status=judgement.status,
            detail=self._safe(_after_refusals(talk, judgement.detail), _DETAIL),
            hint=self._safe(judgement.hint, _HINT),
            evidence=inert(self._line.covered(talk.evidence)),
            ms=0 if why_not else since(began),
        )

    def _pointless(self, spec: CheckSpec) -> str:
        """Why a check need not be made, or nothing. Those without a deadline only look at what came."""
        if self._over and (spec.deadline_s or not self._learned.answers):
            return self._over
        if spec.needs and self._learned.statuses[spec.needs] in ("fail", "skip"):
            needed = material().find_check(spec.needs)
            return _("Not asked: “{check}” did not work.").format(check=_(needed.title))
        return ""

    def _ask(self, talk: Talk) -> Judgement:
        """The judgement of a check, which also ends the test when nothing more can be learned."""
        try:
            return CHECKS[talk.spec.id](talk)
        except Cancelled:
            self._over = _("The test was stopped.")
            return Judgement(status="skip", detail=self._over)
        except Trouble as trouble:
            if trouble.evidence and not talk.evidence:
                talk.note("", trouble.evidence)
            if trouble.ends_test:
                self._over = _("Not asked: the server did not answer the check before.")
            return Judgement(status="fail", detail=trouble.message, hint=trouble.hint)

    def _safe(self, text: str, limit: int) -> str:
        """One inert line without the key, should a server have repeated it."""
        return one_line(self._line.covered(text), limit)


def _group(place: int) -> Sequence[CheckSpec]:
    """The checks from ``place`` on that may be made at the same time."""
    return tuple(itertools.takewhile(lambda spec: spec.together, material().check[place:]))


def _after_refusals(talk: Talk, detail: str) -> str:
    """The detail, and that the server had to be asked twice."""
    if not talk.refusals:
        return detail
    return _("{detail} (asked again after status {status})").format(detail=detail, status=talk.refusals[-1])
