"""The installed opencode: where it is, its version, and what it makes of the configuration."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from wizard.errors import UsageError
from wizard.http import is_loopback
from wizard.i18n import _
from wizard.opencode.jsonc_edit import MISSING, get, same
from wizard.opencode.jsonc_edit import Path as KeyPath
from wizard.opencode.locate import home
from wizard.text import one_line

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
    code, output = run_quietly([binary, "--version"], environ=environ, deadline_s=deadline_s)
    found = _VERSION.search(output) if code == 0 else None
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
    code, output = run_quietly(command, environ=environ, cwd=cwd, deadline_s=deadline_s)
    if code != 0:
        return None
    try:
        document = json.loads(output)
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
    """The models of a provider as opencode lists them (``provider/key``), empty when it knows none."""
    command = [binary, "models", provider]
    code, output = run_quietly(command, environ=environ, cwd=cwd, deadline_s=deadline_s)
    lines = [one_line(line) for line in output.splitlines()] if code == 0 else []
    return tuple(line for line in lines if line.startswith(f"{provider}/"))


def unconfirmed(wanted: Mapping[KeyPath, object], merged: Mapping[str, object]) -> tuple[str, ...]:
    """The keys that came out of opencode's merging with another value than we set.

    References to keys are left out: opencode fills them in and covers the result.
    """
    return tuple(
        ".".join(path)
        for path, value in wanted.items()
        if path[-1] != "apiKey" and not _as_wanted(get(merged, path), value)
    )


def client_environ(base_url: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for an opencode that talks to this server: no proxy stands between it and loopback."""
    variables = dict(os.environ if environ is None else environ) | _QUIET
    if is_loopback(base_url):
        direct = dict.fromkeys([urlsplit(base_url).hostname or "", "127.0.0.1", "localhost"])
        for name in ("NO_PROXY", "no_proxy"):
            named = [part for part in variables.get(name, "").split(",") if part]
            variables[name] = ",".join([*named, *(host for host in direct if host not in named)])
    return variables


def run_quietly(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    deadline_s: float,
) -> tuple[int | None, str]:
    """Exit code and standard output of a short command; the code is None when it did not end in time.

    The output goes through a file: opencode ends before a pipe is emptied, and the rest would be lost.
    """
    variables = dict(os.environ if environ is None else environ) | _QUIET
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                env=variables,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError:
            return None, ""
        try:
            code = process.wait(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_group(process)
        output.seek(0)
        return code, output.read().decode("utf-8", errors="replace")


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of a process and its children, and reap it."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


def _as_wanted(found: object, value: object) -> bool:
    return found is MISSING if value is MISSING else same(found, value)
