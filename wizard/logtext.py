"""Lines of a vLLM log, whoever carried them: what surrounds them taken off, and the cause of a failure found.

What vLLM itself writes (process prefix, level, error lines, wrappers) comes from ``assets/vllm.toml``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

import msgspec

from wizard.catalog import vllm_facts
from wizard.text import inert

LINE_LIMIT = 8192
"""Characters of a line that are looked at; vLLM prints whole configurations on one line."""

# journald's short forms (the month in any language) and those with a whole date, docker compose,
# `kubectl --prefix`, the time stamps of docker and of CRI files.
_CARRIERS = re.compile(
    r"^(?:\w{2,6}\.? [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? \S+ [^\s:\[\]]+(?:\[\d+\])?: "
    r"|\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d) [^\s:]+ [^\s:\[\]]+\[\d+\]: )?"
    r"(?:[\w./-]+ +\| |\[pod/[\w./-]+\] )?"
    r"(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d) (?:(?:stdout|stderr) [FP] )?)?"
)
# pydantic and the tokenizers say what is wrong on the lines after the one that names the error.
_GOES_ON = re.compile(r"\d+ validation errors? for |:\s*$")
GOES_ON_LINES = 2
_CARETS = re.compile(r"^\s*[\^~]+\s*$")
_GROUP_NAME = re.compile(r"\(\?P<\w+>")


class Record(msgspec.Struct, frozen=True):
    """A line of a log: its number, the process that wrote it and its level (empty when it says neither)."""

    number: int
    process: str
    level: str
    text: str


class Cause(msgspec.Struct, frozen=True):
    """Why a start failed: the line that says so, its text with what belongs to it, the block around it."""

    record: Record
    text: str
    block: tuple[Record, ...]


class _Patterns(msgspec.Struct, frozen=True):
    process: re.Pattern[str]
    level: re.Pattern[str]
    begins: re.Pattern[str]
    any_failure: re.Pattern[str]
    failures: tuple[tuple[str, re.Pattern[str]], ...]


def read_line(raw: str, number: int = 0, limit: int | None = None) -> Record:
    """One line, inert and without what journald, docker, Kubernetes or a terminal put around it.

    It is cut after ``limit`` characters (None: ``LINE_LIMIT``).
    """
    raw = raw[: limit or LINE_LIMIT]
    if raw.startswith("{") and (record := _json_record(raw, number)) is not None:
        return record
    text = inert(raw).rstrip()
    if carrier := _CARRIERS.match(text):
        text = text[carrier.end() :]
    patterns = _patterns()
    process = level = ""
    if found := patterns.process.match(text):
        process, text = found["process"], text[found.end() :]
    if found := patterns.level.match(text):
        level, text = found["level"], text[found.end() :]
    return Record(number, process, level, text)


def begins_start(line: Record) -> bool:
    """Whether vLLM begins with this line: its banner."""
    return bool(_patterns().begins.search(line.text))


def opens_block(line: Record) -> bool:
    """Whether this line opens a block of errors whose last one is a cause."""
    return _role(line) == "opens"


def reports_failure(line: Record) -> bool:
    """Whether this line says that the engine or a worker failed, be it only as a consequence."""
    return _role(line) in ("opens", "wrapper")


def names_cause(line: Record) -> bool:
    """Whether this line names an error, and not only that something else failed."""
    return line.level in ("", "ERROR", "CRITICAL") and _role(line) == "cause"


def goes_on(text: str) -> bool:
    """Whether what is wrong stands on the lines after this one, which only names the error."""
    return bool(_GOES_ON.search(text))


def find_cause(records: Iterable[Record]) -> Cause | None:
    """The cause of the last failed start in the records, oldest first, or None when no line names one.

    The first block that vLLM opened with an error wins, for the later ones follow from it; without any block
    it is the last line that names an error. Lines that only report that something else failed never win.
    """
    lines = _last_start(list(records))
    for start in (at for at, line in enumerate(lines) if opens_block(line)):
        block = _block(lines, start)
        named = [at for at in block if names_cause(lines[at])]
        if named:
            return _cause(lines, block[: block.index(named[-1]) + 1])
    last = next((at for at in reversed(range(len(lines))) if names_cause(lines[at])), None)
    return None if last is None else _cause(lines, _traceback(lines, last))


def shorten(block: Sequence[Record], limit: int) -> tuple[str, ...]:
    """The texts of a block without rows of carets: its first line and its last ones, ``limit`` in all."""
    texts = [record.text for record in block if record.text and not _CARETS.match(record.text)]
    return tuple(texts if len(texts) <= limit else texts[:1] + texts[len(texts) - limit + 1 :])


def _role(line: Record) -> str:
    """What a line is in a failure, by the first pattern of the tables that finds something; else empty."""
    patterns = _patterns()
    if not patterns.any_failure.search(line.text):
        return ""
    return next((role for role, pattern in patterns.failures if pattern.search(line.text)), "")


def _last_start(lines: list[Record]) -> list[Record]:
    """The lines from the last banner on, if any failed after it: logs are often appended to."""
    begins = [at for at, line in enumerate(lines) if begins_start(line)]
    return lines[begins[-1] :] if begins else lines


def _block(lines: list[Record], start: int) -> list[int]:
    """Where the error lines of the process that opened a block at ``start`` are; others may lie between."""
    opening = lines[start]
    block = []
    for at in range(start, len(lines)):
        line = lines[at]
        if line.process != opening.process:
            continue
        if line.level != opening.level:
            break
        block.append(at)
    return block


def _traceback(lines: list[Record], end: int) -> list[int]:
    """Where the traceback is that ends at ``end``; that line alone when none begins before it."""
    process = lines[end].process
    own = [at for at in range(end + 1) if lines[at].process == process]
    for position in reversed(range(len(own))):
        if lines[own[position]].text.startswith("Traceback (most recent call last)"):
            return own[position:]
    return [end]


def _cause(lines: list[Record], block: list[int]) -> Cause:
    last = lines[block[-1]]
    following = [line for line in lines[block[-1] + 1 :] if line.process == last.process]
    more = following[:GOES_ON_LINES] if goes_on(last.text) else []
    text = " ".join(part for line in (last, *more) if (part := line.text.strip()))
    return Cause(record=last, text=text, block=(*(lines[at] for at in block), *more))


def _json_record(raw: str, number: int) -> Record | None:
    """A line of docker's ``json-file`` driver, journald's or a collector's JSON, or vLLM's own; else None."""
    try:
        entry = msgspec.json.decode(raw, type=dict[str, object])
    except msgspec.DecodeError:
        return None
    message = entry.get("message")
    carried = entry.get("log", entry.get("MESSAGE"))
    if carried is None and "levelname" not in entry and entry.keys() & {"level", "severity"}:
        carried = message
    if isinstance(carried, list):
        carried = _of_bytes(carried)
    if isinstance(carried, str):
        return read_line(carried, number)
    if not isinstance(message, str) or "levelname" not in entry:
        return None
    process = entry.get("vllm_process_name") or entry.get("processName") or ""
    return Record(number, str(process), str(entry["levelname"]), inert(message).rstrip())


def _of_bytes(values: list[object]) -> str | None:
    """The text of a list of bytes: so journald writes down what holds colours."""
    try:
        return bytes(values).decode("utf-8", errors="replace")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


@functools.cache
def _patterns() -> _Patterns:
    facts = vllm_facts()
    started = next(milestone for milestone in facts.milestone if milestone.id == "started")
    return _Patterns(
        process=re.compile(facts.log.process),
        level=re.compile(facts.log.level),
        begins=_any(started.patterns),
        any_failure=_any(pattern for failure in facts.failure for pattern in failure.patterns),
        failures=tuple((failure.role, _any(failure.patterns)) for failure in facts.failure),
    )


def _any(patterns: Iterable[str]) -> re.Pattern[str]:
    """One pattern that finds what any of these does; their groups are not asked for here."""
    unnamed = (_GROUP_NAME.sub("(?:", pattern) for pattern in patterns)
    return re.compile("|".join(f"(?:{pattern})" for pattern in unnamed))
