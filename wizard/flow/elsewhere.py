"""The server as other machines reach it."""

from __future__ import annotations

import contextlib
import socket
from urllib.parse import urlsplit

import msgspec

from wizard.errors import RefusedError, ServerError
from wizard.http import is_loopback
from wizard.i18n import _
from wizard.serve import Server, probe_server

_SOMEWHERE = ("192.0.2.1", 9)
"""An address reserved for documents (RFC 5737): asking for the way there sends nothing."""


def reachable_from_elsewhere(server: Server, key: str | None) -> Server:
    """The server under an address other machines can use, tried from here.

    Raises RefusedError when it only answers this machine, or when this machine has no address in a network.
    """
    if not is_loopback(server.base_url):
        return server
    address = network_address()
    if address is None:
        raise RefusedError(
            _("This machine has no address in a network."),
            _("Name the address others use: --base-url http://NAME:8000/v1"),
        )
    url = f"http://{address}:{urlsplit(server.base_url).port or 80}/v1"
    try:
        there = probe_server(url, model=server.model, api_key=key)
    except ServerError as error:
        raise RefusedError(
            _("vLLM does not answer at {url}, where others would look for it.").format(url=url),
            _("Start it with --host 0.0.0.0 and a key (--api-key-file), and open the port in the firewall."),
        ) from error
    return msgspec.structs.replace(server, base_url=there.base_url)


def network_address() -> str | None:
    """This machine's address on its way into the network, or None."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect(_SOMEWHERE)
        address: str = way.getsockname()[0]
        return None if address.startswith("127.") else address
    return None
