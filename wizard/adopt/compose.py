"""A server, read from the compose file that describes its container."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from wizard.adopt.assemble import Found, make_adopted
from wizard.adopt.container import in_container
from wizard.adopt.script import ScriptCall, call_in, expanded, text_of, unread_of
from wizard.adopt.types import Adopted
from wizard.catalog import runtime_facts
from wizard.errors import RefusedError, UnknownNameError
from wizard.i18n import _
from wizard.plan import AdoptedFrom
from wizard.runtime.containers import version_of
from wizard.text import is_secret_name, one_line

_MANAGER = ("docker", "compose")


def adopt_compose(path: Path, service: str = "") -> Adopted:
    """The server of a service of a compose file; without a name, of the only one that starts vLLM.

    Raises UsageError when the file cannot be read or has no such service, RefusedError when it starts no vLLM
    or more than one.
    """
    services = _services(path)
    if service and service not in services:
        raise UnknownNameError(_("service"), service, services)
    known = {**_dotenv(path.parent), **os.environ}
    wanted = {service: services[service]} if service else services
    calls = {name: call for name, entry in wanted.items() if (call := _call(entry, known, path)) is not None}
    if len(calls) != 1:
        names = ", ".join(one_line(name, 60) for name in calls)
        what = (_("{path} starts no vLLM.") if not calls else _("{path} starts several: {names}.")).format(
            path=path, names=names
        )
        raise RefusedError(what, _("Name the service: compose:FILE:SERVICE"))
    ((name, (found, env)),) = calls.items()
    path = path.absolute()
    options = (*_MANAGER, "-f", str(path), "run", "--rm", "--service-ports")
    secrets = tuple(f"--env={key}" for key in env if is_secret_name(key))
    inside = in_container(found, (*options, *secrets), name).call
    origin = AdoptedFrom(
        kind="compose", name=name, file=str(path), manager=_MANAGER, unread=unread_of(found.open)
    )
    image = expanded(str(wanted[name].get("image", "")), known)
    return make_adopted(
        Found(
            call=inside,
            origin=origin,
            env=env,
            kind="container",
            path=image,
            version=version_of(image),
            published=_published(wanted[name], call_port(found), known),
        )
    )


def call_port(found: ScriptCall) -> str:
    """The port the server listens on inside of its container."""
    return next((option.value for option in found.call.options if option.flag == "--port"), None) or "8000"


def _services(path: Path) -> Mapping[str, Mapping[str, object]]:
    import yaml  # type: ignore[import-untyped]

    try:
        document = yaml.safe_load(text_of(path))
    except (yaml.YAMLError, RecursionError) as error:
        raise RefusedError(
            _("{path} is not valid YAML: {reason}.").format(path=path, reason=one_line(str(error), 160))
        ) from error
    services = document.get("services") if isinstance(document, dict) else None
    if not isinstance(services, dict):
        raise RefusedError(_("{path} is no compose file: it has no services.").format(path=path))
    return {str(name): entry for name, entry in services.items() if isinstance(entry, dict)}


def _call(
    entry: Mapping[str, object], known: Mapping[str, str], path: Path
) -> tuple[ScriptCall, dict[str, str]] | None:
    """The call of vLLM of a service, and its variables; None for a service of another kind."""
    entrypoint, command = _words(entry.get("entrypoint"), known), _words(entry.get("command"), known)
    image = expanded(str(entry.get("image", "")), known).rpartition(":")[0]
    found = call_in((*entrypoint, *command), {})
    if found is None and not entrypoint and any(each.repository in image for each in runtime_facts().image):
        found = call_in((*runtime_facts().container.entrypoint, *command), {})
    if found is None:
        return None
    env: dict[str, str] = {}
    for file in _list(entry.get("env_file")):
        env |= _variables(path.parent / expanded(str(file), known))
    return found, env | _environment(entry.get("environment"), known)


def _words(value: object, known: Mapping[str, str]) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            words = shlex.split(value, comments=True)
        except ValueError:
            words = value.split()
    else:
        words = [str(word) for word in _list(value)]
    return tuple(expanded(word, known).replace("$$", "$") for word in words)


def _list(value: object) -> Iterable[object]:
    if isinstance(value, list):
        return value
    return () if value is None or isinstance(value, dict) else (value,)


def _environment(value: object, known: Mapping[str, str]) -> dict[str, str]:
    """Variables of a service; one without a value is the caller's own."""
    if isinstance(value, dict):
        pairs = [
            (str(name), "" if text is None else str(text), text is not None) for name, text in value.items()
        ]
    else:
        split = [str(entry).partition("=") for entry in _list(value)]
        pairs = [(name, text, bool(equals)) for name, equals, text in split]
    return {
        name: expanded(text, known) if given else known.get(name, "")
        for name, text, given in pairs
        if given or name in known
    }


def _dotenv(folder: Path) -> dict[str, str]:
    return _variables(folder / ".env")


def _variables(path: Path) -> dict[str, str]:
    """The variables of a file of such; none where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    lines = (line.strip().removeprefix("export ") for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {name.strip(): value.strip().strip("'\"") for name, equals, value in pairs if equals}


def _published(entry: Mapping[str, object], port: str, known: Mapping[str, str]) -> tuple[str, int] | None:
    """Where the server is reached from outside; None when that is its own address."""
    for published in _list(entry.get("ports")):
        if isinstance(published, dict):
            words = [
                str(published.get("host_ip", "")),
                str(published.get("published", "")),
                str(published.get("target")),
            ]
        else:
            words = expanded(str(published), known).removesuffix("/tcp").split(":")
        if words[-1] == port and len(words) > 1 and words[-2].isdecimal():
            return (words[-3] if len(words) > 2 and words[-3] else "0.0.0.0"), int(words[-2])  # noqa: S104
    return None
