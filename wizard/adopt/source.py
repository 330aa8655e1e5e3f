"""Where a server is read from, as a person names it: ``pid:N``, ``container:N``, ``unit:N``, ``log:F``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from wizard.adopt.log import adopt_log
from wizard.adopt.process import adopt_process
from wizard.adopt.types import Adopted
from wizard.errors import UnknownNameError, UsageError
from wizard.i18n import _

_EXAMPLE = "pid:1234, container:vllm, unit:vllm.service, log:vllm.log"


def adopt(source: str, *, files_only: bool = False, cancel: threading.Event | None = None) -> Adopted:
    """The plan of the server that ``source`` names; nothing is changed and no secret is taken along.

    ``files_only``: on a recorded machine nothing of this host is asked. Takes some seconds at most. Raises
    UsageError for a source that is none or is not there, RefusedError for one that holds no vLLM.
    """
    kind, separator, name = source.partition(":")
    reader = _READERS.get(kind)
    if not separator or not name:
        raise UsageError(
            _("{source} does not name a server.").format(source=source),
            _("Write it like one of these: {examples}.").format(examples=_EXAMPLE),
        )
    if reader is None:
        raise UnknownNameError(_("kind of source"), kind, _READERS)
    if files_only and kind in _OF_THIS_HOST:
        raise UsageError(
            _("{source} is of this host, and a recorded machine was named.").format(source=source),
            _("Leave --simulate away."),
        )
    return reader(name, cancel)


def _process(name: str, _cancel: threading.Event | None) -> Adopted:
    if not name.isdecimal():
        raise UsageError(
            _("{name} is no process number.").format(name=name), _("Find it with: pgrep -af vllm")
        )
    return adopt_process(int(name))


def _port(name: str, cancel: threading.Event | None) -> Adopted:
    import psutil

    port = int(name) if name.isdecimal() else 0
    try:
        listening = [
            connection.pid
            for connection in psutil.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
        ]
    except (psutil.Error, OSError):
        listening = []
    pid = next((pid for pid in listening if pid), None)
    if pid is None:
        raise UsageError(
            _("No process that can be seen listens on port {port}.").format(port=name),
            _("Name the process, container or unit itself: {examples}.").format(examples=_EXAMPLE),
        )
    return _process(str(pid), cancel)


def _log(name: str, _cancel: threading.Event | None) -> Adopted:
    return adopt_log(Path(name).expanduser())


_OF_THIS_HOST = ("pid", "port", "container", "unit")
_READERS: Mapping[str, Callable[[str, threading.Event | None], Adopted]] = {
    "pid": _process,
    "port": _port,
    "log": _log,
}
