"""Nothing leaves the house: settings, a program that starts opencode with the rest off, what stays open.

Not everything can be switched off by a setting. Variables have to be set where opencode is started, so a
small program sets them; and a package that opencode installs unasked is kept away by a lock file naming it.
"""

from __future__ import annotations

import ipaddress
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from wizard.catalog import opencode_facts
from wizard.errors import RefusedError
from wizard.i18n import _
from wizard.opencode.files import read_bytes
from wizard.opencode.jsonc_edit import MISSING, get
from wizard.opencode.locate import global_dir, home, remote_configurations
from wizard.opencode.types import SideFile, Target
from wizard.opencode.versions import before
from wizard.text import inert

WEB_TOOLS = ("webfetch", "websearch")
_HOUSE_SUFFIXES = (".local", ".lan", ".home", ".internal", ".home.arpa", ".localdomain")
_MARK = "made by vllm-opencode"
FOLDER_MARK = ".vllm-opencode"
"""The one file in a folder that was made for it."""


def private_settings(
    document: Mapping[str, object], provider: str, model: str, version: str | None
) -> dict[str, object]:
    """Sharing and self-update off, the list of providers closed, and no model of one that is shut out."""
    allowed = [name for name in _providers(document) if is_in_house(document, name)]
    settings: dict[str, object] = {
        "share": "disabled",
        "autoupdate": False,
        "enabled_providers": list(dict.fromkeys([*allowed, provider])),
    }
    for key in ("model", "small_model"):
        chosen = document.get(key)
        if isinstance(chosen, str) and chosen.partition("/")[0] not in (*allowed, provider):
            settings[key] = model
    if "small_model" not in document and before(version, opencode_facts().title_leaks_before):
        settings["small_model"] = model
    return settings


def closed_providers(document: Mapping[str, object], provider: str) -> tuple[str, ...]:
    """Providers of the user that are switched off because their server is, or may be, elsewhere."""
    return tuple(
        name for name in _providers(document) if name != provider and not is_in_house(document, name)
    )


def is_in_house(document: Mapping[str, object], provider: str) -> bool:
    """Whether the server of a provider has an address of this machine or of a private network."""
    url = get(document, ("provider", provider, "options", "baseURL"))
    url = get(document, ("provider", provider, "api")) if url is MISSING else url
    try:
        host = (urlsplit(url).hostname or "") if isinstance(url, str) else ""
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(_HOUSE_SUFFIXES))


def side_files(
    target: Target, version: str | None, environ: Mapping[str, str] | None = None
) -> tuple[SideFile, ...]:
    """What is written beside the configuration: the program to start, the lock files; what is there stays."""
    wanted = [_starter(environ)]
    for folder in _settings_folders(target, environ):
        wanted += _locked(folder, version)
    return tuple(made for file in wanted if (made := _missing(file)) is not None)


def starter(environ: Mapping[str, str] | None = None) -> Path | None:
    """The program that starts opencode with everything switched off; None: another one has its place."""
    path = _starter_path(environ)
    try:
        there = read_bytes(path)
    except RefusedError:
        return None
    return path if (there is None and not os.path.lexists(path)) or _is_ours(there) else None


def _starter_path(environ: Mapping[str, str] | None) -> Path:
    if sys.platform == "win32":
        return global_dir(environ) / "opencode-private.cmd"
    return home(environ) / ".local" / "bin" / "opencode-private"


def contacts(
    document: Mapping[str, object],
    provider: str,
    target: Target,
    version: str | None,
    environ: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Whom an opencode with this configuration may still contact, as sentences; the server itself first."""
    url = get(document, ("provider", provider, "options", "baseURL"))
    others = [name for name in _providers(document) if name != provider and is_in_house(document, name)]
    found = [_("opencode talks to {url}, your server.").format(url=inert(str(url)))]
    found += [
        _("It may use {provider}, whose address is in this house, too.").format(provider=inert(name))
        for name in others
    ]
    found += [
        _("{url}: settings of an organisation, at every start. Log out with: opencode auth logout").format(
            url=inert(url)
        )
        for url in remote_configurations(environ)
    ]
    found += _by_variable(starter(environ))
    found += _without_switch(target, version, environ)
    found += _asked_for(document)
    found.append(_("Commands the model runs with its tool bash reach whatever you reach."))
    return tuple(found)


def _by_variable(program: Path | None) -> Iterator[str]:
    """What only a variable stops, which has to be set where opencode is started."""
    for contact in opencode_facts().contact:
        if not contact.env or contact.settings:
            continue
        if program is None:
            variables = " ".join(f"{name}={value}" for name, value in contact.env.items())
            yield _("{host}: {what}. Not when opencode is started with {variables}").format(
                host=contact.host, what=_(contact.what), variables=variables
            )
        else:
            yield _("{host}: {what}. Not when opencode is started as {command}").format(
                host=contact.host, what=_(contact.what), command=program
            )


def _without_switch(target: Target, version: str | None, environ: Mapping[str, str] | None) -> Iterator[str]:
    """What no setting and no variable stops."""
    for contact in opencode_facts().contact:
        if contact.package is not None:
            for folder in _settings_folders(target, environ):
                if not _can_lock(folder, contact.package):
                    yield _("{host}: {what}; nothing keeps it from {folder}.").format(
                        host=contact.host, what=_(contact.what), folder=folder
                    )
        elif contact.without and before(version, contact.until or "0"):
            yield _("{host}: {what}. {advice}").format(
                host=contact.host, what=_(contact.what), advice=_(contact.without)
            )


def _asked_for(document: Mapping[str, object]) -> Iterator[str]:
    """What the user's own settings contact."""
    servers = document.get("mcp")
    for name, server in servers.items() if isinstance(servers, Mapping) else ():
        address = get(server, ("url",))
        if isinstance(address, str) and get(server, ("enabled",)) is not False:
            host = inert(urlsplit(address).hostname or "")
            yield _("{host}: your MCP server {name}.").format(host=host, name=inert(name))
    if document.get("plugin"):
        yield _("The npm registry: your plugins, where they are not installed yet; they may contact anybody.")
    agents = document.get("agent")
    for name in agents if isinstance(agents, Mapping) else ():
        own = get(agents, (name, "permission"))
        allowed = [tool for tool in WEB_TOOLS if get(own, (tool,)) not in (MISSING, "deny")]
        if allowed or (isinstance(own, str) and own != "deny"):
            yield _("Your agent {name} has rules of its own: it may fetch pages.").format(name=inert(name))


def _providers(document: Mapping[str, object]) -> list[str]:
    configured = document.get("provider")
    return list(configured) if isinstance(configured, Mapping) else []


def _settings_folders(target: Target, environ: Mapping[str, str] | None) -> list[Path]:
    """Folders into which opencode installs its package: of all projects, and of the target's project."""
    folders = [global_dir(environ), home(environ) / ".opencode"]
    if target.scope == "project":
        folder = Path(target.path).absolute().parent
        folders.append(folder if folder.name == ".opencode" else folder / ".opencode")
    return [folder for number, folder in enumerate(folders) if number == 0 or folder.is_dir()]


def _starter(environ: Mapping[str, str] | None) -> SideFile:
    return starter_at(_starter_path(environ), windows=sys.platform == "win32")


def starter_at(path: Path, *, windows: bool) -> SideFile:
    """The program that starts opencode with everything switched off, for one kind of system."""
    variables: dict[str, str] = {}
    for contact in opencode_facts().contact:
        variables |= contact.env
    if windows:
        lines = ["@echo off", f"rem {_MARK}: opencode that contacts nobody but the configured servers"]
        lines += [f"set {name}={value}" for name, value in variables.items()]
        text = "\r\n".join([*lines, "opencode %*", ""])
    else:
        lines = ["#!/bin/sh", f"# {_MARK}: opencode that contacts nobody but the configured servers"]
        lines += [f"export {name}={value}" for name, value in variables.items()]
        lines.append('PATH="$PATH:$HOME/.local/bin:$HOME/.opencode/bin"')
        text = "\n".join([*lines, 'exec opencode "$@"', ""])
    return SideFile(
        path=str(path),
        purpose=_("starts opencode with everything off that no setting switches off"),
        data=text.encode(),
        mode=0o755,
    )


def _locked(folder: Path, version: str | None) -> Iterator[SideFile]:
    """A lock file that names what opencode would install, and the folder it looks for beside it.

    Only where opencode has installed nothing yet.
    """
    package = next(entry.package for entry in opencode_facts().contact if entry.package is not None)
    if not _can_lock(folder, package) or (folder / "node_modules" / package).exists():
        return
    wanted = {"name": "opencode", "lockfileVersion": 3, "requires": True}
    lock = wanted | {"packages": {"": {"dependencies": {package: version or opencode_facts().newest}}}}
    purpose = _("keeps opencode from installing {package}").format(package=package)
    yield SideFile(
        path=str(folder / "package-lock.json"),
        purpose=purpose,
        data=(json.dumps(lock, indent=2) + "\n").encode(),
        mode=0o644,
    )
    yield SideFile(
        path=str(folder / "node_modules" / FOLDER_MARK),
        purpose=purpose,
        data=f"This folder was {_MARK}: with it, opencode installs nothing here.\n".encode(),
        mode=0o644,
    )


def _can_lock(folder: Path, package: str) -> bool:
    """Whether nothing gets installed: the package is there already, or a lock file may be laid."""
    if (folder / "node_modules" / package).exists():
        return True
    try:
        lock = read_bytes(folder / "package-lock.json")
        named = {} if lock is None else get(json.loads(lock), ("packages", "", "dependencies"))
    except (RefusedError, ValueError):
        return False
    return lock is None or (isinstance(named, Mapping) and package in named)


def _missing(file: SideFile) -> SideFile | None:
    """The file, if it has to be written: not when it is there, nor over somebody else's."""
    try:
        now = read_bytes(Path(file.path))
    except RefusedError:
        return None
    if now is None:
        return None if os.path.lexists(file.path) else file
    if not _is_ours(now) or now == file.data:
        return None
    return msgspec.structs.replace(file, before=now)


def _is_ours(data: bytes | None) -> bool:
    return data is not None and _MARK.encode() in data
