"""A server, read from the systemd unit that starts it: of the system, of a user, or from a unit file."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from wizard import paths
from wizard.adopt.assemble import Found, make_adopted, runtime_of
from wizard.adopt.process import server_of
from wizard.adopt.script import ScriptCall, call_in, expanded, text_of, unread_of
from wizard.adopt.types import Adopted
from wizard.child import run_child
from wizard.errors import RefusedError, UsageError, WizardError
from wizard.i18n import _
from wizard.plan import AdoptedFrom
from wizard.text import one_line

_DEADLINE_S = 10.0
_FOLDERS = (("~/.config/systemd/user", True), ("/etc/systemd/user", True), ("/etc/systemd/system", False))
_DROP_IN = "vllm-opencode.conf"
_PREFIXES = "@-:+!|"
"""What may stand before the program in ``ExecStart`` and says how it is run."""


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """What a unit says about its service."""

    words: tuple[str, ...]
    env: Mapping[str, str]
    folder: str = ""
    open: tuple[str, ...] = ()
    """Words with variables that the unit does not set."""
    unread: tuple[str, ...] = ()


class _Named(msgspec.Struct, frozen=True, kw_only=True):
    """A unit by its name, its text with all drop-ins, and who keeps it."""

    name: str
    text: str
    user: bool
    pid: int = 0


def adopt_unit(name: str, *, of_process: int | None = None) -> Adopted:
    """The server of a unit, or of a unit file named by its path.

    With ``of_process`` the unit must be the one that started this process. Raises UsageError when there is no
    such unit, RefusedError when it starts no vLLM.
    """
    unit = _from_file(Path(name)) if "/" in name else _from_systemd(name)
    if of_process is not None and not (unit.pid and _is_of(of_process, unit.pid)):
        raise RefusedError(_("{unit} did not start process {pid}.").format(unit=unit.name, pid=of_process))
    said = read_unit(unit.text, name=unit.name, user=unit.user)
    found = call_in(said.words, said.env) or _running(unit)
    if found is None:
        raise RefusedError(
            _("{unit} starts no vLLM in a way that can be read.").format(unit=unit.name),
            _("Start it, and name its process or its log instead: pid:N, log:F."),
        )
    folder = paths.expanded("~/.config/systemd/user") if unit.user else Path("/etc/systemd/system")
    unknown = (*said.open, *found.open)
    origin = AdoptedFrom(
        kind="unit",
        name=unit.name,
        file=str(folder / f"{unit.name}.d" / _DROP_IN),
        manager=("systemctl", "--user") if unit.user else ("systemctl",),
        folder=said.folder,
        open=unknown,
        unread=(*said.unread, *unread_of(unknown)),
    )
    env = {**said.env, **found.env}
    kind, path, version = runtime_of(found.call.command, env)
    return make_adopted(Found(call=found.call, origin=origin, env=env, kind=kind, path=path, version=version))


def units_of_vllm() -> tuple[tuple[str, bool], ...]:
    """Unit files of this host that start vLLM: name, and whether it is one of this user."""
    found: dict[str, bool] = {}
    for folder, user in _FOLDERS:
        try:
            files = sorted(paths.expanded(folder).glob("*.service"))
        except OSError:
            continue
        for file in files:
            with contextlib.suppress(WizardError):
                text = text_of(file)
                said = read_unit(text, name=file.name, user=user) if "vllm" in text else None
                if said is not None and call_in(said.words, said.env) is not None:
                    found.setdefault(file.name, user)
    return tuple(found.items())


def read_unit(text: str, *, name: str = "", user: bool = True) -> Unit:
    """The command and the variables in the text of a unit and its drop-ins, in their order."""
    words: tuple[str, ...] = ()
    env: dict[str, str] = {}
    unread: list[str] = []
    folder = ""
    for key, value in _settings(text):
        value = _specified(value, name, user)
        if key == "Environment":
            env |= _assignments(value) if value else {}
            env = env if value else {}
        elif key == "EnvironmentFile" and value:
            env |= _from_environment_file(value, unread)
        elif key == "ExecStart":
            words = () if not value else words or _command(value)
        elif key == "WorkingDirectory":
            folder = value.lstrip("-")
    filled = [expanded(word, env) for word in words]
    return Unit(
        words=tuple(word.replace("$$", "$") for word in filled),
        env=env,
        folder=folder,
        open=tuple(word for word in filled if "$" in word.replace("$$", "")),
        unread=tuple(unread),
    )


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """The settings of the section ``[Service]``; a line that ends with a backslash goes on."""
    section, held = "", ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith(("#", ";")):
            continue
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        line, held = held + line, ""
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line:
            key, _equals, value = line.partition("=")
            yield key.strip(), value.strip()


def _command(value: str) -> tuple[str, ...]:
    return tuple(_split(value.lstrip(_PREFIXES)))


def _split(value: str) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError:
        return value.split()


def _assignments(value: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in _split(value))
    return {name: text for name, equals, text in pairs if equals}


def _from_environment_file(value: str, unread: list[str]) -> dict[str, str]:
    """The variables of such a file; a dash before its name says that it may be missing."""
    path = Path(value.lstrip("-"))
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        if not (value.startswith("-") and isinstance(error, FileNotFoundError)):
            sentence = _("The variables in {path} could not be read: {reason}.")
            unread.append(sentence.format(path=path, reason=error.strerror))
        return {}
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith(("#", ";")):
            name, _equals, rest = line.strip().partition("=")
            found[name.strip()] = " ".join(_split(rest))
    return found


def _specified(value: str, name: str, user: bool) -> str:
    """A value with systemd's specifiers for what can be told from here put in."""
    stem = name.removesuffix(".service")
    known = {"%n": name, "%N": stem, "%p": stem.partition("@")[0], "%i": stem.partition("@")[2]}
    if user:
        known["%h"] = str(paths.home())
    parts = value.split("%%")
    for specifier, text in known.items():
        parts = [part.replace(specifier, text) for part in parts]
    return "%".join(parts)


def _from_file(path: Path) -> _Named:
    path = paths.expanded(path)
    user = path.is_relative_to(paths.home()) or "user" in path.parts
    return _Named(name=path.name, text=text_of(path), user=user)


def _from_systemd(name: str) -> _Named:
    """The unit as systemd knows it: the system's, else this user's."""
    full = name if "." in name else f"{name}.service"
    reason = ""
    for options in ((), ("--user",)):
        asked = ("systemctl", *options, "show", "--property=LoadState,MainPID", "--", full)
        answer = run_child(asked, os.environ, _DEADLINE_S)
        told = dict(line.split("=", 1) for line in answer.output.splitlines() if "=" in line)
        if told.get("LoadState") != "loaded":
            reason = reason or answer.cut_short or one_line(answer.errors, 120)
            continue
        text = run_child(("systemctl", *options, "cat", "--", full), os.environ, _DEADLINE_S)
        if text.code == 0:
            pid = told.get("MainPID", "")
            return _Named(
                name=full, text=text.output, user=bool(options), pid=int(pid) if pid.isdecimal() else 0
            )
        reason = reason or one_line(text.errors, 120)
    raise UsageError(
        _("systemd knows no unit {name}. {reason}").format(name=full, reason=reason).strip(),
        _("List them with: systemctl list-units --type=service (and with --user)."),
    )


def _running(unit: _Named) -> ScriptCall | None:
    """The server the unit runs now, where its own words do not show it."""
    if not unit.pid:
        return None
    try:
        _process, call = server_of(unit.pid)
    except WizardError:
        return None
    return ScriptCall(call=call, env={})


def _is_of(pid: int, main: int) -> bool:
    """Whether a process is the unit's own or was started by it."""
    import psutil

    try:
        return pid == main or main in [parent.pid for parent in psutil.Process(pid).parents()]
    except psutil.Error:
        return False
