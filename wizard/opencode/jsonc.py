"""Reads JSON with comments the way opencode does, and remembers where every part of it stands.

The grammar is the one opencode 1.18 was seen to accept: strict JSON plus ``//`` and ``/* */`` comments,
trailing commas and a byte order mark. Anything else is refused with its line: opencode would refuse it too.
"""

from __future__ import annotations

import functools
import json
import re
from typing import NoReturn

import msgspec

from wizard.errors import CorruptDataError
from wizard.i18n import _

MAX_DEPTH = 200
"""Deepest nesting that is read: a configuration needs about ten, and no stack runs out before this."""

_BLANK = re.compile(r"[ \t\r\n]+")
_BETWEEN = frozenset(" \t\r\n/")
"""What white space and comments begin with: most tokens are followed by neither."""
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NEWLINE = re.compile(r"\r\n|\n|\r")
_WORD = re.compile(r"[\w.+-]+")
_LITERALS = {"true": True, "false": False, "null": None}


class JsoncError(CorruptDataError):
    """The text is not what opencode reads, or cannot be edited. Never quotes it: it may hold secrets."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(
            _("line {line}, column {column}: {reason}").format(line=line, column=column, reason=reason)
        )
        self.reason = reason
        self.line = line
        self.column = column


class Member(msgspec.Struct):
    """An entry of an object or an array; ``key`` is empty and ``key_end`` equals ``start`` in an array."""

    start: int
    key: str
    key_end: int
    node: Node
    comma: int | None = None
    """Where the comma after it stands; None: there is none."""


class Node(msgspec.Struct):
    """A value and its span. ``value`` is the plain Python value, the last of equal keys winning."""

    start: int
    end: int
    value: object
    is_container: bool = False
    members: list[Member] = []
    """The entries of an object or an array."""
    content_end: int = 0
    """In a container: the end of the last token, comments included, before its closing bracket."""
    ends_in_line_comment: bool = False


class Document(msgspec.Struct):
    """A whole text: its value and the spans of its comments."""

    text: str
    root: Node
    comments: list[tuple[int, int]]


def parse(text: str) -> object:
    """The plain value of a JSONC text, to be read only. Raises JsoncError."""
    return scan(text).root.value


@functools.lru_cache(maxsize=2)
def scan(text: str) -> Document:
    """The text as nodes with their spans, to be read only. Raises JsoncError.

    Planning a change looks at the old and at the new text several times, and a large file takes its time.
    """
    scanner = _Scanner(text)
    root = scanner.value()
    open_nodes = [root] if root.is_container else []
    while open_nodes:
        container = open_nodes[-1]
        scanner.skip()
        if scanner.close(container):
            open_nodes.pop()
            continue
        if container.members and container.members[-1].comma is None:
            container.members[-1].comma = scanner.comma(container)
            continue
        member = scanner.member(container)
        container.members.append(member)
        if member.node.is_container:
            if len(open_nodes) == MAX_DEPTH:
                scanner.fail(_("nested deeper than {limit} levels").format(limit=MAX_DEPTH), member.start)
            open_nodes.append(member.node)
    scanner.skip()
    if scanner.at < len(text):
        scanner.fail(_("something follows the end of the configuration"), scanner.at)
    return Document(text, root, scanner.comments)


def place(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1; a byte order mark takes no column."""
    line, line_start = 1, 1 if text.startswith("\ufeff") else 0
    for newline in _NEWLINE.finditer(text, 0, offset):
        line, line_start = line + 1, newline.end()
    return line, max(offset - line_start, 0) + 1


class _Scanner:
    """A position in the text, and the steps that move it on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 1 if text.startswith("\ufeff") else 0
        self.comments: list[tuple[int, int]] = []
        self._token_end = self.at
        self._token_is_line_comment = False

    def fail(self, reason: str, offset: int) -> NoReturn:
        raise JsoncError(reason, *place(self.text, offset))

    def skip(self) -> None:
        """Pass white space and comments."""
        while self.text[self.at : self.at + 1] in _BETWEEN:
            if blank := _BLANK.match(self.text, self.at):
                self.at = blank.end()
            elif comment := _COMMENT.match(self.text, self.at):
                self.comments.append(comment.span())
                self._advance(comment.end(), line_comment=comment.group().startswith("//"))
            elif self.text.startswith("/*", self.at):
                self.fail(_("the comment is not closed"), self.at)
            else:
                return

    def close(self, container: Node) -> bool:
        """Whether the container ends here; completes it then."""
        closer = "}" if isinstance(container.value, dict) else "]"
        if not self.text.startswith(closer, self.at):
            return False
        if isinstance(container.value, dict):
            container.value.update((member.key, member.node.value) for member in container.members)
        elif isinstance(container.value, list):
            container.value.extend(member.node.value for member in container.members)
        container.content_end = self._token_end
        container.ends_in_line_comment = self._token_is_line_comment
        self._advance(self.at + 1)
        container.end = self.at
        return True

    def comma(self, container: Node) -> int:
        """The offset of the comma that must stand here."""
        if not self.text.startswith(",", self.at):
            self._end_expected(container)
            self.fail(_("a comma is missing here"), self.at)
        self._advance(self.at + 1)
        return self.at - 1

    def member(self, container: Node) -> Member:
        """The entry that must begin here; of a container as its value only the opening bracket is read."""
        start = self.at
        if isinstance(container.value, list):
            if start == len(self.text):
                self._end_expected(container)
            return Member(start, "", start, self.value())
        if not self.text.startswith('"', start):
            self._end_expected(container)
            self.fail(_("a key in double quotes is expected here"), start)
        key = self._string()
        key_end = self.at
        self.skip()
        if not self.text.startswith(":", self.at):
            self.fail(_("a colon is missing after the key"), self.at)
        self._advance(self.at + 1)
        return Member(start, key, key_end, self.value())

    def value(self) -> Node:
        """The value that must begin here, or just the opening bracket of an object or an array."""
        self.skip()
        start, head = self.at, self.text[self.at : self.at + 1]
        if head and head in "{[":
            self._advance(start + 1)
            return Node(start, self.at, {} if head == "{" else [], is_container=True)
        if head == '"':
            text = self._string()
            return Node(start, self.at, text)
        return self._scalar(start)

    def _scalar(self, start: int) -> Node:
        found = _WORD.match(self.text, start)
        word = found.group() if found else ""
        value: object
        if word in _LITERALS:
            value = _LITERALS[word]
        elif _NUMBER.fullmatch(word):
            try:
                value = json.loads(word)
            except ValueError:
                self.fail(_("the number is too long"), start)
        elif start == len(self.text):
            self.fail(_("a value is expected, but the file ends"), start)
        else:
            self.fail(_("a value is expected here"), start)
        self._advance(start + len(word))
        return Node(start, self.at, value)

    def _string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            self.fail(_("the text in quotes is not closed, or holds a control character"), self.at)
        quoted = found.group()
        try:
            decoded = str(json.loads(quoted)) if "\\" in quoted else quoted[1:-1]
        except ValueError:
            self.fail(_("the text in quotes holds a wrong escape"), self.at)
        self._advance(found.end())
        return decoded

    def _end_expected(self, container: Node) -> None:
        if self.at == len(self.text):
            line, _column = place(self.text, container.start)
            self.fail(_("the bracket of line {line} is never closed").format(line=line), self.at)

    def _advance(self, end: int, line_comment: bool = False) -> None:
        self.at = self._token_end = end
        self._token_is_line_comment = line_comment
