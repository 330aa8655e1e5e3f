"""One tree of errors. A message says what is wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from wizard.i18n import _


class WizardError(Exception):
    """Base of everything the wizard raises on purpose.

    ``message`` is one translated sentence; ``hint`` says what to do, or is empty. ``exit_code`` is what the
    command line returns for it (see the contract: 1 something is wrong, 2 the call is wrong, 3 unknown).
    """

    exit_code = 3

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        # A message that ends with somebody else's words may lack its full stop.
        stop = "" if self.message.endswith((".", "!", "?", ":", "…")) else "."
        return f"{self.message}{stop} {self.hint}".strip()


class UsageError(WizardError):
    """The call itself is wrong: a bad option, a missing file, unreadable answers, no terminal."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name that is not in a known set; offers the nearest ones."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        choices = sorted(known)
        super().__init__(
            _("Unknown {what}: {name}.").format(what=what, name=name),
            nearest_hint(name, choices),
        )


class RefusedError(WizardError):
    """Done as asked, and the answer is no: a plan that cannot work, a file that must not be touched."""

    exit_code = 1


class UnknownParserError(RefusedError):
    """A model can be served, but nobody knows which parser reads its tool calls: it must be named."""


class CorruptDataError(UsageError):
    """A file of ours or of the user cannot be read: names the file, the place in it and the reason."""


class LaunchError(WizardError):
    """vLLM did not come up. ``evidence`` holds the last error block of its log, oldest line first."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "", evidence: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.evidence = evidence


class FetchError(WizardError):
    """Weights could not be brought to the disk; what came of them is kept."""

    exit_code = 1


class InstallError(WizardError):
    """A step of an installation did not do its work. ``evidence`` holds the last lines it wrote."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "", evidence: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.evidence = evidence


class ServerError(WizardError):
    """A running server did not answer, or answered something that cannot be used."""

    exit_code = 1


class NotVllmError(ServerError):
    """A server answers, and it is another program."""


class KeyRefusedError(ServerError):
    """A server wants a key, or another one than it was given."""


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Up to three known names that resemble ``name``, ignoring case, best first."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)
    return tuple(by_lower[match] for match in matches)


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """A sentence that offers the nearest known names, or lists a short set, or is empty."""
    choices = tuple(known)
    found = nearest(name, choices)
    if found:
        return _("Did you mean {names}?").format(names=", ".join(found))
    if 0 < len(choices) <= 12:
        return _("Known: {names}.").format(names=", ".join(choices))
    return ""
