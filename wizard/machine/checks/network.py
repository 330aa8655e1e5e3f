"""Port, proxies, and the way to Hugging Face. Nothing here talks to another machine."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping

from wizard.i18n import _
from wizard.machine.checks.subject import Probe, Subject
from wizard.machine.types import Check
from wizard.text import one_line

_LOOPBACK = ("127.0.0.1", "localhost")


def port(subject: Subject) -> Check:
    """Whether a server could listen there, found by doing so for a moment."""
    port = subject.port
    command = f"ss -ltnp 'sport = :{port}'"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        if sys.platform != "win32":
            # As servers do: connections that are closing must not count. On Windows it would steal the port.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_LOOPBACK[0], port))
        except PermissionError:
            detail = _("This user may not listen on port {port}.").format(port=port)
            return Check(
                id="port", status="fail", detail=detail, hint=_("Choose a port above 1023."), command=command
            )
        except OSError:
            owner = _port_owner(port) or _("a program this user cannot see")
        else:
            return Check(
                id="port", status="ok", detail=_("Port {port} is free.").format(port=port), command=command
            )
    detail = _("Port {port} is taken by {owner}.").format(port=port, owner=owner)
    hint = _("Choose another port, or connect to what runs there if it is vLLM.")
    return Check(id="port", status="warn", detail=detail, hint=hint, command=command)


def _port_owner(port: int) -> str | None:
    """Name and process id of who listens on the port; None when the system does not tell this user."""
    import psutil

    try:
        for connection in psutil.net_connections(kind="tcp"):
            address = connection.laddr
            listens = connection.status == psutil.CONN_LISTEN and address and address.port == port
            if listens and connection.pid:
                return one_line(f"{psutil.Process(connection.pid).name()} ({connection.pid})")
    except (psutil.Error, OSError):
        return None
    return None


def proxy(subject: Subject) -> Check:
    """Whether programs that obey the proxy variables would send calls to this very machine to a proxy."""
    probe = subject.probe
    proxies = _proxies(probe)
    command = "env | grep -i proxy"
    if not ({"http", "all"} & set(proxies)):
        return Check(id="proxy", status="ok", detail=_("No proxy is set."), command=command)
    exempt = {entry.strip().lower() for entry in proxies.get("no", "").split(",")}
    if "*" in exempt or exempt.issuperset(_LOOPBACK):
        return Check(
            id="proxy",
            status="ok",
            detail=_("A proxy is set, and this machine is exempt from it."),
            command=command,
        )
    return Check(
        id="proxy",
        status="warn",
        detail=_("The proxy variables also catch calls to this very machine, such as opencode's to vLLM."),
        hint=_("Set NO_PROXY=localhost,127.0.0.1,::1 (and no_proxy likewise) where opencode is started."),
        command=command,
    )


def _proxies(probe: Probe) -> Mapping[str, str]:
    """The proxy variables by protocol; the lower-case spelling wins, as in curl and Python."""
    found = {}
    for name, value in sorted(probe.environ.items()):
        if name.lower().endswith("_proxy") and value:
            found[name.lower().removesuffix("_proxy")] = value
    return found


def hugging_face(subject: Subject) -> Check:
    """Whether there is a token, whose value is never read out, and which server is asked for models."""
    probe = subject.probe
    where = [_("Models come from {url}.").format(url=_endpoint(probe))]
    if probe.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        where.append(_("Offline: only what is on disk is used (HF_HUB_OFFLINE)."))
    home = probe.environ.get("HOME", "")
    cache = probe.environ.get("XDG_CACHE_HOME") or f"{home}/.cache"
    folder = probe.environ.get("HF_HOME") or f"{cache}/huggingface"
    file = os.path.expandvars(probe.environ.get("HF_TOKEN_PATH") or f"{folder}/token")
    file = f"{home}/{file[2:]}" if file.startswith("~/") else file
    command = "hf auth whoami"
    if probe.environ.get("HF_TOKEN") or probe.environ.get("HUGGING_FACE_HUB_TOKEN"):
        where.append(_("A token is set."))
    elif probe.exists(file.lstrip("/")):
        where.append(_("A token is stored."))
    else:
        where.append(_("No token: models whose licence must be accepted first cannot be downloaded."))
    return Check(id="hugging-face", status="ok", detail=" ".join(where), command=command)


def _endpoint(probe: Probe) -> str:
    """The address without a user name or password that may stand in it."""
    address = one_line(probe.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    scheme, separator, rest = address.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else address.rpartition("@")[2]
