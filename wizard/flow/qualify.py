"""Step Smoke: real requests against the running server, its speed, and a look at the GPUs meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from wizard.flow.journey import Cancelled, Journey, need
from wizard.flow.serving import key_of
from wizard.flow.yardstick import judged
from wizard.http import GivenUpError
from wizard.i18n import _
from wizard.machine import Check, watch_load
from wizard.smoke import SmokeCheck, SmokeReport, Speed, measure_speed, run_smoke


def smoke_test(journey: Journey, on_check: Callable[[SmokeCheck], None], cancel: threading.Event) -> Journey:
    """The live tool-call test and, unless it failed, the speed. Raises Cancelled when ``cancel`` is set.

    Of GPUs in this machine that can be stuck at low power the test is the load that shows it.
    """
    server, over = need(journey.server), threading.Event()
    with ThreadPoolExecutor(max_workers=1) as pool:
        began = time.monotonic()
        local = journey.machine if journey.started_here else None
        watched = pool.submit(watch_load, local, cancel=over) if local is not None else None
        try:
            report = run_smoke(server, api_key=key_of(journey.answers), on_check=on_check, cancel=cancel)
            report = msgspec.structs.replace(report, speed=_speed(journey, report, cancel))
        finally:
            over.set()
        power = watched.result() if watched is not None else None
    if cancel.is_set():
        raise Cancelled(_("The smoke test was stopped."))
    if power is not None and power.status != "skip":
        seen = _as_smoke_check(power, 1000 * (time.monotonic() - began))
        on_check(seen)
        report = msgspec.structs.replace(report, checks=(*report.checks, seen))
    return msgspec.structs.replace(journey, smoke=report)


def _speed(journey: Journey, report: SmokeReport, cancel: threading.Event) -> Speed:
    """How fast the server answers, beside how fast it could; not measured where the test failed."""
    if report.verdict == "fail":
        return Speed(note=_("Not measured: the smoke test failed."))
    answers = journey.answers
    people = answers.budget.concurrency
    try:
        reading = measure_speed(
            report.server, api_key=key_of(answers), streams=people if people > 1 else None, cancel=cancel
        )
    except GivenUpError:
        raise Cancelled(_("The smoke test was stopped.")) from None
    return judged(journey, reading)


def _as_smoke_check(check: Check, ms: float) -> SmokeCheck:
    return SmokeCheck(
        id=check.id,
        title=_("GPU power under load"),
        required=False,
        status="warn" if check.status == "warn" else "ok",
        detail=check.detail,
        hint=check.hint,
        ms=round(ms),
    )
