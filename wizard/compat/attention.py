"""Which attention kernel vLLM takes for a model on a GPU, why, and whether its KV cache can be as asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from wizard.catalog import (
    AttentionBackend,
    AttentionOrder,
    attention_facts,
    flag_facts,
    flag_known,
    vllm_facts,
)
from wizard.compat.heads import Heads, heads_of
from wizard.compat.table import in_force
from wizard.compat.types import Reason
from wizard.i18n import _
from wizard.memory import CacheLayout
from wizard.runtime import Runtime

ATTENTION_CODES = ("attention", "no-attention-backend", "cache-type-impossible")
"""Codes of the reasons given here: they depend on the KV cache asked for and can be asked anew."""
_FLAG = "--attention-backend"
_CACHE_FLAG = "--kv-cache-dtype"


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    capability: int
    version: str
    cache_type: str
    names: tuple[str, ...]
    """Kernels the installed vLLM registers; empty: it was not asked."""


def attention_rule(
    layout: CacheLayout | None,
    architecture: str,
    capability: int,
    runtime: Runtime,
    cache_type: str = "auto",
) -> tuple[Reason, ...]:
    """The kernel vLLM takes, or why none can; nothing where the tables do not say.

    ``layout`` is None where the shape of the model is unknown, ``cache_type`` the value of
    ``--kv-cache-dtype``. Rules the user switched off are left out.
    """
    if runtime.cpu_build:
        return ()
    version = runtime.version or vllm_facts().newest
    asked = _Asked(
        capability=capability,
        version=version,
        cache_type=cache_type,
        names=runtime.attention_backends,
    )
    heads = heads_of(layout, architecture, capability, asked.version)
    order = _order(heads, asked)
    if order is None:
        return ()
    passed: list[str] = []
    for backend in _candidates(order, heads):
        against = _against(backend, heads, asked)
        if against is None:
            return in_force((_taken(backend, order, passed, asked),))
        # That a kernel nowhere keeps such a cache explains nothing.
        if cache_type in backend.cache_types:
            passed.append(against)
    return in_force((_none(heads, order, passed, asked),))


def cache_type_of(args: Sequence[str], asked: str = "auto") -> str:
    """The type of the KV cache: the one asked for, else the one a model's own options set, else ``auto``."""
    if asked != "auto" or _CACHE_FLAG not in args[:-1]:
        return asked
    return args[args.index(_CACHE_FLAG) + 1]


def _order(heads: Heads, asked: _Asked) -> AttentionOrder | None:
    return next(
        (
            order
            for order in attention_facts().order
            if order.layers == heads.kind and order.where.holds(asked.capability, asked.version)
        ),
        None,
    )


def _candidates(order: AttentionOrder, heads: Heads) -> Iterator[AttentionBackend]:
    by_name = {backend.name: backend for backend in attention_facts().backend}
    for name in order.backends:
        if heads.only in (None, name):
            yield by_name[name]


def _against(backend: AttentionBackend, heads: Heads, asked: _Asked) -> str | None:
    """Why vLLM passes this kernel over; None: it takes it."""
    name, capability = backend.name, asked.capability
    if asked.names and name not in asked.names:
        return _("{backend} is not in this vLLM").format(backend=name)
    if not backend.runs(capability, asked.version):
        floor = backend.floor(asked.version)
        if floor is None:
            return _("{backend} is not in vLLM {version}").format(backend=name, version=asked.version)
        if capability < floor:
            return _("{backend} needs compute capability {needed}").format(
                backend=name, needed=f"{floor // 10}.{floor % 10}"
            )
        return _("{backend} is not for this GPU").format(backend=name)
    if backend.head_sizes and not heads.sizes <= set(backend.head_sizes):
        odd = min(heads.sizes - set(backend.head_sizes))
        return _("{backend} has no heads of {size}").format(backend=name, size=odd)
    if heads.sinks and not backend.has_sinks(capability, asked.version):
        return _("{backend} has no attention sinks here").format(backend=name)
    return None if _keeps(backend, heads, asked) else _against_cache(backend, asked)


def _against_cache(backend: AttentionBackend, asked: _Asked) -> str:
    """Why it does not keep such a cache here: often the GPU is too old."""
    floor = min(
        (cache.where.capability_min for cache in backend.cache if asked.cache_type in cache.types), default=0
    )
    if asked.capability < floor:
        return _("{backend} keeps {type} from compute capability {needed} on").format(
            backend=backend.name, type=asked.cache_type, needed=f"{floor // 10}.{floor % 10}"
        )
    return _("{backend} keeps no {type} here").format(backend=backend.name, type=asked.cache_type)


def _keeps(backend: AttentionBackend, heads: Heads, asked: _Asked) -> bool:
    return any(
        asked.cache_type in cache.types
        and cache.where.holds(asked.capability, asked.version)
        and heads.sizes.isdisjoint(cache.head_sizes_not)
        and (cache.sinks or not heads.sinks)
        for cache in backend.cache
    )


def _taken(backend: AttentionBackend, order: AttentionOrder, passed: Sequence[str], asked: _Asked) -> Reason:
    where = {"version": asked.version, "backend": backend.name}
    if order.pin:
        args, env = _spelled(backend.name, asked.version)
        text = _(
            "vLLM {version} is told to take {backend} for its attention, since left alone it can take a "
            "slower or broken one here: {passed}."
        ).format(passed="; ".join(passed), **where)
        return Reason(code="attention", text=text, source=order.source, args=args, env=env)
    text = _("vLLM {version} takes {backend} for its attention.").format(**where)
    if passed:
        text = _("vLLM {version} takes {backend} for its attention: {passed}.").format(
            passed="; ".join(passed), **where
        )
    return Reason(code="attention", text=text, source=backend.source)


def _none(heads: Heads, order: AttentionOrder, passed: Sequence[str], asked: _Asked) -> Reason:
    plain = msgspec.structs.replace(asked, cache_type="auto")
    names = ", ".join(backend.name for backend in _candidates(order, heads))
    tried = "; ".join(passed) or _("none of {names} can").format(names=names)
    where = {"version": asked.version, "passed": tried, "type": asked.cache_type}
    if any(_against(backend, heads, plain) is None for backend in _candidates(order, heads)):
        code, text = (
            "cache-type-impossible",
            _("vLLM {version} cannot keep the KV cache as {type} here: {passed}."),
        )
    else:
        code, text = (
            "no-attention-backend",
            _("vLLM {version} has no attention for this model here: {passed}."),
        )
    return Reason(code=code, text=text.format(**where), source=order.source, refuses=True)


def _spelled(backend: str, version: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """How this version is told: by an option, or by the variable that was there before it."""
    if flag_known(_FLAG, version):
        return (_FLAG, backend), {}
    variable = next(entry.name for entry in flag_facts().variable if entry.instead == _FLAG)
    return (), {variable: backend}
