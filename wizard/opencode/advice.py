"""What is still open with a configuration: sentences for the person who will use it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from wizard.catalog import opencode_facts, vllm_facts
from wizard.i18n import _
from wizard.opencode.jsonc_edit import MISSING, get
from wizard.opencode.private import closed_providers
from wizard.opencode.types import ConfigRequest
from wizard.opencode.versions import before, major
from wizard.text import inert


def advice(
    request: ConfigRequest, document: Mapping[str, object], provider: str, limit: Mapping[str, int]
) -> tuple[str, ...]:
    """Everything to tell about a request and the file it goes into, in no particular order."""
    found = [warning.text for warning in request.limits.warnings if not warning.refuses]
    found += _about_versions(request)
    found += _about_name(request)
    if not request.globals:
        found += _left_out(request, document, provider)
    if major(request.opencode_version) >= 2 and "input" not in limit:
        found.append(
            _("opencode 2 keeps {tokens} tokens free on its own, unless compaction.reserved is set.").format(
                tokens=opencode_facts().reserved_default
            )
        )
    if request.denied_tools:
        found.append(
            _("opencode does without {tools}, with every provider: the window is too small for them.").format(
                tools=", ".join(request.denied_tools)
            )
        )
    if request.private and (closed := closed_providers(document, provider)):
        found.append(
            _("These providers are switched off, for their servers are not in this house: {names}").format(
                names=", ".join(inert(name) for name in closed)
            )
        )
    return tuple(found)


def proxy_advice(url: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """A word where opencode would send its requests to this server through a proxy."""
    # Loads Python's whole HTTP client: nothing for the start of the wizard.
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # not in its stubs

    proxies = {
        name.lower().removesuffix("_proxy"): value
        for name, value in sorted(environ.items())
        if name.lower().endswith("_proxy") and value
    }
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in proxies or proxy_bypass_environment(host, proxies):
        return ()
    return (
        _("opencode would reach {host} through the proxy of this environment: set NO_PROXY={value}").format(
            host=inert(host), value=",".join(filter(None, [inert(proxies.get("no", "")), inert(host)]))
        ),
    )


def certificate_advice(url: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """A word where the server's certificate is vouched for by a file that opencode does not look at."""
    file = environ.get("SSL_CERT_FILE")
    if not file or environ.get("NODE_EXTRA_CA_CERTS") or urlsplit(url).scheme != "https":
        return ()
    return (
        _("opencode knows no certificates of SSL_CERT_FILE: start it with NODE_EXTRA_CA_CERTS={file}").format(
            file=inert(file)
        ),
    )


def unknown_key_advice(keys: tuple[str, ...], version: str | None) -> tuple[str, ...]:
    """Keys of the user at which an older opencode does not even start; newer ones pass over them."""
    last = opencode_facts().unknown_keys_refused_until
    if not keys or version is None or before(last, version):
        return ()
    return (
        _("opencode {version} does not start with a key it does not know. Take out: {keys}").format(
            version=version, keys=", ".join(keys)
        ),
    )


def _about_versions(request: ConfigRequest) -> list[str]:
    """Programs older than anything the wizard has figures for."""
    floors = {
        "opencode": (request.opencode_version, opencode_facts().support_floor),
        "vLLM": (request.vllm_version, vllm_facts().support_floor),
    }
    return [
        _(
            "{program} {version} is older than {floor}, with which this wizard's knowledge begins: update it."
        ).format(program=program, version=version, floor=floor)
        for program, (version, floor) in floors.items()
        if before(version, floor)
    ]


def _about_name(request: ConfigRequest) -> list[str]:
    """A served name that hides whose model it is."""
    known, served = request.model_name.lower(), request.model_key.lower()
    word = next((word for word in opencode_facts().name_words if word in known and word not in served), None)
    if word is None:
        return []
    return [
        _(
            "opencode treats models with {word} in their served name in a way of their own: {name} hides it."
        ).format(word=word, name=request.model_key)
    ]


def _left_out(request: ConfigRequest, document: Mapping[str, object], provider: str) -> list[str]:
    """What the root keys would have cured, had the user agreed to them."""
    found = []
    enabled, disabled = document.get("enabled_providers"), document.get("disabled_providers")
    if isinstance(enabled, list) and provider not in enabled and not request.private:
        found.append(
            _("enabled_providers does not name {provider}: opencode ignores the block until it does.").format(
                provider=provider
            )
        )
    if isinstance(disabled, list) and provider in disabled:
        found.append(_("disabled_providers names {provider}: opencode ignores it.").format(provider=provider))
    if request.limits.tool_output is not None and get(document, ("tool_output", "max_bytes")) is MISSING:
        found.append(_("One long tool result can fill this window: the root key tool_output is not set."))
    leaks_before = opencode_facts().title_leaks_before
    if before(request.opencode_version, leaks_before) and "small_model" not in document:
        found.append(_("This opencode sends the first prompt to a hosted model, unless small_model is set."))
    return found
