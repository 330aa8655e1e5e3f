"""What the configuration shall hold: the provider block, and the root keys where the user agreed to them.

Limits come in two forms with the same effect. opencode 1.x tidies up once a prompt has ``usable`` tokens:

* with ``limit.input``:    usable = input - (compaction.reserved, or min(20000, min(output, cap)))
* without ``limit.input``: usable = context - min(output, cap); ``compaction.reserved`` is not looked at

``cap`` is 32000. Where the root key ``compaction.reserved`` has our value, the first form is written with the
true window as ``context``: the percentage opencode shows is right then. Everywhere else that key is missing
or the user's, and nothing may depend on it: the second form is written, its ``context`` already reduced by
the margin. For window C, margin M and output O both give usable = C - M - O.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from wizard.budget import Limits
from wizard.catalog import opencode_facts
from wizard.opencode.advice import advice
from wizard.opencode.jsonc_edit import MISSING, Path, get, leaves
from wizard.opencode.keys import key_reference
from wizard.opencode.naming import base_url, check_model_name, model_key, provider_id, shown
from wizard.opencode.private import WEB_TOOLS, private_settings
from wizard.opencode.types import ConfigRequest
from wizard.opencode.versions import before

SCHEMA_URL = "https://opencode.ai/config.json"


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What to set and what must not be there, for one existing document."""

    provider: str
    model_key: str
    settings: Mapping[str, object]
    """Nested like the configuration itself."""
    absent: tuple[Path, ...]
    moved: tuple[Path, ...]
    """Keys to take out first, so that they are set as the last of their object."""
    warnings: tuple[str, ...]

    @property
    def model(self) -> str:
        """What ``opencode -m`` takes."""
        return f"{self.provider}/{self.model_key}"

    @property
    def limit(self) -> dict[str, int]:
        """The limits as they are written."""
        limit = get(self.settings, ("provider", self.provider, "models", self.model_key, "limit"))
        return dict(limit) if isinstance(limit, Mapping) else {}

    def wanted(self) -> dict[Path, object]:
        """Every key that matters, with its value or ``MISSING``."""
        return dict(leaves(self.settings)) | dict.fromkeys(self.absent, MISSING)


def content(request: ConfigRequest, document: Mapping[str, object]) -> Content:
    """The settings for a request, fitted to what the file holds already.

    Raises UsageError for a request that cannot be written as it is, RefusedError for names that would harm.
    """
    url = base_url(request.base_url)
    check_model_name(request.model_key)
    provider = provider_id(request.provider, request.provider_explicit, document, url)
    models = get(document, ("provider", provider, "models"))
    key = model_key(request.model_key, models if isinstance(models, Mapping) else {})
    root = _root_settings(request, document, provider, f"{provider}/{key}")
    reserved = get(root, ("compaction", "reserved"))
    if reserved is MISSING:
        reserved = get(document, ("compaction", "reserved"))
    limit = limit_block(request.limits, reserved)
    if "input" in limit:
        root["compaction"] = {"reserved": request.limits.reserved}
    block = _provider_block(request, document, provider, url)
    block["models"] = {key: _model_block(request, document, provider, key, limit)}
    limit_path = ("provider", provider, "models", key, "limit")
    schema = {} if "$schema" in document else {"$schema": SCHEMA_URL}
    return Content(
        provider=provider,
        model_key=key,
        settings={**schema, **root, "provider": {provider: block}},
        absent=() if "input" in limit else ((*limit_path, "input"),),
        moved=_moved(document, (*(WEB_TOOLS if request.private else ()), *request.denied_tools)),
        warnings=advice(request, document, provider, limit),
    )


def limit_block(limits: Limits, reserved: object) -> dict[str, int]:
    """``limit`` of the model, tokens, for a root ``compaction.reserved`` of ``reserved`` (see the module)."""
    if reserved == limits.reserved:
        return {"context": limits.context, "input": limits.input, "output": limits.output}
    usable = limits.input - limits.reserved
    return {"context": usable + min(limits.output, opencode_facts().output_cap), "output": limits.output}


def interleaved_field(vllm_version: str | None) -> str | None:
    """The field a thinking model's earlier thoughts must come back in; None: opencode's default is right.

    An unknown version is taken for a current one.
    """
    facts = opencode_facts()
    return None if before(vllm_version, facts.reasoning_field_since_vllm) else facts.reasoning_field


def _provider_block(
    request: ConfigRequest, document: Mapping[str, object], provider: str, url: str
) -> dict[str, object]:
    """Our provider without its models. A display name and longer timeouts of the user stay."""
    facts = opencode_facts()
    path = ("provider", provider)
    options: dict[str, object] = {"baseURL": url}
    reference = key_reference(request.api_key_file, request.api_key_env)
    if reference is not None:
        options["apiKey"] = reference
    timeouts = {"headerTimeout": facts.header_timeout_ms, "chunkTimeout": facts.chunk_timeout_ms}
    for option, wanted in timeouts.items():
        theirs = get(document, (*path, "options", option))
        generous = theirs is False or (type(theirs) is int and theirs >= wanted)
        options[option] = theirs if generous else wanted
    name = get(document, (*path, "name"))
    return {
        "npm": facts.package,
        "name": name if isinstance(name, str) else shown(request.provider_name),
        "options": options,
    }


def _model_block(
    request: ConfigRequest, document: Mapping[str, object], provider: str, key: str, limit: dict[str, int]
) -> dict[str, object]:
    path = ("provider", provider, "models", key)
    name = get(document, (*path, "name"))
    block: dict[str, object] = {}
    if key != request.model_key or get(document, (*path, "id")) is not MISSING:
        block["id"] = request.model_key
    block |= {"name": name if isinstance(name, str) else shown(request.model_name), "tool_call": True}
    if request.reasoning:
        block["reasoning"] = True
        if request.interleaved:
            block["interleaved"] = {"field": request.interleaved}
    return {**block, "limit": limit}


def _root_settings(
    request: ConfigRequest, document: Mapping[str, object], provider: str, model: str
) -> dict[str, object]:
    """The keys that touch more than our provider, as far as the user agreed to them."""
    settings: dict[str, object] = {}
    if request.globals:
        if request.default_model:
            settings |= {"model": model, "small_model": model}
        settings["compaction"] = {"reserved": request.limits.reserved}
        cap = request.limits.tool_output
        if cap is not None and not before(request.opencode_version, opencode_facts().tool_output_since):
            settings["tool_output"] = {"max_bytes": cap.max_bytes, "max_lines": cap.max_lines}
    enabled, disabled = document.get("enabled_providers"), document.get("disabled_providers")
    if isinstance(enabled, list) and provider not in enabled and request.globals:
        settings["enabled_providers"] = [*enabled, provider]
    if isinstance(disabled, list) and provider in disabled and request.globals:
        settings["disabled_providers"] = [name for name in disabled if name != provider]
    if request.private:
        settings |= private_settings(document, provider, model, request.opencode_version)
        settings["permission"] = _denied(document, None, WEB_TOOLS)
    if request.denied_tools:
        settings["permission"] = _denied(document, settings.get("permission"), request.denied_tools)
    return settings


def _denied(document: Mapping[str, object], so_far: object, tools: tuple[str, ...]) -> dict[str, object]:
    """The rules with these tools denied; one rule for everything becomes the first of several."""
    permission = document.get("permission")
    rules: dict[str, object] = {"*": permission} if isinstance(permission, str) else {}
    return {**rules, **(so_far if isinstance(so_far, dict) else {}), **dict.fromkeys(tools, "deny")}


def _moved(document: Mapping[str, object], tools: tuple[str, ...]) -> tuple[Path, ...]:
    """Denials that a pattern after them would lift again: of opencode's rules the last one that fits wins."""
    permission = document.get("permission")
    if not tools:
        return ()
    if isinstance(permission, str):
        return (("permission",),)
    keys = list(permission) if isinstance(permission, Mapping) else []
    patterns = [number for number, key in enumerate(keys) if "*" in key]
    return tuple(
        ("permission", key)
        for key in dict.fromkeys(tools)
        if key in keys and any(number > keys.index(key) for number in patterns)
    )
