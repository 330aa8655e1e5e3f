"""What one line says: words of the fault base, the faults they show, where the log stands."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from wizard.diagnosis.faultbase import Matcher, log_words, marks, matchers
from wizard.logtext import Record, begins_start, goes_on, names_cause, opens_block, reports_failure

_KEPT = 2048
"""Different lines whose meaning is remembered: a log of errors says the same again and again."""
_AUTOMATON = 128 << 20
"""Most memory that finding words may take, bytes: with RE2's own 8 MiB it is a hundred times slower."""
_QUOTES = str.maketrans({"`": "'", "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})


class Said(msgspec.Struct, frozen=True):
    """What a line says."""

    hits: tuple[tuple[Matcher, Mapping[str, str]], ...] = ()
    """Signatures it holds, with the groups that took part."""
    marks: tuple[str, ...] = ()
    facts: Mapping[str, str] = {}
    start: str = ""
    """The line itself, where it repeats all arguments of the server."""
    stage: str = ""
    begins: bool = False
    opens: bool = False
    cause: bool = False
    goes_on: bool = False
    ready: bool = False
    stopping: bool = False
    failure: bool = False
    trouble: bool = False


_NOTHING = Said()


def what_it_says(record: Record) -> Said:
    """The meaning of a line, whatever its number."""
    return _said(record.process, record.level, record.text)


@functools.lru_cache(maxsize=_KEPT)
def _said(process: str, level: str, text: str) -> Said:
    patterns = _patterns()
    if patterns.harmless.search(text):
        return _NOTHING
    record = Record(0, process, level, text)
    present = words_in(text)
    calm = level == "INFO"
    ready = bool(patterns.ready.search(text))
    stopping = bool(patterns.stopping.search(text))
    return Said(
        hits=tuple(_hits(present, text.replace('\\"', '"').translate(_QUOTES), calm)),
        marks=tuple(word for word in present if word in marks()),
        facts=_facts(patterns.facts, text),
        start=text if any(words in text for words in log_words().arguments) else "",
        stage=next((name for word, name in _stages().items() if word in present), ""),
        begins=begins_start(record),
        opens=not calm and opens_block(record),
        cause=names_cause(record),
        goes_on=goes_on(text),
        ready=ready,
        stopping=stopping,
        failure=not (ready or stopping or calm)
        and (reports_failure(record) or bool(patterns.crash.search(text))),
        trouble=level in ("", "ERROR", "CRITICAL") and bool(patterns.trouble.search(text)),
    )


def _hits(present: Iterable[str], text: str, calm: bool) -> Iterable[tuple[Matcher, Mapping[str, str]]]:
    """The signatures in a line. What vLLM logs as information shows a fault only by being the last word.

    Such a line may quote anything: vLLM logs prompts and answers where it is asked to.
    """
    known = matchers()
    for matcher in (matcher for word in present for matcher in known.get(word, ())):
        if calm and not (matcher.signature.last or matcher.fault.severity == "info"):
            continue
        if matcher.pattern is None:
            yield matcher, {}
        elif (match := matcher.pattern.search(text)) is not None:
            yield matcher, {name: value for name, value in match.groupdict().items() if value}


def _facts(patterns: Iterable[re.Pattern[str]], text: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for pattern in patterns:
        if match := pattern.search(text):
            found |= {name: value for name, value in match.groupdict().items() if value}
    return found


def words_in(text: str) -> tuple[str, ...]:
    """All words of the fault base that are in a text, even where they overlap."""
    every = every_word()
    return tuple(every[index] for index in _set().Match(text) or ())


@functools.cache
def finder() -> Any:
    """Finds what is worth reading: from a word to its line's end. RE2: ``re`` tries each word everywhere."""
    import re2  # type: ignore[import-untyped]

    words = b"|".join(re2.escape(word.encode()) for word in sorted(every_word()))
    return re2.compile(rb"(?:" + words + rb")[^\r\n]*", _options())


@functools.cache
def _set() -> Any:
    import re2

    words = re2.Set.SearchSet(_options())
    for word in every_word():
        words.Add(re2.escape(word))
    words.Compile()
    return words


def _options() -> Any:
    import re2

    options = re2.Options()
    options.max_mem = _AUTOMATON
    return options


@functools.cache
def every_word() -> tuple[str, ...]:
    """All words of which a line must hold one to be read."""
    own = log_words()
    return tuple(dict.fromkeys((*matchers(), *marks(), *_stages(), *own.landmarks, *own.arguments)))


@functools.cache
def _stages() -> Mapping[str, str]:
    return {word: stage.name for stage in log_words().stage for word in stage.words}


class _Patterns(msgspec.Struct, frozen=True):
    ready: re.Pattern[str]
    crash: re.Pattern[str]
    stopping: re.Pattern[str]
    harmless: re.Pattern[str]
    trouble: re.Pattern[str]
    facts: tuple[re.Pattern[str], ...]


@functools.cache
def _patterns() -> _Patterns:
    own = log_words()
    return _Patterns(
        ready=_any(own.ready),
        crash=_any(own.crash),
        stopping=_any(own.stopping),
        harmless=_any(own.harmless),
        trouble=re.compile(own.trouble),
        facts=tuple(re.compile(pattern) for pattern in own.facts),
    )


def _any(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns))
