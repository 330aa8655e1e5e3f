"""A polite end: signals that ask a command to stop are handled as Ctrl-C is."""

from __future__ import annotations

import signal
from types import FrameType


def like_interrupt(*, hangup: bool) -> None:
    """Make SIGTERM, and with ``hangup`` also a lost terminal, interrupt the command as Ctrl-C does.

    Without it a lost terminal ends the wizard alone: a detached server is meant to live on then.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    if hangup and hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
