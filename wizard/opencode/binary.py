"""The installed opencode: where it is, its version, and what it makes of the configuration."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from wizard.child import Outcome, run_child
from wizard.errors import UsageError
from wizard.http import is_loopback
from wizard.i18n import _
from wizard.opencode.locate import home

_VERSION = re.compile(r"\d+\.\d+\.\d+[0-9A-Za-z.+-]*")
_QUIET = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
"""Nothing the wizard starts fetches anything or updates itself."""


def find_opencode(given: str | None = None, *, environ: Mapping[str, str] | None = None) -> str | None:
    """The program to run: the one named, else on PATH, else where its installer puts it; None: not installed.

    Raises UsageError when the named one is not there.
    """
    variables = os.environ if environ is None else environ
    if given:
        found = shutil.which(given, path=variables.get("PATH", os.defpath))
        if found is None:
            raise UsageError(
                _("There is no opencode at {path}.").format(path=given),
                _("Name the program, not its folder."),
            )
        return found
    found = shutil.which("opencode", path=variables.get("PATH", os.defpath))
    return found or shutil.which("opencode", path=str(home(variables) / ".opencode" / "bin"))


def opencode_version(
    binary: str, *, environ: Mapping[str, str] | None = None, deadline_s: float = 20.0
) -> str | None:
    """The version the program reports, or None when it does not within ``deadline_s`` seconds."""
    answer = _run([binary, "--version"], environ, deadline_s)
    found = _VERSION.search(answer.output) if answer.code == 0 else None
    return found.group() if found else None


def merged_config(
    binary: str,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    deadline_s: float = 30.0,
) -> Mapping[str, object] | None:
    """The configuration as opencode itself merges it in ``cwd``, keys covered; None: it refuses to start.

    What it prints then is thrown away: it quotes the file with every key filled in.
    """
    command = [binary, "debug", "config"]
    answer = _run(command, environ, deadline_s, cwd)
    if answer.code != 0:
        return None
    try:
        document = json.loads(answer.output)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def listed_models(
    binary: str,
    provider: str,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    deadline_s: float = 30.0,
) -> tuple[str, ...]:
    """The models of a provider that can be chosen in ``cwd``, as ``provider/key``; none where it fails."""
    answer = _run([binary, "models", provider], environ, deadline_s, cwd)
    return tuple(line.strip() for line in answer.output.splitlines()) if answer.code == 0 else ()


def client_environ(base_url: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for an opencode that talks to this server: no proxy stands between it and loopback."""
    variables = dict(os.environ if environ is None else environ) | _QUIET
    if is_loopback(base_url):
        direct = dict.fromkeys([urlsplit(base_url).hostname or "", "127.0.0.1", "localhost"])
        for name in ("NO_PROXY", "no_proxy"):
            named = [part for part in variables.get(name, "").split(",") if part]
            variables[name] = ",".join([*named, *(host for host in direct if host not in named)])
    return variables


def _run(
    command: Sequence[str], environ: Mapping[str, str] | None, deadline_s: float, cwd: Path | None = None
) -> Outcome:
    variables = dict(os.environ if environ is None else environ) | _QUIET
    return run_child(command, variables, deadline_s, cwd=cwd)
