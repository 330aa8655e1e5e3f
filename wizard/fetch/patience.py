"""Asking again, with growing pauses, as long as there is hope."""

from __future__ import annotations

import time
from collections.abc import Callable

from wizard.catalog import fetch_facts
from wizard.fetch.trouble import GivenUpError, asked_to_wait_s, named, passes
from wizard.fetch.types import FetchFailed, FetchWaiting
from wizard.i18n import _

Emit = Callable[[FetchWaiting], None]


class Patience:
    """Counts from the last thing that went well; a server that asks for more time than is left gets none."""

    def __init__(self, emit: Emit, patience_s: float | None = None) -> None:
        self._emit = emit
        self._facts = fetch_facts().download
        self._patience_s = self._facts.patience_s if patience_s is None else patience_s
        self.renew()

    def renew(self) -> None:
        """Something went well."""
        self._since = time.monotonic()
        self._pause_s = self._facts.pause_s

    def wait(self, error: BaseException) -> None:
        """Wait before the next attempt. Raises ``error`` out of patience or when it does not pass.

        Raises GivenUpError when the server asks for more time than is left.
        """
        if not passes(error):
            raise error
        left = self._since + self._patience_s - time.monotonic()
        asked = asked_to_wait_s(error)
        pause = self._pause_s if asked is None else asked
        if asked is not None and asked > left:
            raise GivenUpError(
                FetchFailed(
                    message=_("The hub asks to be left alone for {minutes:.0f} minutes: {reason}.").format(
                        minutes=asked / 60, reason=named(error)
                    ),
                    hint=_(
                        "Run it again after that: it goes on from where it stopped. A token raises the limit."
                    ),
                )
            )
        if pause > left:
            raise error
        self._emit(FetchWaiting(text=named(error), seconds=pause))
        time.sleep(pause)
        self._pause_s = min(self._facts.longest_pause_s, 2 * self._pause_s)
