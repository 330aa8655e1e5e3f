"""Which wire format a model's own text is written in, and where its thought ends."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from wizard.catalog import CallFormat, ThoughtFormat, WireFormat, checkpoint_facts, wire_formats

_NAME = r"[A-Za-z_][\w.-]{0,99}"
_PLACE = "\0"
_WORDS = {"ARGUMENTS": r"\{[\s\S]*?\}", "ARGUMENT": r"[\w.-]+", "VALUE": r"[\s\S]*?"}


class Thought(msgspec.Struct, frozen=True, kw_only=True):
    """A thought in a text, and what follows it; ``closed`` is false when it goes on to the end."""

    format: ThoughtFormat
    thought: str
    rest: str
    closed: bool


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A call in a text: its format, and the tool it names. A WireFormat is one no parser of vLLM reads."""

    format: CallFormat | WireFormat
    tool: str = ""
    """Empty where the format is not read."""


def written_in(text: str, tool: str | None) -> Written | None:
    """The first call in a text; ``tool`` is its name, None: any."""
    for unread in wire_formats():
        if any(marker in text for marker in unread.markers):
            return Written(format=unread)
    thought = split_thought(text)
    turn = (thought.rest if thought else text).lstrip()
    for entry in checkpoint_facts().call:
        pattern = _pattern(entry.signature, tool)
        found = pattern.match(turn) if entry.bare else pattern.search(text)
        if found:
            return Written(format=entry, tool=found.groupdict().get("tool") or tool or "")
    return None


def split_thought(text: str) -> Thought | None:
    """The thought at the beginning of a text, also where its opening tag stood in the prompt; None: none."""
    for entry in checkpoint_facts().thought:
        before, _word, after = entry.signature.partition("THOUGHT")
        opened = re.match(rf"\s*{before}", text)
        closed = re.search(after, text) if after else None
        if closed:
            start = opened.end() if opened else 0
            thought = text[start : max(start, closed.start())].strip()
            return Thought(format=entry, thought=thought, rest=text[closed.end() :], closed=True)
        if opened:
            return Thought(format=entry, thought=text[opened.end() :].strip(), rest="", closed=False)
    return None


def readers_of(entry: CallFormat | ThoughtFormat, family: str) -> tuple[str, ...]:
    """The parsers that read a format: those for the family, then the usual one, then the most general."""
    claimed = [reader.parser for reader in entry.readers if any(part in family for part in reader.families)]
    usual = [reader.parser for reader in entry.readers if reader.usual]
    general = [reader.parser for reader in reversed(entry.readers)]
    return tuple(dict.fromkeys((*claimed, *usual, *general)))


def family_of(names: Iterable[str]) -> str:
    """Names of a model, small, without separators inside and with one between them, as the tables have it."""
    return "/".join(re.sub(r"[^a-z0-9]", "", name.lower()) for name in names)


def _pattern(signature: str, tool: str | None) -> re.Pattern[str]:
    words = {**_WORDS, "NAME": _PLACE, "CALL": rf'\{{(?=[\s\S]{{0,9999}}?"name"\s*:\s*"{_PLACE}")[\s\S]*?\}}'}
    filled = re.sub(r"\b[A-Z]+\b", lambda word: words.get(word[0], word[0]), signature)
    name = re.escape(tool) if tool else _NAME
    return re.compile(filled.replace(_PLACE, f"(?P<tool>{name})", 1).replace(_PLACE, name))
