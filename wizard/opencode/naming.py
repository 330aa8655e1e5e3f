"""The names in the configuration: the server's address, the provider's id, the model's key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from wizard.catalog import opencode_facts
from wizard.errors import RefusedError, UsageError
from wizard.http import is_loopback
from wizard.i18n import _
from wizard.opencode.jsonc_edit import MISSING, get
from wizard.text import inert

# opencode replaces these in the raw text, wherever they stand: no name from a server may smuggle one in.
_SUBSTITUTION = re.compile(r"\{(?:env|file):")
_PROVIDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def base_url(url: str) -> str:
    """The address as opencode needs it: no slash at the end, and with the ``/v1`` opencode does not add.

    Raises UsageError for anything that is no plain http address, and for one with a password in it.
    """
    try:
        parts = urlsplit(url)
        _port = parts.port
    except ValueError as error:
        raise UsageError(_("The server's address has no valid port.")) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or _SUBSTITUTION.search(url):
        raise UsageError(
            _("The server's address cannot be used."),
            _("Write it like http://127.0.0.1:8000/v1"),
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            _("The server's address must not hold a user, a password or parameters."),
            _("Put the key into a file or a variable: --api-key-file or --api-key-env."),
        )
    path = parts.path.rstrip("/") or "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def check_model_name(name: str) -> None:
    """Raises RefusedError for a served name that cannot be written, or that opencode would change."""
    if not name.strip() or name != name.strip() or name != inert(name) or "\n" in name or "\t" in name:
        raise RefusedError(_("The served model name is empty or holds characters that cannot be seen."))
    if _SUBSTITUTION.search(name):
        raise RefusedError(
            _("opencode would replace a part of the served model name {name}.").format(name=name),
            _("Start vLLM with another --served-model-name."),
        )


def provider_id(wish: str, explicit: bool, document: Mapping[str, object], url: str) -> str:
    """Our id: the wished one, or a variation of it where the user has another server under that name.

    With ``explicit`` the user insists, and the block is taken over. Raises UsageError for an impossible id.
    """
    if not _PROVIDER.fullmatch(wish) or _is_reserved(wish):
        raise UsageError(
            _("{name} cannot be the name of the provider.").format(name=inert(wish)),
            _("opencode has its own rules for names that begin with: {prefixes}.").format(
                prefixes=", ".join(opencode_facts().reserved_provider_prefixes)
            ),
        )
    names = [wish, f"{wish}-local", *(f"{wish}-{number}" for number in range(2, 100))]
    if explicit:
        return wish
    blocks = get(document, ("provider",))
    held = {str(name): block for name, block in blocks.items()} if isinstance(blocks, Mapping) else {}
    same = [name for name, block in held.items() if _same_server(block, url)]
    ours = [name for name in names if name in same]
    if not ours and wish in held:
        # The server may have been given a name with --provider before; a second block would only confuse.
        ours = [name for name in same if _base_of(held[name]) is not MISSING and not _is_reserved(name)]
    free = [name for name in names if name not in held]
    return (ours or free or [wish])[0]


def _is_reserved(name: str) -> bool:
    return name.lower().startswith(opencode_facts().reserved_provider_prefixes)


def _same_server(block: object, url: str) -> bool:
    """Whether a provider block points to this server, or to none yet. Loopback has many names."""
    if not isinstance(block, Mapping):
        return False
    theirs = _base_of(block)
    if theirs is MISSING:
        return True
    return isinstance(theirs, str) and _server(theirs) == _server(url)


def _base_of(block: object) -> object:
    theirs = get(block, ("options", "baseURL"))
    return get(block, ("api",)) if theirs is MISSING else theirs


def _server(url: str) -> tuple[str, int | None] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    host = "localhost" if is_loopback(url) else (parts.hostname or "")
    return (host, port) if host else None


def model_key(name: str, models: Mapping[str, object]) -> str:
    """The served name, or an alias of it: opencode cuts a ``#`` off, and a leading ``/`` reads badly.

    An alias the user gave this model already is kept.
    """
    if "#" not in name and not name.startswith("/"):
        return name
    known = [key for key, entry in models.items() if get(entry, ("id",)) == name and "#" not in key]
    if known:
        return known[0]
    tail = name.rstrip("/").rpartition("/")[2]
    alias = re.sub(r"[^A-Za-z0-9._-]+", "-", tail).strip("-") or "model"
    candidates = [alias, *(f"{alias}-{number}" for number in range(2, 100))]
    return next((key for key in candidates if key not in models), alias)


def shown(name: str) -> str:
    """A display name that cannot be mistaken for a reference."""
    return _SUBSTITUTION.sub("(", inert(name)).strip()
