"""What is right and wrong with opencode: the program, its configuration, and whether it fits the server."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from wizard.budget import output_cap, would_loop
from wizard.catalog import opencode_facts, reached
from wizard.errors import KeyRefusedError, NotVllmError, WizardError
from wizard.flow.serverchecks import Found
from wizard.i18n import _
from wizard.machine import Check
from wizard.opencode import (
    ConfiguredModel,
    find_opencode,
    opencode_version,
    overridden,
    resolved_key,
)
from wizard.opencode.versions import major
from wizard.serve import normal_url

_CONFIGURE = "vllm-opencode configure"
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_SECURE_PROXIES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")

_NEEDS_PACKAGE = 2
"""From this major version on opencode takes no package for granted."""
_CONNECT_S = 1.0

Ask = Callable[[str, str | None], Found]
"""Asks the server at an address with a key, once for each pair."""


def program_check(binary: str | None) -> tuple[str | None, Check]:
    """The version of opencode, and whether it can be used."""
    named = find_opencode(binary)
    if named is None:
        hint = _("Install it with: npm install -g opencode-ai")
        return None, Check(
            id="opencode", status="warn", detail=_("opencode is not installed here."), hint=hint
        )
    version = opencode_version(named)
    floor = opencode_facts().support_floor
    if version is not None and not reached(version, floor):
        detail = _("opencode {version} is too old: {floor} is the oldest one that is supported.")
        return version, Check(
            id="opencode",
            status="fail",
            detail=detail.format(version=version, floor=floor),
            hint=_("Bring it up to date with: opencode upgrade"),
        )
    detail = _("opencode {version} at {path}").format(version=version or "?", path=named)
    return version, Check(id="opencode", status="ok", detail=detail)


def configuration_checks(
    path: str,
    models: Sequence[ConfiguredModel],
    main: Found | None,
    ask: Ask,
    version: str | None,
    project: Path | None,
) -> Iterator[Check]:
    """The models in a file against the servers they point to, and what overrides them.

    ``main`` is the server of the set-up, ``version`` that of opencode, ``project`` where it is started.
    """
    if not models:
        yield Check(
            id="opencode-config",
            status="warn",
            detail=_("{path} names no server of your own.").format(path=path),
            hint=_("Write it with: {command}").format(command=_CONFIGURE),
        )
        return
    first = {model.provider: model for model in reversed(models)}
    looked = {
        name: _provider(path, model, main, ask, version) if _may_ask(model, main) else ([], None)
        for name, model in first.items()
    }
    works = any(found is not None for _checks, found in looked.values())
    for name, (checks, found) in looked.items():
        yield from (_mere_warning(check) if works and found is None else check for check in checks)
        for model in (model for model in models if model.provider == name):
            yield _model_check(model, found, version)
    if sentences := overridden(path, models, cwd=project):
        hint = _("Take the setting out of there, or make it the same: {command} --project DIR")
        yield Check(
            id="opencode-overrides",
            status="fail",
            detail=" ".join(sentences),
            hint=hint.format(command=_CONFIGURE),
            command="opencode debug config",
        )


def _may_ask(model: ConfiguredModel, main: Found | None) -> bool:
    return is_near(model.base_url) or (main is not None and model.base_url.startswith(main.url))


def _mere_warning(check: Check) -> Check:
    """A provider that does not answer is no failure where another one does: it may be meant to be off."""
    fails = check.status == "fail" and check.id.startswith("opencode-address:")
    return msgspec.structs.replace(check, status="warn") if fails else check


def _provider(
    path: str, model: ConfiguredModel, main: Found | None, ask: Ask, version: str | None
) -> tuple[list[Check], Found | None]:
    """Package, proxy, key and address of one provider, and what its server said; None: nothing."""
    name = model.provider
    checks = [check for check in (_package_check(model, version), _proxy_check(model)) if check is not None]
    key, problem = resolved_key(path, name)
    if problem:
        hint = _("Export it, write the file, or name another one: {command}").format(command=_CONFIGURE)
        return [*checks, Check(id=f"opencode-key:{name}", status="fail", detail=problem, hint=hint)], None
    try:
        found = ask(normal_url(model.base_url), key)
    except WizardError as error:
        wrong = Check(id=f"opencode-address:{name}", status="fail", detail=error.message, hint=error.hint)
        return [*checks, wrong], None
    if isinstance(found.error, KeyRefusedError):
        hint = _("Name the key the server was started with: {command} --api-key-file FILE")
        refused = Check(
            id=f"opencode-key:{name}",
            status="fail",
            detail=found.error.message,
            hint=hint.format(command=_CONFIGURE),
        )
        return [*checks, refused], None
    if isinstance(found.error, NotVllmError):
        other = Check(id=f"opencode-address:{name}", status="skip", detail=found.error.message)
        return [*checks, other], None
    checks.append(_address_check(model, found, main))
    return checks, None if found.server is None else found


def _package_check(model: ConfiguredModel, version: str | None) -> Check | None:
    """The package opencode talks to the server with; None when it is the right one."""
    package = opencode_facts().package
    if model.npm == package:
        return None
    needed = version is not None and major(version) >= _NEEDS_PACKAGE
    if model.npm:
        detail = _("The provider {provider} uses the package {npm}; for vLLM it is {package}.")
    elif needed:
        detail = _("The provider {provider} names no package (npm), and this opencode needs one: {package}.")
    else:
        detail = _("The provider {provider} names no package (npm); opencode 2 will need it: {package}.")
    return Check(
        id=f"opencode-npm:{model.provider}",
        status="fail" if needed and not model.npm else "warn",
        detail=detail.format(provider=model.provider, npm=model.npm, package=package),
        hint=_("Write it with: {command}").format(command=_CONFIGURE),
    )


def _proxy_check(model: ConfiguredModel) -> Check | None:
    """Whether a proxy stands between opencode and a server that is near; None when none does."""
    # Loads Python's whole HTTP client: nothing for the start of the wizard.
    from urllib.request import proxy_bypass

    parts = urlsplit(model.base_url)
    names = _SECURE_PROXIES if parts.scheme == "https" else _PROXIES
    proxy = next((name for name in names if os.environ.get(name)), None)
    host = parts.hostname or ""
    if proxy is None or proxy_bypass(host):
        return None
    detail = _("{variable} is set, and opencode would send its requests for {host} to that proxy.")
    return Check(
        id=f"proxy:{model.provider}",
        status="fail",
        detail=detail.format(variable=proxy, host=host),
        hint=_("Leave this host out of it: export NO_PROXY={host},127.0.0.1,localhost").format(host=host),
        command="env | grep -i proxy",
    )


def _address_check(model: ConfiguredModel, found: Found, main: Found | None) -> Check:
    """Whether the address leads to the server, and to the part of it that opencode asks."""
    id, url = f"opencode-address:{model.provider}", model.base_url
    answering = main if main is not None and main.server is not None else None
    if found.server is None:
        if main is not None and main.url == found.url:
            return Check(id=id, status="skip", detail=_("{url} is the server above.").format(url=url))
        detail = found.error.message if found.error is not None else ""
        if answering is None:
            hint = found.error.hint if found.error is not None else ""
            return Check(id=id, status="fail", detail=detail, hint=hint)
        told = _("{reason} A vLLM answers at {url}.").format(reason=detail, url=answering.url)
        hint = _("Write its address with: {command} --base-url {url}")
        return Check(
            id=id, status="fail", detail=told, hint=hint.format(command=_CONFIGURE, url=answering.url)
        )
    if not urlsplit(url).path.rstrip("/").endswith("/v1"):
        detail = _("{url} does not end with /v1: vLLM has no {url}/chat/completions.")
        hint = _("Write its address with: {command} --base-url {url}")
        return Check(
            id=id,
            status="fail",
            detail=detail.format(url=url.rstrip("/")),
            hint=hint.format(command=_CONFIGURE, url=found.url),
        )
    deaf = _deaf(found.url)
    if deaf:
        detail = _("{host} also means {address}, where nothing listens: opencode may try that one.")
        return Check(
            id=id,
            status="warn",
            detail=detail.format(host=urlsplit(url).hostname, address=deaf),
            hint=_("Write the number of the address instead of its name, such as 127.0.0.1."),
        )
    return Check(id=id, status="ok", detail=_("{url} answers").format(url=found.url))


def _deaf(url: str) -> str:
    """An address the host's name means and where nothing listens, though another one answers; else empty."""
    parts = urlsplit(url)
    try:
        known = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    except OSError:
        return ""
    for family, kind, protocol, _name, address in known if len(known) > 1 else ():
        with socket.socket(family, kind, protocol) as probe:
            probe.settimeout(_CONNECT_S)
            if probe.connect_ex(address) != 0:
                return str(address[0])
    return ""


def is_near(url: str) -> bool:
    """Whether an address may be asked unbidden: this machine's, one of a private network, or none at all."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return True
    if host == "localhost" or ("." not in host.strip("[]") and ":" not in host):
        return True
    try:
        return ip_address(host).is_private
    except ValueError:
        return host.endswith((".local", ".lan", ".internal", ".home.arpa"))


def _model_check(model: ConfiguredModel, found: Found | None, version: str | None) -> Check:
    """One model: safe limits and, where its server answered, a name and a window that match."""
    id = f"opencode-config:{model.provider}/{model.key}"
    server = found.server if found is not None else None
    safe = _("Write safe limits with: {command}").format(command=_CONFIGURE)
    loop = would_loop(
        model.context,
        model.input,
        model.output,
        model.reserved,
        opencode_facts().base_prompt[-1].measured,
        window=server.max_model_len if server is not None else None,
        cap=output_cap(),
        opencode_version=version,
        vllm_version=server.version if server is not None else None,
    )
    if server is not None and model.sent_as not in server.served_names:
        detail = _("The server does not know {name}; it serves {names}.").format(
            name=model.sent_as, names=", ".join(server.served_names)
        )
        hint = _("Write the right name with: {command}").format(command=_CONFIGURE)
        return Check(id=id, status="fail", detail=detail, hint=hint)
    if server is not None and server.max_model_len is not None and model.context > server.max_model_len:
        detail = _("The limit of {context} tokens is more than the server's window of {window}.").format(
            context=model.context, window=server.max_model_len
        )
        return Check(id=id, status="fail", detail=detail, hint=safe)
    if loop is not None:
        return Check(id=id, status="fail", detail=loop.text, hint=safe)
    if server is None:
        detail = _("points to {url}, which was not asked").format(url=model.base_url)
        return Check(id=id, status="skip", detail=detail)
    return Check(id=id, status="ok", detail=_("name and limits match the server"))
