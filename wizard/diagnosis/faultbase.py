"""The fault base: read once, strictly, with its patterns compiled."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources
from typing import TypeVar

import msgspec

from wizard.diagnosis.types import Fault, FaultFile, LogWords, Signature
from wizard.errors import CorruptDataError
from wizard.i18n import _

_FOLDER = "faults"
_WORDS = "log.toml"

_Table = TypeVar("_Table")


class Matcher(msgspec.Struct, frozen=True):
    """One signature, ready for use: a line with its literal in it is tried with ``pattern``, if any."""

    fault: Fault
    signature: Signature
    pattern: re.Pattern[str] | None


@functools.cache
def faults() -> tuple[Fault, ...]:
    """Every known fault, by topic. Raises CorruptDataError for a damaged installation, as all here."""
    folder = resources.files("assets") / _FOLDER
    topics = sorted(
        entry.name for entry in folder.iterdir() if entry.name.endswith(".toml") and entry.name != _WORDS
    )
    return tuple(fault for topic in topics for fault in _read(topic, FaultFile).fault)


@functools.cache
def log_words() -> LogWords:
    """What tells how a log goes, apart from its faults."""
    return _read(_WORDS, LogWords)


@functools.cache
def matchers() -> Mapping[str, tuple[Matcher, ...]]:
    """The signatures of every fault by their literal."""
    by_literal: dict[str, list[Matcher]] = {}
    for fault in faults():
        for signature in fault.signature:
            pattern = re.compile(signature.pattern) if signature.pattern else None
            by_literal.setdefault(signature.literal, []).append(Matcher(fault, signature, pattern))
    return {literal: tuple(found) for literal, found in by_literal.items()}


@functools.cache
def marks() -> frozenset[str]:
    """Words that some signature wants to be, or not to be, elsewhere in the text."""
    return frozenset(
        words
        for fault in faults()
        for signature in fault.signature
        for words in (*signature.needs, *signature.after, *signature.unless)
    )


def _read(name: str, table: type[_Table]) -> _Table:
    content = (resources.files("assets") / _FOLDER / name).read_bytes()
    try:
        return msgspec.toml.decode(content, type=table)
    except msgspec.MsgspecError as error:
        raise CorruptDataError(
            _("{file} is damaged: {reason}.").format(file=f"{_FOLDER}/{name}", reason=error),
            _("Install the wizard again."),
        ) from error
