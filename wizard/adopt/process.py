"""A running server, read from its process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from wizard.adopt.assemble import Found, make_adopted, of_its_own, runtime_of
from wizard.adopt.types import Adopted
from wizard.errors import RefusedError, UsageError
from wizard.i18n import _
from wizard.plan import AdoptedFrom
from wizard.plan.words import ServerCall, read_call
from wizard.text import one_line

if TYPE_CHECKING:
    import psutil

_Answer = TypeVar("_Answer")
_CONTAINER = re.compile(r"(?:docker|libpod|cri-containerd)[-/](?P<id>[0-9a-f]{64})")
_UNIT = re.compile(r"/(?P<unit>[^/]+\.service)(?:/|$)")


def adopt_process(pid: int) -> Adopted:
    """The server a process belongs to: itself, one of its parents (engine, worker) or of its children.

    Raises UsageError when there is no such process, RefusedError when it belongs to no vLLM or its command
    line cannot be read.
    """
    server, call = server_of(pid)
    unread: list[str] = []
    folder = _asked(server.cwd, server.pid, _("working folder"), unread) or ""
    env = _asked(server.environ, server.pid, _("environment"), unread) or {}
    kind, path, version = runtime_of(call.command, env)
    origin = AdoptedFrom(kind="pid", name=str(server.pid), folder=folder, unread=tuple(unread))
    return make_adopted(
        Found(call=call, origin=origin, env=of_its_own(env), kind=kind, path=path, version=version)
    )


def server_of(pid: int) -> tuple[psutil.Process, ServerCall]:
    """The process that was started as a vLLM server, and its call. Raises as ``adopt_process``."""
    import psutil

    try:
        process = psutil.Process(pid)
        name = one_line(process.name(), 40)
        family = [process, *process.parents(), *process.children(recursive=True)]
    except (psutil.NoSuchProcess, ValueError, OverflowError) as error:
        raise UsageError(
            _("There is no process {pid}.").format(pid=pid), _("Find it with: pgrep -af vllm")
        ) from error
    except psutil.Error as error:
        raise _unreadable(pid) from error
    if (found := _first_server(family)) is not None:
        return found
    raise RefusedError(
        _("Process {pid} ({name}) belongs to no vLLM server.").format(pid=pid, name=name),
        _("Find it with: pgrep -af vllm"),
    )


def listener_on(port: int) -> int | None:
    """The process that listens on a TCP port of this host; None where the system does not tell."""
    import psutil

    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return None
    listening = (
        connection.pid
        for connection in connections
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
    )
    return next((pid for pid in listening if pid), None)


def keeper_of(pid: int) -> tuple[str, str]:
    """What keeps a process: ``("container", ID)``, ``("unit", NAME)``, or two empty words. Linux only.

    A unit is a guess by the name of the group: services that only let people in have one, too.
    """
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", ""
    if match := _CONTAINER.search(groups):
        return "container", match["id"]
    units = [match["unit"] for match in _UNIT.finditer(groups) if not match["unit"].startswith("user@")]
    return ("unit", units[-1]) if units else ("", "")


def _first_server(family: Iterable[psutil.Process]) -> tuple[psutil.Process, ServerCall] | None:
    import psutil

    for process in family:
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        call = read_call(words)
        if call is not None:
            return process, call
    return None


def _asked(ask: Callable[[], _Answer], pid: int, what: str, unread: list[str]) -> _Answer | None:
    """An answer of the system about a process; None, and a sentence in ``unread``, where it gives none."""
    import psutil

    try:
        return ask()
    except (psutil.Error, OSError):
        text = _("The {what} of process {pid} cannot be read: it belongs to another user.")
        unread.append(text.format(what=what, pid=pid))
        return None


def _unreadable(pid: int) -> RefusedError:
    return RefusedError(
        _("Process {pid} cannot be looked at.").format(pid=pid), _("Call this as the user who started it.")
    )
