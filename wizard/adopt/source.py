"""Where a server is read from, as a person names it: ``pid:N``, ``container:N``, ``unit:N``, ``log:F``, …"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from wizard import paths
from wizard.adopt.compose import adopt_compose
from wizard.adopt.container import adopt_container, container_publishing
from wizard.adopt.log import adopt_log
from wizard.adopt.process import adopt_process, keeper_of, listener_on
from wizard.adopt.script import adopt_script
from wizard.adopt.types import Adopted
from wizard.adopt.unit import adopt_unit
from wizard.errors import UnknownNameError, UsageError, WizardError
from wizard.i18n import _

_EXAMPLE = "pid:1234, port:8000, container:vllm, unit:vllm.service, compose:compose.yaml, log:vllm.log"


def adopt(source: str, *, files_only: bool = False) -> Adopted:
    """The plan of the server that ``source`` names; nothing is changed and no secret is taken along.

    ``files_only``: on a recorded machine nothing of this host is asked. Takes some seconds at most. Raises
    UsageError for a source that is none or is not there, RefusedError for one that holds no vLLM.
    """
    kind, separator, name = source.partition(":")
    if not separator or not name:
        raise UsageError(
            _("{source} does not name a server.").format(source=source),
            _("Write it like one of these: {examples}.").format(examples=_EXAMPLE),
        )
    if kind not in (*_OF_THIS_HOST, *_FILES):
        raise UnknownNameError(_("kind of source"), kind, (*_OF_THIS_HOST, *_FILES))
    if kind in _FILES:
        return _FILES[kind](name)
    if files_only:
        raise UsageError(
            _("{source} is of this host, and a recorded machine was named.").format(source=source),
            _("Leave --simulate away."),
        )
    return _OF_THIS_HOST[kind](name)


def _process(name: str) -> Adopted:
    """The server of a process; what keeps it (a container, a unit) is where it has to be changed."""
    adopted = adopt_process(_number(name, _("process")))
    server = int(adopted.adopted_from.name)
    kind, keeper = keeper_of(server)
    with contextlib.suppress(WizardError):
        if kind == "container":
            return adopt_container(keeper)
        if kind == "unit":
            return adopt_unit(keeper, of_process=server)
    return adopted


def _port(name: str) -> Adopted:
    """The server that listens on a port of this host, in a container or not."""
    port = _number(name, _("port"))
    container = container_publishing(port)
    if container is not None:
        return adopt_container(container)
    pid = listener_on(port)
    if pid is None:
        raise UsageError(
            _("No process that can be seen listens on port {port}.").format(port=port),
            _("Name the process, container or unit itself: {examples}.").format(examples=_EXAMPLE),
        )
    return _process(str(pid))


def _compose(name: str) -> Adopted:
    path, separator, service = name.rpartition(":")
    if not separator or paths.expanded(name).exists():
        path, service = name, ""
    return adopt_compose(paths.expanded(path), service)


def _number(name: str, what: str) -> int:
    if not (name.isascii() and name.isdecimal()):
        raise UsageError(
            _("{name} is no number of a {what}.").format(name=name, what=what),
            _("Write it like one of these: {examples}.").format(examples=_EXAMPLE),
        )
    return int(name)


_OF_THIS_HOST: Mapping[str, Callable[[str], Adopted]] = {
    "pid": _process,
    "port": _port,
    "container": adopt_container,
    "unit": adopt_unit,
}
_FILES: Mapping[str, Callable[[str], Adopted]] = {
    "compose": _compose,
    "script": lambda name: adopt_script(paths.expanded(name)),
    "log": lambda name: adopt_log(paths.expanded(name)),
}
