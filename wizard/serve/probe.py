"""Asks a running server who it is: names, window and version, whoever started it."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec

from wizard.errors import KeyRefusedError, NotVllmError, ServerError, UnknownNameError, UsageError
from wizard.http import TooLateError, bounded, client, is_distrust, is_loopback, server_root
from wizard.i18n import _
from wizard.serve.types import Server
from wizard.text import one_line

if TYPE_CHECKING:
    import httpx

_BODY_LIMIT = 4 << 20
_EXAMPLE = "http://127.0.0.1:8000/v1"
_HEALTH_S = 2.0

_Shape = TypeVar("_Shape")


class _Entry(msgspec.Struct):
    id: str
    owned_by: str = ""
    parent: str | None = None
    """The model an adapter belongs to; an adapter has no window of its own."""
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: tuple[_Entry, ...]


class _Version(msgspec.Struct):
    version: str
    rehearsal: bool = False
    """The stand-in says so."""


class _Reply(msgspec.Struct):
    status: int
    kind: str
    location: str
    body: bytes


def probe_server(
    base_url: str, *, model: str | None = None, api_key: str | None = None, deadline_s: float = 10.0
) -> Server:
    """The vLLM at an address, given with or without ``/v1``; ``model`` must be one of its served names.

    Without ``model`` the first served name is in use. Takes ``deadline_s`` seconds at most. Raises UsageError
    for an address that is none, UnknownNameError for a name that is not served, ServerError for a server that
    refuses, hides behind a key, or is no vLLM.
    """
    url = normal_url(base_url)

    def ask() -> tuple[tuple[_Entry, ...], _Version | None]:
        with client(server_root(url), api_key, deadline_s) as http:
            models = _models(_get(http, url, "/v1/models"), url, api_key)
            return models, _version(http, url)

    try:
        models, answer = bounded(ask, time.monotonic() + deadline_s)
    except TooLateError:
        raise _too_late(url) from None
    if answer is None and all(entry.owned_by != "vllm" for entry in models):
        raise NotVllmError(
            _("{url} serves models, but it is no vLLM.").format(url=url),
            _("Give the address of a vLLM; other servers cannot be checked."),
        )
    names = tuple(one_line(entry.id, 200) for entry in models)
    if model is not None and model not in names:
        raise UnknownNameError(_("served model name"), model, names)
    used = next(entry for entry, name in zip(models, names, strict=True) if model in (None, name))
    if used.id not in names:
        raise ServerError(
            _("{url} serves a model whose name holds characters that cannot be seen: {name}.").format(
                url=url, name=one_line(used.id, 80)
            ),
            _("Start vLLM with another --served-model-name."),
        )
    windows = {entry.id: entry.max_model_len for entry in models}
    return Server(
        base_url=url,
        served_names=names,
        model=model or names[0],
        max_model_len=used.max_model_len or windows.get(used.parent or ""),
        version=one_line(answer.version, 60) if answer else None,
        started_by="rehearsal" if answer and answer.rehearsal else "somebody else",
    )


def answers_health(base_url: str) -> bool:
    """Whether ``/health`` at this address answers 200. It says nothing about whose server that is."""
    import httpx

    try:
        with client(server_root(base_url), timeout_s=_HEALTH_S) as http:
            return http.get("/health").status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def normal_url(address: str) -> str:
    """The OpenAI base URL meant by an address: ``http``, a host, ``/v1`` at the end.

    The wildcard address becomes loopback: servers bind it, clients cannot go there. Raises UsageError.
    """
    text = one_line(address, 300)
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        _port = parts.port
    except ValueError:
        valid = False
    if not valid or "@" in parts.netloc or parts.query or parts.fragment or " " in text:
        raise UsageError(
            _("{address} is no address of a server.").format(address=_without_secrets(text)),
            _("Write it like {example}.").format(example=_EXAMPLE),
        )
    path = parts.path.rstrip("/")
    if not path.endswith("/v1"):
        path += "/v1"
    place = parts.netloc.replace("0.0.0.0", "127.0.0.1", 1) if parts.hostname == "0.0.0.0" else parts.netloc  # noqa: S104 - replaced, not bound
    return urlunsplit((parts.scheme, place, path, "", ""))


def _without_secrets(address: str) -> str:
    """An address for an error: what may be a password or a key in it is left out."""
    return re.sub(r"//[^/@]*@", "//…@", address).partition("?")[0].partition("#")[0] or '""'


def _get(http: httpx.Client, url: str, path: str) -> _Reply:
    """One answer. Raises ServerError when none comes."""
    import httpx

    try:
        with http.stream("GET", path) as response:
            body = b""
            for piece in response.iter_bytes():
                body += piece
                if len(body) > _BODY_LIMIT:
                    raise ServerError(_("{url} does not come to an end with its answer.").format(url=url))
            headers = response.headers
            return _Reply(
                status=response.status_code,
                kind=headers.get("content-type", ""),
                location=headers.get("location", ""),
                body=body,
            )
    except httpx.ConnectError as error:
        if is_distrust(error):
            raise ServerError(
                _("Nobody this machine knows vouches for the certificate of {url}.").format(url=url),
                _(
                    "If it is yours, name its authority, or the certificate itself: export "
                    "SSL_CERT_FILE=FILE for this program, and NODE_EXTRA_CA_CERTS=FILE for opencode."
                ),
            ) from error
        raise ServerError(
            _("Nothing answers at {url}: {reason}.").format(url=url, reason=one_line(str(error), 120)),
            _("Is vLLM running, and is this its address and port? It listens only once it is ready.")
            if is_loopback(url)
            else _(
                "Is vLLM up there, started with --host 0.0.0.0, and does the firewall let the port through?"
            ),
        ) from error
    except httpx.TimeoutException as error:
        raise _too_late(url) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ServerError(
            _("{url} does not speak HTTP as expected: {reason}.").format(
                url=url, reason=one_line(str(error), 120)
            ),
            _("Check address and port, and http against https."),
        ) from error


def _too_late(url: str) -> ServerError:
    return ServerError(
        _("{url} did not answer in time.").format(url=url),
        _("A vLLM that is up answers at once: check address, firewall and proxy."),
    )


def _models(reply: _Reply, url: str, api_key: str | None) -> tuple[_Entry, ...]:
    _refuse(reply, url, api_key)
    models = _decoded(reply, _Models)
    if models is None:
        raise ServerError(
            _('{url} answers, but not as an OpenAI API: "{answer}".').format(
                url=url, answer=one_line(reply.body[:200].decode("utf-8", errors="replace"), 100)
            ),
            _("Give the address that vLLM serves, such as {example}.").format(example=_EXAMPLE),
        )
    if not models.data:
        raise ServerError(_("{url} serves no model.").format(url=url))
    return models.data


def _refuse(reply: _Reply, url: str, api_key: str | None) -> None:
    if reply.status in (401, 403):
        if api_key is None:
            raise KeyRefusedError(
                _("{url} asks for an API key.").format(url=url),
                _("Name the file that holds it (--api-key-file), or the variable (--api-key-env)."),
            )
        raise KeyRefusedError(
            _("{url} refuses this API key.").format(url=url), _("Use the key vLLM was started with.")
        )
    if 300 <= reply.status < 400:
        raise ServerError(
            _("{url} redirects to {target}.").format(url=url, target=one_line(reply.location, 200)),
            _("Give that address, if it is yours: a key is never sent on."),
        )
    if "html" in reply.kind:
        raise ServerError(
            _("{url} answers with a web page, not as an OpenAI API.").format(url=url),
            _("Check address and port: something else is served there."),
        )
    if reply.status >= 500:
        raise ServerError(
            _("{url} answers with error {status}.").format(url=url, status=reply.status),
            _("Look into the log of vLLM: its engine may have died, or it is still starting."),
        )
    if reply.status != 200:
        raise ServerError(
            _("{url} has no list of models (answer {status}).").format(url=url, status=reply.status),
            _("Give the address that vLLM serves, such as {example}.").format(example=_EXAMPLE),
        )


def _version(http: httpx.Client, url: str) -> _Version | None:
    """What vLLM says about itself; None when the way to the server lets only ``/v1`` through."""
    try:
        reply = _get(http, url, "/version")
    except ServerError:
        return None
    return _decoded(reply, _Version) if reply.status == 200 else None


def _decoded(reply: _Reply, shape: type[_Shape]) -> _Shape | None:
    try:
        return msgspec.json.decode(reply.body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
