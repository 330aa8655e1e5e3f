"""Is the port free? Asked before a start: while vLLM fails on a taken one, the other server answers."""

from __future__ import annotations

import errno
import socket

from wizard.adopt.process import listener_on
from wizard.errors import LaunchError, UsageError
from wizard.i18n import _
from wizard.text import one_line

_LAST = 65535
_LOOKED_AT = 100
"""Ports looked at for a free one."""


def require_free_port(host: str, port: int) -> None:
    """Do nothing when a server could bind ``host`` and ``port`` now.

    Raises LaunchError naming the process that has the port, as far as the system tells; UsageError for a host
    that is no address of this machine, or a port that needs more rights.
    """
    try:
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise _no_address(host) from error
    for family, kind, protocol, _name, address in addresses:
        with socket.socket(family, kind, protocol) as probe:
            # As vLLM does: a port that only waits for old connections to fade counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                raise _refusal(host, port, error) from error


def next_free_port(host: str, after: int) -> int | None:
    """The first free port above ``after`` for a server at ``host``; None when none of the next hundred is."""
    for port in range(after + 1, min(after + _LOOKED_AT, _LAST) + 1):
        try:
            require_free_port(host, port)
        except LaunchError:
            continue
        except UsageError:
            return None
        return port
    return None


def _refusal(host: str, port: int, error: OSError) -> LaunchError | UsageError:
    if error.errno == errno.EADDRINUSE:
        owner = port_owner(port)
        taken = (
            _("Port {port} is taken by {owner}.").format(port=port, owner=owner)
            if owner
            else _("Port {port} is taken by another process.").format(port=port)
        )
        return LaunchError(taken, _("Stop that process, or choose another port."))
    if error.errno == errno.EACCES:
        return UsageError(
            _("Port {port} needs more rights than this user has.").format(port=port),
            _("Choose a port from 1024 on."),
        )
    return _no_address(host)


def _no_address(host: str) -> UsageError:
    return UsageError(
        _("{host} is no address of this machine.").format(host=one_line(host, 80)),
        _("Use 127.0.0.1 to serve this machine only, or 0.0.0.0 for every network."),
    )


def port_owner(port: int) -> str:
    """Name and number of the process that listens on a TCP port; empty when the system does not tell.

    Only the name: a command line may hold a key.
    """
    pid = listener_on(port)
    return "" if pid is None else named(pid)


def named(pid: int) -> str:
    """Name and number of a process; empty when it is gone."""
    import psutil

    try:
        return f"{one_line(psutil.Process(pid).name(), 40)} ({pid})"
    except psutil.Error:
        return ""
