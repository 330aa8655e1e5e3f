"""What is mounted where: the kind of file system a path lies on, and how it is mounted."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

_ESCAPE = re.compile(r"\\([0-7]{3})")
"""How the kernel writes white space and backslashes in paths."""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the kernel's table."""

    place: str
    kind: str
    options: tuple[str, ...]


def mount_of(path: Path, root: Path = Path("/")) -> Mount | None:
    """The mount on which ``path`` lies once its links are followed; None where the table cannot be read."""
    try:
        table = (root / "proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    real, best = Path(os.path.realpath(path)), None
    for line in table.splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        place = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[1])
        # Of two on the same place the later one lies on top.
        if real.is_relative_to(place) and len(place) >= len(best.place if best else ""):
            best = Mount(place=place, kind=fields[2], options=tuple(fields[3].split(",")))
    return best
