"""Installs opencode with npm, for whoever agreed to it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

from wizard.catalog import opencode_facts
from wizard.child import run_child
from wizard.errors import InstallError, RefusedError
from wizard.i18n import _
from wizard.opencode.binary import find_opencode
from wizard.opencode.locate import home
from wizard.text import one_line

_DEADLINE_S = 900.0
_PREFIX_S = 20.0


def install_command(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """What installs opencode here: for all users where npm may write there, else in the home folder.

    Raises RefusedError where there is no npm.
    """
    variables = os.environ if environ is None else environ
    npm = shutil.which("npm", path=variables.get("PATH", os.defpath))
    if npm is None:
        raise RefusedError(
            _("opencode is installed with npm, and there is no npm here."),
            _("Install Node.js first, or see https://opencode.ai for other ways."),
        )
    asked = run_child([npm, "prefix", "--global"], variables, _PREFIX_S)
    prefix = Path(asked.output.strip()) if asked.code == 0 and asked.output.strip() else None
    command = (npm, "install", "--global", "--no-audit", "--no-fund", opencode_facts().npm_package)
    if prefix is not None and _may_write(prefix / "lib") and _may_write(prefix / "bin"):
        return command
    return (*command, "--prefix", str(home(variables) / ".local"))


def install_opencode(
    *, environ: Mapping[str, str] | None = None, cancel: threading.Event | None = None
) -> str:
    """Install opencode and return its path. It is some 200 MB.

    Raises RefusedError where there is no npm, InstallError with npm's last lines when it fails.
    """
    variables = dict(os.environ if environ is None else environ)
    command = install_command(variables)
    ended = run_child(command, variables, _DEADLINE_S, cancel)
    said = [one_line(line, 200) for line in (ended.output + ended.errors).splitlines() if line.strip()]
    if ended.code != 0:
        raise InstallError(
            _("npm did not install opencode: {reason}").format(
                reason=ended.cut_short or _("exit code {code}").format(code=ended.code)
            ),
            _("Try it in a terminal: {command}").format(command=" ".join(("npm", *command[1:]))),
            evidence=tuple(said[-6:]),
        )
    found = find_opencode(environ=variables) or shutil.which("opencode", path=str(_bin_of(command)))
    if found is None:
        raise InstallError(
            _("npm installed opencode, but its program is not on the PATH."),
            _("See where npm puts programs: npm prefix --global"),
            evidence=tuple(said[-6:]),
        )
    return found


def _bin_of(command: tuple[str, ...]) -> Path:
    """Where a program installed below a prefix of our own lies."""
    return Path(command[-1]) / "bin"


def _may_write(folder: Path) -> bool:
    """Whether files can be made in a folder, or in the one above it where it is missing."""
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    return existing.is_dir() and os.access(existing, os.W_OK)
