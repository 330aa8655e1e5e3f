"""Changes single values of a JSONC text and leaves every other byte as it is.

The file belongs to its user: comments, order, indentation, line endings and odd spacing stay. Each change is
read back and compared with the intended value before the text is handed out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from wizard.errors import WizardError
from wizard.i18n import _
from wizard.opencode.jsonc import Document, JsoncError, Member, Node, place, scan

Path = tuple[str, ...]

_Piece = tuple[int, int, str]
"""Start and end of what is replaced, and what stands there afterwards."""

_DEFAULT_UNIT = "  "
_NEWLINE = re.compile(r"\r\n|\n|\r")
_LINE_REST = re.compile(r"[ \t]*(?:\r\n|\n|\r)")
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Missing:
    """The value of a key that is not there."""


MISSING = _Missing()


class _Style(msgspec.Struct, frozen=True):
    """The layout of a text: its line ending, one step of indentation, what is between key and value."""

    newline: str
    unit: str
    colon: str
    spread: bool
    """Whether containers go over several lines; False only in a text packed on one line."""


def get(document: object, path: Path) -> object:
    """The value at a path of a plain document, or ``MISSING``."""
    for key in path:
        if not isinstance(document, Mapping) or key not in document:
            return MISSING
        document = document[key]
    return document


def leaves(mapping: Mapping[str, object], prefix: Path = ()) -> Iterator[tuple[Path, object]]:
    """The values of nested mappings with their paths; an empty mapping counts as a value."""
    for key, value in mapping.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*prefix, key))
        else:
            yield (*prefix, key), value


def same(left: object, right: object) -> bool:
    """Equal as JSON: ``true`` is not ``1``, and ``1`` is not ``1.0``; the order of keys does not matter."""
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            if one.keys() != other.keys():
                return False
            pairs.extend((one[key], other[key]) for key in one)
        elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
            if len(one) != len(other):
                return False
            pairs.extend(zip(one, other, strict=True))
        elif type(one) is not type(other) or one != other:
            return False
    return True


def edit(text: str, path: Path, value: object) -> str:
    """The text with ``value`` at ``path``; missing objects on the way are created.

    A value that is there already is replaced exactly, a new key becomes the last of its object, in the layout
    of its neighbours. Returns the same text when nothing changes. Raises JsoncError for a text that cannot be
    read, for something on the way that is no object, and for a key of the path that stands there twice.
    """
    document = scan(text)
    node, depth, member = _descend(document, path)
    if member is not None and depth == len(path):
        if same(node.value, value):
            return text
        pieces = [_replacement(document, member, value)]
    else:
        pieces = _insertion(document, node, {path[depth]: _nested(path[depth + 1 :], value)})
    return _checked(document, pieces, _intended(document.root.value, path, value))


def merge(text: str, path: Path, mapping: Mapping[str, object]) -> str:
    """The text with every value of nested mappings set: what else stands between them stays.

    An empty mapping is content with any object. The text is read once, however much is set. Raises JsoncError
    as ``edit`` does.
    """
    document = scan(text)
    wanted = _nested(path, mapping)
    pieces = _merged(document, document.root, wanted, ())
    return _checked(document, pieces, _laid_over(document.root.value, wanted)) if pieces else text


def remove(text: str, path: Path) -> str:
    """The text without the key at ``path``, or the same text when it is not there. Raises JsoncError."""
    document = scan(text)
    _node, depth, member = _descend(document, path)
    if member is None or depth < len(path):
        return text
    parent, _depth, _member = _descend(document, path[:-1])
    pieces = _removal(document, parent, member)
    return _checked(document, pieces, _intended(document.root.value, path, MISSING))


def _descend(document: Document, path: Path) -> tuple[Node, int, Member | None]:
    """As far as the path leads: the node there, the number of keys followed, and the member that holds it."""
    node, member = document.root, None
    for depth, key in enumerate(path):
        found = _entry_of(document, node, path[:depth], key)
        if found is None:
            return node, depth, member
        member, node = found, found.node
    return node, len(path), member


def _entry_of(document: Document, node: Node, path: Path, key: str) -> Member | None:
    """The entry of the object at ``path``. Raises JsoncError for no object, for a key there twice."""
    if not isinstance(node.value, dict):
        where = ".".join(path) or _("the configuration")
        raise JsoncError(_("{key} is not an object").format(key=where), *place(document.text, node.start))
    found = [entry for entry in node.members if entry.key == key]
    if len(found) > 1:
        lines = [str(place(document.text, entry.start)[0]) for entry in found]
        raise JsoncError(
            _("{key} stands there more than once, on the lines {lines}: keep one of them").format(
                key=".".join((*path, key)), lines=", ".join(lines)
            ),
            *place(document.text, found[-1].start),
        )
    return found[0] if found else None


def _merged(document: Document, node: Node, wanted: Mapping[str, object], path: Path) -> list[_Piece]:
    """The pieces that lay nested mappings over an object: new keys together, changed values one by one."""
    pieces: list[_Piece] = []
    new: dict[str, object] = {}
    for key, value in wanted.items():
        member = _entry_of(document, node, path, key)
        if member is None:
            new[key] = value
        elif isinstance(value, Mapping) and (value or isinstance(member.node.value, dict)):
            pieces += _merged(document, member.node, value, (*path, key))
        elif not same(member.node.value, value):
            pieces.append(_replacement(document, member, value))
    return [*pieces, *_insertion(document, node, new)] if new else pieces


def _nested(path: Path, value: object) -> Any:
    """The value inside one object for each key of a path."""
    for key in reversed(path):
        value = {key: value}
    return value


def _insertion(document: Document, container: Node, entries: Mapping[str, object]) -> list[_Piece]:
    """The pieces that make ``entries`` the last ones of an object."""
    text = document.text
    style = _style(document, container)
    base = _indentation(text, container.start)
    end = container.end - 1

    def written(indent: str, between: str) -> str:
        return f",{between}".join(_entry(key, value, indent, style) for key, value in entries.items())

    if not container.members:
        indent = base + style.unit
        block = f"{style.newline}{indent}{written(indent, style.newline + indent)}"
        rest = text[container.content_end : end]
        if _NEWLINE.search(rest):
            return [(container.content_end, container.content_end, block)]
        return [(container.content_end, end, f"{block}{style.newline}{base}")]
    last = container.members[-1]
    own_line = _starts_line(text, last.start)
    trailing = "," if last.comma is not None else ""
    comma = "" if last.comma is not None else ","
    large = style.spread and any(isinstance(value, Mapping) and value for value in entries.values())
    if own_line or container.ends_in_line_comment or large:
        indent = _indentation(text, last.start) if own_line else base + style.unit
        block = f"{style.newline}{indent}{written(indent, style.newline + indent)}{trailing}"
        if not own_line and not _NEWLINE.search(text, container.content_end, end):
            block += f"{style.newline}{base}"
    else:
        gap = " " if style.colon.endswith(" ") else ""
        block = f"{gap}{written(base, gap)}{trailing}"
    return [(last.node.end, last.node.end, comma), (container.content_end, container.content_end, block)]


def _replacement(document: Document, member: Member, value: object) -> _Piece:
    style = _style(document, member.node)
    indent = _indentation(document.text, member.start)
    return member.node.start, member.node.end, _format(value, indent, style)


def _removal(document: Document, parent: Node, member: Member) -> list[_Piece]:
    """The pieces that take an entry away with its comma, and with its line when nothing else is on it."""
    text = document.text
    start, end = member.start, member.node.end
    commas = [entry.comma for entry in parent.members if entry.start < start and entry.comma is not None]
    pieces = []
    if member.comma is not None:
        if text[end : member.comma].strip():
            pieces.append((member.comma, member.comma + 1, ""))
        else:
            end = member.comma + 1
    elif commas:
        pieces.append((commas[-1], commas[-1] + 1, ""))
    rest_of_line = _LINE_REST.match(text, end)
    if _starts_line(text, start) and rest_of_line:
        start, end = _line_start(text, start), rest_of_line.end()
    elif member.comma is not None:
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    else:
        start = len(text[:start].rstrip(" \t"))
    return [*pieces, (start, end, "")]


def _checked(document: Document, pieces: list[_Piece], intended: object) -> str:
    """The text with the pieces put in, after it was read back and holds exactly what was meant."""
    parts, at = [], 0
    for start, end, replacement in sorted(pieces, key=lambda piece: piece[0]):
        parts += [document.text[at:start], replacement]
        at = end
    text = "".join(parts) + document.text[at:]
    if not same(scan(text).root.value, intended):
        raise WizardError(
            _("The edited configuration does not read back as it was meant; nothing was written."),
            _("Please report this with the layout of your file."),
        )
    return text


def _laid_over(document: object, wanted: Mapping[str, object]) -> dict[str, object]:
    """The plain document with nested mappings laid over it, the old one left alone."""
    changed = dict(document) if isinstance(document, dict) else {}
    for key, value in wanted.items():
        below = changed.get(key)
        if isinstance(value, Mapping) and (value or isinstance(below, dict)):
            changed[key] = _laid_over(below, value)
        else:
            changed[key] = value
    return changed


def _intended(document: object, path: Path, value: object) -> object:
    """The plain document with the change made, the old one left alone."""
    if not path:
        return value
    changed = dict(document) if isinstance(document, dict) else {}
    if len(path) == 1 and value is MISSING:
        changed.pop(path[0], None)
    else:
        changed[path[0]] = _intended(changed.get(path[0]), path[1:], value)
    return changed


def _style(document: Document, container: Node) -> _Style:
    text = document.text
    newline = _NEWLINE.search(text)
    colon = ": "
    for member in (container.members or document.root.members)[-1:]:
        between = text[member.key_end : member.node.start]
        colon = between if member.key and not between.strip(": \t") else colon
    spread = newline is not None and newline.end() < len(text)
    packed = not spread and colon == ":"
    return _Style(newline.group() if newline else "\n", _unit(document), colon, spread=not packed)


def _unit(document: Document) -> str:
    """One step of indentation, from the first entry that stands on its own line below its bracket's line."""
    nodes = [document.root]
    while nodes:
        node = nodes.pop()
        for member in node.members:
            outer = _indentation(document.text, node.start)
            inner = _indentation(document.text, member.start)
            if _starts_line(document.text, member.start) and inner.startswith(outer) and inner != outer:
                return inner.removeprefix(outer)
        nodes.extend(member.node for member in reversed(node.members))
    return _DEFAULT_UNIT


def _line_start(text: str, offset: int) -> int:
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    return 1 if start == 0 and text.startswith("\ufeff") else start


def _indentation(text: str, offset: int) -> str:
    start = _line_start(text, offset)
    line = text[start:offset]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _starts_line(text: str, offset: int) -> bool:
    start = _line_start(text, offset)
    return start > 1 and not text[start:offset].strip(" \t")


def _entry(key: str, value: object, indent: str, style: _Style) -> str:
    return f"{_scalar(key)}{style.colon}{_format(value, indent, style)}"


def _format(value: object, indent: str, style: _Style) -> str:
    """A value as JSON: objects over several lines, arrays of plain values on one."""
    inner = indent + style.unit
    if isinstance(value, Mapping) and value:
        entries = [_entry(str(key), item, inner, style) for key, item in value.items()]
    elif isinstance(value, list | tuple) and value:
        if not style.spread or not any(isinstance(item, Mapping | list | tuple) for item in value):
            gap = ", " if style.spread else ","
            return f"[{gap.join(_format(item, indent, style) for item in value)}]"
        entries = [_format(item, inner, style) for item in value]
    elif isinstance(value, tuple):
        return "[]"
    else:
        return _scalar(value)
    opening, closing = ("{", "}") if isinstance(value, Mapping) else ("[", "]")
    if not style.spread:
        return f"{opening}{','.join(entries)}{closing}"
    lines = f",{style.newline}{inner}".join(entries)
    return f"{opening}{style.newline}{inner}{lines}{style.newline}{indent}{closing}"


def _scalar(value: object) -> str:
    """One value on one line. Halves of surrogate pairs are escaped: UTF-8 cannot hold them."""
    readable = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return json.dumps(value, ensure_ascii=True) if _SURROGATE.search(readable) else readable
