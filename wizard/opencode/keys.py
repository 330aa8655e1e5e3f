"""How the server's key is named in the configuration. The key itself is never read and never written."""

from __future__ import annotations

import re
from pathlib import Path

from wizard.errors import RefusedError, UsageError
from wizard.i18n import _
from wizard.text import inert

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPEN_TO_OTHERS = 0o077


def is_variable(text: str) -> bool:
    """Whether a text can be the name of an environment variable."""
    return _VARIABLE.fullmatch(text) is not None


def key_reference(file: str | None, variable: str | None) -> str | None:
    """``{file:…}`` or ``{env:…}``; None: no key is needed, or the one in the file stays.

    A path goes into the text as it is, so one with characters that would end the reference is refused.
    Raises UsageError, and never repeats what was given for a variable: it might be the key.
    """
    if file and variable:
        raise UsageError(_("The key comes from a file or from a variable, not from both."))
    if variable:
        if not is_variable(variable):
            raise UsageError(
                _("What was given for the key is not the name of a variable."),
                _("Give the name of the variable that holds the key, not the key itself."),
            )
        return f"{{env:{variable}}}"
    if not file:
        return None
    path = file if file.startswith("~/") else Path(file).absolute().as_posix()
    if re.search(r'[}"\\]', path) or path != inert(path).strip() or "\n" in path:
        raise UsageError(
            _("opencode cannot read a key from {path}.").format(path=inert(path)),
            _("Use a path without quotes, braces and backslashes."),
        )
    return f"{{file:{path}}}"


def check_key_file(file: str | None, home: Path) -> tuple[str, ...]:
    """Warnings about the file of a key. Raises RefusedError when it is missing: opencode would not start."""
    if not file:
        return ()
    path = home / file[2:] if file.startswith("~/") else Path(file)
    try:
        found, mode = path.is_file(), path.stat().st_mode if path.exists() else 0
    except OSError:
        found, mode = False, 0
    if not found:
        raise RefusedError(
            _("There is no key file {path}; opencode would refuse to start.").format(path=path),
            _("Write the key into it first, readable for you only (chmod 600)."),
        )
    if mode & _OPEN_TO_OTHERS:
        return (_("Others can read the key: chmod 600 {path}").format(path=path),)
    return ()
