"""The foot of every screen: each key with what it does, and a button that does the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textual.actions import parse
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Button

from wizard.i18n import N_, _

COMMON = ("next", "back", "skip", "why", "help", "quit")
"""Ids of the keys that stand on the last line of every screen."""

KEY_NAMES = {
    "enter": N_("Enter"),
    "escape": N_("Esc"),
    "f1": "F1",
    "question_mark": "?",
    "slash": "/",
    "plus": "+",
    "minus": "-",
}


def key_name(binding: Binding) -> str:
    """How the first key of a binding is written for a person."""
    key = binding.key.partition(",")[0]
    return _(KEY_NAMES.get(key, key))


def works(screen: Screen[Any], action: str) -> bool | None:
    """Whether the action of a key can be done on a screen now; None: it has to wait."""
    namespace, name, parameters = parse(action)
    return True if namespace else screen.check_action(name, parameters)


class KeyButton(Button):
    """``[b] back``: shows a key and runs its action when pressed."""

    def __init__(self, binding: Binding) -> None:
        label = Content.assemble((f"[{key_name(binding)}]", "bold"), " ", _(binding.description))
        super().__init__(label, compact=True, action=_qualified(binding.action), id=f"key-{binding.id}")
        self.action_name = binding.action


class KeyBar(Vertical):
    """The keys of a screen in two lines: its own, then those every screen has."""

    def __init__(self, bindings: Iterable[Binding]) -> None:
        super().__init__()
        self._shown = [binding for binding in bindings if binding.show]

    def compose(self) -> ComposeResult:
        """A button a key; keys of the screen itself first."""
        with Horizontal(id="keys-own"):
            yield from (KeyButton(binding) for binding in self._shown if binding.id not in COMMON)
        with Horizontal(id="keys-common"):
            for name in COMMON:
                yield from (KeyButton(binding) for binding in self._shown if binding.id == name)

    def on_mount(self) -> None:
        """Follow what the screen allows at the moment."""
        self.screen.bindings_updated_signal.subscribe(self, self._update)
        self._update(self.screen)

    def _update(self, screen: Screen[Any]) -> None:
        """Hide what makes no sense now; what only has to wait stays, disabled."""
        for button in self.query(KeyButton):
            allowed = works(screen, button.action_name)
            button.display = allowed is not False
            button.disabled = allowed is None


def _qualified(action: str) -> str:
    return action if "." in action else f"screen.{action}"
