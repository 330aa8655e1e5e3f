"""Fields that leave the letters to the screen: a number, and a tick."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Input, Static


class NumberField(Input):
    """A whole number. Digits are typed; every other character is a key of the screen."""

    def __init__(self, value: str, *, id: str) -> None:
        super().__init__(value, id=id, type="integer", restrict=r"\d*", max_length=8, compact=True)

    def check_consume_key(self, key: str, character: str | None) -> bool:  # noqa: ARG002 - Textual's
        """Only digits are for the field."""
        return character is not None and character.isdigit()

    async def _on_key(self, event: events.Key) -> None:
        if event.is_printable and not (event.character or "").isdigit():
            event.prevent_default()

    @property
    def number(self) -> int | None:
        """What was typed, or None for an empty field."""
        return int(self.value) if self.value else None


class Tick(Static, can_focus=True):
    """``[x] words``: Space ticks it, and Enter is left to the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "tick", show=False)]

    ticked: reactive[bool] = reactive(False, init=False)
    words: reactive[str] = reactive("", init=False)

    class Changed(Message):
        """The tick was set or taken away by a person."""

        def __init__(self, tick: Tick) -> None:
            super().__init__()
            self.tick = tick

        @property
        def control(self) -> Tick:
            """The tick that changed."""
            return self.tick

    def __init__(self, words: str, ticked: bool, *, id: str) -> None:
        super().__init__(markup=False, id=id)
        self.set_reactive(Tick.words, words)
        self.set_reactive(Tick.ticked, ticked)

    def render(self) -> Content:
        """The mark and the words."""
        return Content(f"[{'x' if self.ticked else ' '}] {self.words}")

    def action_tick(self) -> None:
        """Tick or untick."""
        self.ticked = not self.ticked
        self.post_message(self.Changed(self))

    def on_click(self) -> None:
        """The mouse does what Space does."""
        self.action_tick()
