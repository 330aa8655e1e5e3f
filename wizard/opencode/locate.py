"""Which configuration file to edit: the one opencode reads last among those that hold the user's settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from wizard import paths
from wizard.errors import RefusedError, UsageError
from wizard.i18n import _
from wizard.opencode.files import nearest_existing, read_text
from wizard.opencode.jsonc import JsoncError, parse
from wizard.opencode.jsonc_edit import MISSING, get
from wizard.opencode.types import Scope, Target

GLOBAL_NAMES = ("config.json", "opencode.json", "opencode.jsonc")
"""Files of the global folder; opencode lays the later ones over the earlier ones."""

PROJECT_NAMES = ("opencode.json", "opencode.jsonc")


class Caller(msgspec.Struct, frozen=True):
    """The person who called sudo."""

    home: Path
    uid: int
    gid: int


def sudo_caller(environ: Mapping[str, str] | None = None) -> Caller | None:
    """Who called sudo, or None when the wizard was not run through it."""
    variables = os.environ if environ is None else environ
    uid = variables.get("SUDO_UID", "")
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not uid.isdecimal() or int(uid) == 0:
        return None
    import pwd

    try:
        account = pwd.getpwuid(int(uid))
    except KeyError:
        return None
    return Caller(Path(account.pw_dir), account.pw_uid, account.pw_gid)


def home(environ: Mapping[str, str] | None = None) -> Path:
    """The home folder opencode will have when the user starts it."""
    variables = os.environ if environ is None else environ
    caller = sudo_caller(variables)
    if caller is not None:
        return caller.home
    return Path(variables["HOME"]) if variables.get("HOME") else paths.home()


def global_dir(environ: Mapping[str, str] | None = None) -> Path:
    """opencode's global folder: XDG on every system. Under sudo root's own setting does not count."""
    variables = os.environ if environ is None else environ
    configured = variables.get("XDG_CONFIG_HOME")
    base = Path(configured) if configured else home(variables) / ".config"
    if sudo_caller(variables) is not None and not base.is_relative_to(home(variables)):
        base = home(variables) / ".config"
    return base / "opencode"


def remote_configurations(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Addresses of organisations opencode is logged in at: it fetches their settings at every start.

    They are read before all files, so what a file sets wins over them (opencode 1.18). Only names are read.
    """
    variables = os.environ if environ is None else environ
    configured = variables.get("XDG_DATA_HOME")
    base = Path(configured) if configured else home(variables) / ".local" / "share"
    try:
        logins = parse(read_text(base / "opencode" / "auth.json") or "{}")
    except (JsoncError, RefusedError):
        return ()
    entries = logins.items() if isinstance(logins, dict) else ()
    return tuple(str(url) for url, login in entries if get(login, ("type",)) == "wellknown")


def target_file(
    *,
    path: str | Path | None = None,
    project: str | Path | None = None,
    provider: str = "vllm",
    environ: Mapping[str, str] | None = None,
) -> Target:
    """The file to edit: ``path`` as it is, else the best one of a project folder, else of the global folder.

    Best is the highest ranked file that holds our provider already, else the highest ranked one with any
    provider or model, else the highest ranked one that exists; without any, a new ``opencode.json``. So a
    second file that another one outranks is never made. Raises UsageError for a project folder that does not
    exist and for a folder given as a file, RefusedError for a file that cannot be read.
    """
    if path is not None:
        return _target(_expanded(path, environ), "path", environ)
    if project is not None:
        folder = _expanded(project, environ)
        if not folder.is_dir():
            raise UsageError(_("There is no project folder {path}.").format(path=folder))
        inner = folder / ".opencode"
        ranked = [*(inner / name for name in reversed(PROJECT_NAMES))]
        ranked += [folder / name for name in reversed(PROJECT_NAMES)]
        return _target(_best(ranked, provider) or folder / "opencode.json", "project", environ)
    folder = global_dir(environ)
    ranked = [folder / name for name in reversed(GLOBAL_NAMES)]
    return _target(_best(ranked, provider) or folder / "opencode.json", "global", environ)


def start_folder(scope: Scope, path: str) -> Path | None:
    """Where opencode is started to read a project's file: in that project; None: anywhere."""
    if scope != "project":
        return None
    folder = Path(path).absolute().parent
    return folder.parent if folder.name == ".opencode" else folder


def globals_wanted(choice: str, target: Target) -> bool:
    """Whether to set root keys for an answer of ``yes``, ``no`` or ``ask``.

    ``ask`` without anybody to ask: yes in a file that holds no choice of the user yet, else no.
    """
    return choice == "yes" or (choice == "ask" and target.fresh)


def _target(path: Path, scope: Scope, environ: Mapping[str, str] | None) -> Target:
    if path.is_dir():
        raise UsageError(
            _("{path} is a folder, not a configuration file.").format(path=path),
            _("Name the file, for example {path}.").format(path=path / "opencode.json"),
        )
    if scope == "path" and path.absolute().parent == global_dir(environ).absolute():
        scope = "global" if path.name in GLOBAL_NAMES else "path"
    text = read_text(path)
    return Target(
        path=str(path),
        scope=scope,
        exists=text is not None,
        fresh=text is None or _is_fresh(text),
        owner=_owner(path, scope, environ),
    )


def _owner(path: Path, scope: Scope, environ: Mapping[str, str] | None) -> tuple[int, int] | None:
    """The caller of sudo, save for a file named outright that does not lie among the caller's own."""
    caller = sudo_caller(environ)
    if caller is None:
        return None
    if scope == "path" and nearest_existing(Path(os.path.realpath(path))).stat().st_uid != caller.uid:
        return None
    return caller.uid, caller.gid


def _best(ranked: list[Path], provider: str) -> Path | None:
    """The file to edit among some, highest ranked first; None: none of them exists."""
    existing = [path for path in ranked if path.is_file()]
    documents = {path: _document(path) for path in existing}
    for wanted in ([("provider", provider)], [("provider",), ("model",)]):
        for path in existing:
            if any(get(documents[path], keys) is not MISSING for keys in wanted):
                return path
    return existing[0] if existing else None


def _document(path: Path) -> object:
    """What a candidate holds. One that cannot be parsed is left for the edit to refuse, with its place."""
    try:
        text = read_text(path)
        return {} if text is None else parse(text)
    except (JsoncError, RefusedError):
        return {}


def _is_fresh(text: str) -> bool:
    if not text.strip("\ufeff \t\r\n"):
        return True
    try:
        document = parse(text)
    except JsoncError:
        return False
    return isinstance(document, dict) and document.keys() <= {"$schema"}


def _expanded(path: str | Path, environ: Mapping[str, str] | None) -> Path:
    """``~/`` is the home of the person the file is written for."""
    text = str(path)
    return home(environ) / text[2:] if text.startswith("~/") else Path(text)
