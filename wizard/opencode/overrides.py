"""What else opencode reads, and which of it would win over the file the wizard writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from wizard.errors import RefusedError
from wizard.i18n import _
from wizard.opencode.files import read_text
from wizard.opencode.jsonc import JsoncError, parse
from wizard.opencode.jsonc_edit import MISSING, get, same
from wizard.opencode.jsonc_edit import Path as KeyPath
from wizard.opencode.locate import GLOBAL_NAMES, PROJECT_NAMES, global_dir, home


class _Source(msgspec.Struct, frozen=True):
    """A place opencode takes configuration from: a file, or the text of a variable."""

    label: str
    path: Path | None = None
    text: str | None = None


def overrides(
    target: str | Path,
    wanted: Mapping[KeyPath, object],
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> tuple[str, ...]:
    """Sentences about the sources that change what ``target`` sets for an opencode started in ``cwd``.

    ``wanted`` maps the keys that matter to the values they must have, ``MISSING`` for a key that must not be
    there. A key that must be missing counts from every source, because opencode merges them all; every other
    one only from sources opencode reads after the target. Values are never quoted.
    """
    variables = dict(os.environ if environ is None else environ)
    sources = _sources(variables, _start(cwd, variables))
    position = _position(sources, Path(target))
    if position is None:
        position = len(GLOBAL_NAMES)
        sources.insert(position, _Source(str(target), path=Path(target)))
    found = []
    provider = next((keys[1] for keys in wanted if keys[0] == "provider" and len(keys) > 1), "")
    for number, source in enumerate(sources):
        if number == position:
            continue
        document = _read(source)
        if isinstance(document, str):
            found.append(document)
            continue
        later = number > position
        keys = [
            ".".join(keys)
            for keys, value in wanted.items()
            if (later or value is MISSING) and _differs(document, keys, value)
        ]
        keys += _blocks(document, provider) if later else []
        if keys:
            found.append(
                _("{source} sets {keys}, and opencode uses that instead.").format(
                    source=source.label, keys=", ".join(keys)
                )
            )
    return tuple(found)


def is_read(target: str | Path, *, environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> bool:
    """Whether an opencode started in ``cwd`` reads this file without being told to."""
    variables = dict(os.environ if environ is None else environ)
    return _position(_sources(variables, _start(cwd, variables)), Path(target)) is not None


def managed_dir() -> Path:
    """Where an administrator puts settings that win over every user's."""
    if sys.platform == "darwin":
        return Path("/Library/Application Support/opencode")
    if sys.platform == "win32":
        return Path(os.environ.get("PROGRAMDATA", r"C:\ProgramData")) / "opencode"
    return Path("/etc/opencode")


def _start(cwd: Path | None, variables: Mapping[str, str]) -> Path:
    """Where opencode will be started: the folder given, else this one, which may have been deleted."""
    try:
        return (cwd or Path.cwd()).absolute()
    except FileNotFoundError:
        return home(variables)


def _sources(variables: Mapping[str, str], cwd: Path) -> list[_Source]:
    """Everything opencode reads on this machine, in its order: the later wins (opencode 1.18)."""
    files = [global_dir(variables) / name for name in GLOBAL_NAMES]
    sources = [_Source(str(path), path=path) for path in files]
    if variables.get("OPENCODE_CONFIG"):
        path = cwd / variables["OPENCODE_CONFIG"]
        sources.append(_Source(_("{path} (named by OPENCODE_CONFIG)").format(path=path), path=path))
    folders = [] if variables.get("OPENCODE_DISABLE_PROJECT_CONFIG") else _project_folders(cwd)
    places = [*folders, *(folder / ".opencode" for folder in folders), home(variables) / ".opencode"]
    sources += [_Source(str(place / name), path=place / name) for place in places for name in PROJECT_NAMES]
    if variables.get("OPENCODE_CONFIG_DIR"):
        folder = cwd / variables["OPENCODE_CONFIG_DIR"]
        label = _("{path} (named by OPENCODE_CONFIG_DIR)")
        sources += [_Source(label.format(path=folder / name), path=folder / name) for name in PROJECT_NAMES]
    if variables.get("OPENCODE_CONFIG_CONTENT"):
        label = _("The variable OPENCODE_CONFIG_CONTENT")
        sources.append(_Source(label, text=variables["OPENCODE_CONFIG_CONTENT"]))
    managed = [managed_dir() / name for name in PROJECT_NAMES]
    sources += [_Source(_("{path} (managed)").format(path=path), path=path) for path in managed]
    if variables.get("OPENCODE_PERMISSION"):
        text = f'{{"permission": {variables["OPENCODE_PERMISSION"]}}}'
        sources.append(_Source(_("The variable OPENCODE_PERMISSION"), text=text))
    return sources


def _project_folders(cwd: Path) -> list[Path]:
    """The folders whose project files count, outermost first: from the root of the repository down."""
    folders = [cwd, *cwd.parents]
    for number, folder in enumerate(folders):
        if (folder / ".git").exists():
            return folders[number::-1]
    return folders[::-1]


def _position(sources: list[_Source], target: Path) -> int | None:
    """Where the target stands among the sources; the last place counts when it is read twice."""
    places = [
        number for number, source in enumerate(sources) if source.path and _is_same(source.path, target)
    ]
    return places[-1] if places else None


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names lead to the same file, which need not exist."""
    return os.path.realpath(one) == os.path.realpath(other)


def _read(source: _Source) -> Mapping[str, object] | str:
    """What a source sets, or a sentence about why it cannot be read."""
    try:
        text = source.text if source.path is None else read_text(source.path)
        document = {} if not text else parse(text)
    except (JsoncError, RefusedError) as error:
        return _("{source} cannot be read: {reason}").format(source=source.label, reason=error.message)
    return document if isinstance(document, dict) else {}


def _differs(document: Mapping[str, object], keys: KeyPath, value: object) -> bool:
    """Whether a document gives a key another value than ours, or puts something else in its way."""
    for depth in range(1, len(keys)):
        above = get(document, keys[:depth])
        if above is MISSING:
            return False
        if not isinstance(above, dict):
            return True
    theirs = get(document, keys)
    if theirs is MISSING:
        return False
    return value is MISSING or not same(theirs, value)


def _blocks(document: Mapping[str, object], provider: str) -> list[str]:
    """Lists that keep opencode from loading our provider."""
    enabled, disabled = document.get("enabled_providers"), document.get("disabled_providers")
    blocking = []
    if isinstance(enabled, list) and provider not in enabled:
        blocking.append("enabled_providers")
    if isinstance(disabled, list) and provider in disabled:
        blocking.append("disabled_providers")
    return blocking
