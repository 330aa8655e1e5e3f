"""Which files of a repository vLLM loads: the rules of its own loader, from the assets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatch

import msgspec

from wizard.catalog import fetch_facts, reached
from wizard.fetch.types import Order

_SHARD = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<ending>\.\w+)$")

ReadIndex = Callable[[str], bytes | None]
"""The content of an index by its name; None when it cannot be had."""


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def weights_of(names: Iterable[str], order: Order, read_index: ReadIndex) -> tuple[str, ...]:
    """The weight files vLLM loads of a repository with these files; empty: it would find none.

    They may name files that are not there: an index, or the numbers in the names, tell how many belong to it.
    """
    facts = fetch_facts()
    top = [name for name in names if "/" not in name and name not in facts.not_weights]
    for kind in facts.format:
        if kind.name != order.load_format and not reached(order.vllm_version, kind.since):
            continue
        matching = [name for name in top if fnmatch(name, kind.weights)]
        if not matching:
            continue
        listed = _listed(read_index(kind.index)) if kind.index in top and kind.index else ()
        return listed or _all_numbers(matching)
    return ()


def files_beside(names: Iterable[str]) -> tuple[str, ...]:
    """Everything else vLLM reads: configuration, tokenizer, chat template, code."""
    facts = fetch_facts()
    return tuple(
        sorted(
            name
            for name in names
            if any(fnmatch(name, pattern) for pattern in facts.beside)
            and not any(fnmatch(name, pattern) for pattern in facts.ignored)
        )
    )


def _listed(content: bytes | None) -> tuple[str, ...]:
    """The files an index names; empty for one that cannot be read, as vLLM takes it."""
    if content is None:
        return ()
    try:
        return tuple(sorted(set(msgspec.json.decode(content, type=_Index).weight_map.values())))
    except msgspec.MsgspecError:
        return ()


def _all_numbers(names: Iterable[str]) -> tuple[str, ...]:
    """The names, and those that must exist beside them: one of `…-00001-of-00004` has three more."""
    found = set(names)
    for name in tuple(found):
        shard = _SHARD.match(name)
        if shard:
            numbers = range(1, int(shard["count"]) + 1)
            stem, count, ending = shard["stem"], shard["count"], shard["ending"]
            found.update(f"{stem}-{number:05}-of-{count}{ending}" for number in numbers)
    return tuple(sorted(found))
