"""How far a download is, in one line that fits a terminal."""

from __future__ import annotations

from wizard.fetch.types import FetchProgress
from wizard.i18n import _

_GIB = 1 << 30
_MB = 1_000_000


def progress_words(event: FetchProgress) -> str:
    """Sizes in GiB, as everywhere; the pace in MB, as lines are sold."""
    share = 100 * event.done // max(1, event.total)
    words = _("{done:.2f} of {total:.2f} GiB, {share} %").format(
        done=event.done / _GIB, total=event.total / _GIB, share=share
    )
    if event.bytes_per_s is None:
        return words
    pace = _("{pace:.1f} MB/s").format(pace=event.bytes_per_s / _MB)
    return f"{words}, {pace}, {_left(event.seconds_left)}"


def _left(seconds: float | None) -> str:
    if seconds is None:
        return _("nothing comes at the moment")
    if seconds < 60:
        return _("{seconds:.0f} s left").format(seconds=seconds)
    minutes = round(seconds / 60)
    if minutes < 60:
        return _("{minutes} min left").format(minutes=minutes)
    return _("{hours} h {minutes:02} min left").format(hours=minutes // 60, minutes=minutes % 60)
