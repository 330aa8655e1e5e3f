"""Figures as text: sizes, counts, times and gauges, with the letter of their origin."""

from __future__ import annotations

from wizard.catalog import Origin
from wizard.i18n import N_, _, language

_ORIGIN: dict[Origin, str] = {
    "measured": N_("m"),
    "computed": N_("c"),
    "table": N_("t"),
    "assumed": N_("a"),
}


def letter(origin: Origin | None) -> str:
    """A blank and the letter of an origin, or nothing for what the user asked for."""
    return f" {_(_ORIGIN[origin])}" if origin else ""


def legend() -> str:
    """What the letters beside figures mean."""
    return _("m measured · c computed · t from a table · a assumed")


def count(number: int | None) -> str:
    """A whole number with its thousands set off, or a dash."""
    if number is None:
        return "-"
    return f"{number:,}".replace(",", " " if language() == "fr" else ",")


def gib(value: float | None, digits: int = 1) -> str:
    """GiB without the unit, or a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


def percent(share: float | None) -> str:
    """A share as a whole number of hundredths, or nothing."""
    return "" if share is None else str(round(100 * share))


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def bar(share: float, width: int) -> str:
    """A gauge of plain characters."""
    filled = round(min(max(share, 0.0), 1.0) * width)
    return f"[{'#' * filled}{'.' * (width - filled)}]"


def context(tokens: int | None) -> str:
    """A window in units of 1024 tokens, as models are named: ``256k``; a dash where there is none."""
    if not tokens:
        return "-"
    return f"{tokens // 1024}k{letter('computed')}"
