"""Why each key of the configuration is set: one sentence and its source, for whoever reads the difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from wizard.budget import Limits
from wizard.catalog import opencode_facts
from wizard.i18n import _
from wizard.opencode.jsonc_edit import MISSING, Path, get
from wizard.opencode.types import ConfigRequest, KeyReason

_ISSUES = "https://github.com/anomalyco/opencode/issues/"


def reasons(request: ConfigRequest, settings: Mapping[str, object]) -> tuple[KeyReason, ...]:
    """The keys of ``settings`` in their order, each with its reason; a group with one reason is one entry."""
    return tuple(_reasons(request, settings))


def _reasons(request: ConfigRequest, settings: Mapping[str, object]) -> Iterator[KeyReason]:
    for key in settings:
        if key != "provider" and key in _ROOT:
            why, source = _ROOT[key](request)
            yield KeyReason(key=key, why=why, source=source)
    providers = settings.get("provider")
    for provider, block in providers.items() if isinstance(providers, Mapping) else ():
        yield from _named(("provider", provider), block, _BLOCK, request)
        yield from _named(("provider", provider, "options"), get(block, ("options",)), _OPTIONS, request)
        models = get(block, ("models",))
        for key, model in models.items() if isinstance(models, Mapping) else ():
            place = ("provider", provider, "models", key)
            yield from _named(place, model, _MODEL, request)
            limit = get(model, ("limit",))
            if isinstance(limit, Mapping):
                yield from _limits((*place, "limit"), limit, request.limits)


_Why = Callable[[ConfigRequest], tuple[str, str]]


def _named(
    place: Path, block: object, table: Mapping[str, _Why], request: ConfigRequest
) -> Iterator[KeyReason]:
    for key, explain in table.items():
        if get(block, (key,)) is not MISSING:
            why, source = explain(request)
            yield KeyReason(key=".".join((*place, key)), why=why, source=source)


def _limits(place: Path, limit: Mapping[str, object], limits: Limits) -> Iterator[KeyReason]:
    """The sums behind the limits, with their figures."""
    facts, dotted = opencode_facts(), ".".join(place)
    yield KeyReason(
        key=f"{dotted}.output",
        why=_(
            "opencode asks for this many tokens in every request, and for {cap} where nothing is said. "
            "Prompt and answer must fit the window of {window} together, or vLLM refuses the request."
        ).format(cap=facts.output_cap, window=limits.context),
        source=_ISSUES + "9611",
    )
    if "input" in limit:
        yield KeyReason(
            key=f"{dotted}.context, {dotted}.input",
            why=_(
                "The window of {window} tokens, as vLLM states it, and what a prompt may have of it. "
                "opencode tidies up at {tidy}: input less compaction.reserved. "
                "The rest is for one long tool result."
            ).format(window=limits.context, tidy=limits.tidies_up_at),
            source=_ISSUES + "38835",
        )
        return
    yield KeyReason(
        key=f"{dotted}.context",
        why=_(
            "Less than the window of {window} tokens: opencode tidies up at {tidy}, context less output, and "
            "only after a step. The rest is for one long tool result."
        ).format(window=limits.context, tidy=limits.tidies_up_at),
        source=_ISSUES + "38835",
    )


def _schema(_request: ConfigRequest) -> tuple[str, str]:
    return _("opencode rewrites a file that does not name its schema."), opencode_facts().source


def _default(_request: ConfigRequest) -> tuple[str, str]:
    return (
        _("opencode starts with this model, and asks it for titles: no hosted model is asked instead."),
        _ISSUES + "15854",
    )


def _compaction(request: ConfigRequest) -> tuple[str, str]:
    why = _(
        "Room for one answer of {output} tokens when opencode tidies up; "
        "on its own it keeps up to {default} free."
    ).format(output=request.limits.output, default=opencode_facts().reserved_default)
    return why, _ISSUES + "30805"


def _tool_output(_request: ConfigRequest) -> tuple[str, str]:
    return (
        _("One long tool result must not fill the window; opencode 1.14 and later know this key."),
        _ISSUES + "37871",
    )


def _private(_request: ConfigRequest) -> tuple[str, str]:
    return _("Nothing is to leave the house."), "https://opencode.ai/v1/docs/config"


def _lists(request: ConfigRequest) -> tuple[str, str]:
    if request.private:
        why = _("Nothing is to leave the house: only providers whose server is in it can be chosen.")
        return why, "https://opencode.ai/v1/docs/config"
    return _("opencode ignores a provider this list shuts out."), "https://opencode.ai/v1/docs/config"


def _permission(request: ConfigRequest) -> tuple[str, str]:
    if request.denied_tools:
        return (
            _("A denied tool is not described in the prompt: that makes room in a small window."),
            opencode_facts().source,
        )
    return _("Nothing is to leave the house: the model fetches no pages."), opencode_facts().source


def _npm(_request: ConfigRequest) -> tuple[str, str]:
    return (
        _("The client for servers of one's own. It is part of opencode, nothing is installed for it."),
        opencode_facts().source,
    )


def _address(request: ConfigRequest) -> tuple[str, str]:
    return (
        _("The address at which {model} answers; opencode adds no /v1 of its own.").format(
            model=request.model_key
        ),
        opencode_facts().source,
    )


def _key(_request: ConfigRequest) -> tuple[str, str]:
    return _(
        "Names where the key is; the key itself is not in this file."
    ), "https://opencode.ai/v1/docs/config"


def _timeouts(_request: ConfigRequest) -> tuple[str, str]:
    return (
        _("While vLLM reads a long prompt it sends nothing; after five minutes opencode would ask anew."),
        _ISSUES + "17307",
    )


def _id(request: ConfigRequest) -> tuple[str, str]:
    return (
        _("The name vLLM serves it under, {name}: opencode cannot use it as a key.").format(
            name=request.model_key
        ),
        opencode_facts().source,
    )


def _tool_call(_request: ConfigRequest) -> tuple[str, str]:
    return _("The model calls tools."), "https://opencode.ai/config.json"


def _thinks(_request: ConfigRequest) -> tuple[str, str]:
    return _(
        "The model thinks before it answers; opencode shows that apart."
    ), "https://opencode.ai/config.json"


def _thoughts(request: ConfigRequest) -> tuple[str, str]:
    why = _("vLLM {version} and later read earlier thinking from the field {field}.").format(
        version=opencode_facts().reasoning_field_since_vllm, field=request.interleaved
    )
    return why, "https://github.com/anomalyco/opencode/pull/30477"


_ROOT: Mapping[str, _Why] = {
    "$schema": _schema,
    "model": _default,
    "small_model": _default,
    "compaction": _compaction,
    "tool_output": _tool_output,
    "share": _private,
    "autoupdate": _private,
    "enabled_providers": _lists,
    "disabled_providers": _lists,
    "permission": _permission,
}
_BLOCK: Mapping[str, _Why] = {"npm": _npm}
_OPTIONS: Mapping[str, _Why] = {
    "baseURL": _address,
    "apiKey": _key,
    "headerTimeout": _timeouts,
    "chunkTimeout": _timeouts,
}
_MODEL: Mapping[str, _Why] = {
    "id": _id,
    "tool_call": _tool_call,
    "reasoning": _thinks,
    "interleaved": _thoughts,
}
