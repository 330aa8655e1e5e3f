"""A server somebody else started, read back."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

import msgspec

from wizard.i18n import _
from wizard.plan import AdoptedFrom, LaunchPlan


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """The plan that starts the same server, and where it was read; the plan carries its origin as well."""

    plan: LaunchPlan
    adopted_from: AdoptedFrom

    @property
    def unread(self) -> tuple[str, ...]:
        """Sentences about what could not be read."""
        return self.adopted_from.unread


def require_file(path: Path) -> None:
    """Raise OSError for anything but a regular file: a pipe would keep the reader waiting for ever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, _("it is no regular file"))
