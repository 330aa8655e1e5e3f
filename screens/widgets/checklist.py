"""Checks as lines that begin with a word: OK, WARN, FAIL or SKIP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from screens import wording

Item = TypeVar("Item")

COLOURS = {
    "ok": "$text-success",
    "warn": "$text-warning",
    "fail": "$text-error",
    "no": "$text-error",
    "skip": "",
}
"""Theme variables that repeat what the word says."""


def marked(status: str, rest: str) -> Content:
    """A line that begins with the word of its status, a fixed width wide."""
    return Content.assemble((f"{wording.status_word(status):<6}", f"bold {COLOURS[status]}"), rest)


def item_at(items: Sequence[Item], number: int | None) -> Item | None:
    """The item on a line of a list; None: that line is gone since the message about it was sent."""
    return items[number] if number is not None and 0 <= number < len(items) else None


class CheckList(OptionList, inherit_bindings=False):
    """A list to read line by line; Enter is left to the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "cursor_up", show=False),
        Binding("down", "cursor_down", show=False),
        Binding("home", "first", show=False),
        Binding("end", "last", show=False),
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
    ]

    def __init__(self, title_width: int, *, id: str) -> None:
        super().__init__(id=id, markup=False)
        self._title_width = title_width

    def add_line(self, status: str, title: str, detail: str) -> None:
        """One more check at the end."""
        self.add_option(Option(marked(status, f"{title:<{self._title_width}} {detail}")))
