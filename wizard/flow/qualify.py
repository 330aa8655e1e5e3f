"""Step Smoke: real requests against the running server, and a look at the GPUs while these keep them busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from wizard.flow.journey import Cancelled, Journey, need
from wizard.flow.serving import key_of
from wizard.i18n import _
from wizard.machine import Check, watch_load
from wizard.smoke import SmokeCheck, run_smoke


def smoke_test(journey: Journey, on_check: Callable[[SmokeCheck], None], cancel: threading.Event) -> Journey:
    """The live tool-call test. Raises Cancelled when ``cancel`` is set meanwhile.

    Of GPUs in this machine that can be stuck at low power the test is the load that shows it.
    """
    server, over = need(journey.server), threading.Event()
    with ThreadPoolExecutor(max_workers=1) as pool:
        began = time.monotonic()
        local = journey.machine if journey.started_here else None
        watched = pool.submit(watch_load, local, cancel=over) if local is not None else None
        try:
            report = run_smoke(server, api_key=key_of(journey.answers), on_check=on_check, cancel=cancel)
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
