"""The arguments vLLM repeats in its log, as options again.

Since 0.9 it writes a Python dictionary of what differs from its defaults, before that the namespace of all
its arguments. Values are Python's own spelling, nested, and may hold objects; the line may be cut.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from wizard.adopt.config import options_of
from wizard.catalog import flag_facts
from wizard.i18n import _
from wizard.plan import Option
from wizard.text import HIDDEN, one_line

_LINE = re.compile(r"non-default args: (?P<table>\{.*)|\bargs: Namespace\((?P<namespace>.*)", re.DOTALL)
_OPENING, _CLOSING = "([{<", ")]}>"
_PAIR = re.compile(
    r"""\s*(?:(?P<quote>['"])(?P<key>\w+)(?P=quote)\s*:|(?P<name>\w+)=)\s*(?P<value>.*)""", re.DOTALL
)
_OBJECT = re.compile(r"<[\w.]*: (?P<value>'[^']*'|\d+)>")
_NOT_OPTIONS = ("model_tag", "model", "subparser", "dispatch_function", "config")
MASKED = ("***", "[REDACTED]", HIDDEN)


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """What an argument line says. ``secrets`` are variables for options whose value is not shown."""

    model: str
    options: tuple[Option, ...]
    secrets: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def read_arguments(text: str) -> Arguments | None:
    """The arguments in a line of a log; None when it repeats none."""
    match = _LINE.search(text)
    if match is None:
        return None
    table = match["table"]
    items, whole = _items(table[1:] if table else match["namespace"])
    pairs = dict(_pairs(items))
    unread = [] if whole else [_("The line with the arguments is cut: options at its end are missing.")]
    unread += [_cut(name) for name, value in pairs.items() if isinstance(value, _Broken)]
    values = {name: value for name, value in pairs.items() if not isinstance(value, _Broken)}
    usual: Mapping[str, object] = {} if table else flag_facts().namespace
    spelling = flag_facts().spelling
    options: list[Option] = []
    secrets: list[str] = []
    for name, value in values.items():
        dashed = name.replace("_", "-")
        if name in _NOT_OPTIONS or (not table and _is_usual(value, usual.get(name))):
            continue
        if dashed in spelling.secret:
            secrets.append(spelling.secret[dashed])
        elif value in MASKED:
            unread.append(_("The log does not show the value of {name}.").format(name=f"--{dashed}"))
        else:
            options += options_of(dashed, value)
    model = values.get("model_tag") or values.get("model") or ""
    return Arguments(model=str(model), options=tuple(options), secrets=tuple(secrets), unread=tuple(unread))


class _Broken(msgspec.Struct, frozen=True):
    """A value that is cut or no value of Python's own."""


def _pairs(items: Iterable[str]) -> Iterator[tuple[str, object]]:
    for item in items:
        if (match := _PAIR.fullmatch(item)) is not None:
            yield match["key"] or match["name"], _value(match["value"])


def _items(text: str) -> tuple[list[str], bool]:
    """The parts between the commas of the outermost level, and whether that level is closed."""
    items: list[str] = []
    start, depth, quote, place = 0, 0, "", 0
    while place < len(text):
        sign = text[place]
        if quote:
            if sign == "\\":
                place += 1
            elif sign == quote:
                quote = ""
        elif sign in "'\"":
            quote = sign
        elif sign in _OPENING:
            depth += 1
        elif sign in _CLOSING:
            depth -= 1
            if depth < 0:
                break
        elif sign == "," and not depth:
            items.append(text[start:place])
            start = place + 1
        place += 1
    return [*items, text[start:place]], depth < 0


def _value(text: str) -> object:
    """A value as Python would read it; objects become tables of their fields that are set."""
    try:
        return _built(ast.parse(_OBJECT.sub(r"\g<value>", text.strip()), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Broken()


def _built(node: ast.expr) -> object:
    if isinstance(node, ast.Call):
        fields = {word.arg: _built(word.value) for word in node.keywords if word.arg}
        return {name: value for name, value in fields.items() if value is not None}
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_built(entry) for entry in node.elts]
    if isinstance(node, ast.Dict):
        return {
            str(_built(key)): _built(value)
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        }
    value = ast.literal_eval(node)
    if value is ...:
        raise ValueError
    return value


def _is_usual(value: object, default: object) -> bool:
    return value in (None, False, "", "auto") or value == [] or value == {} or value == default


def _cut(name: str) -> str:
    text = _("The log does not show the whole value of {name}: it is left out.")
    return text.format(name=one_line(f"--{name.replace('_', '-')}", 80))
