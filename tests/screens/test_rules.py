"""What every screen must keep to: keys, words, colours."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import journeys
import pytest
from textual.binding import Binding

import screens
from screens.app import WizardApp, screen_of
from screens.base import StepScreen
from screens.widgets.keybar import KeyButton
from wizard import i18n
from wizard.flow import Journey, Step

HERE = Path(screens.__file__).parent
SOURCES = sorted(HERE.rglob("*.py"))
STYLES = sorted(HERE.rglob("*.tcss"))

SAFE_KEYS = {
    "enter",
    "escape",
    "f1",
    "tab",
    "shift+tab",
    "space",
    "ctrl+q",
    "ctrl+c",
    "plus",
    "minus",
    "slash",
}
"""Besides letters and ?: these reach a program through tmux and ssh and exist on an AZERTY keyboard."""


def bindings_of(screen: type[StepScreen]) -> list[Binding]:
    """The keys a screen declares."""
    return [binding for binding in screen.BINDINGS if isinstance(binding, Binding)]


def test_every_step_has_its_screen() -> None:
    assert [screen_of(step).STEP for step in Step] == list(Step)


@pytest.mark.parametrize("screen", map(screen_of, Step), ids=lambda screen: screen.__name__)
def test_keys_are_safe_named_and_remappable(screen: type[StepScreen]) -> None:
    for binding in bindings_of(screen):
        for key in binding.key.split(","):
            assert key in SAFE_KEYS or re.fullmatch("[a-z]|question_mark", key), key
        if binding.show:
            assert binding.id
            assert binding.description
    ids = [binding.id for binding in bindings_of(screen) if binding.id]
    assert len(ids) == len(set(ids))
    assert {"help", "quit", "next", "back"} <= set(ids)
    assert screen.HELP
    assert screen.HEADLINE


@pytest.mark.parametrize("language", i18n.LANGUAGES)
@pytest.mark.parametrize("step", [step for step in Step if step is not Step.DIAGNOSE])
async def test_no_key_is_cut_at_80_columns(
    opened: Any, still: pytest.MonkeyPatch, step: Step, language: str
) -> None:
    i18n.use(language)
    journey = Journey() if step is Step.START else journeys.at(step)
    async with opened(journey) as pilot:
        shown = [button for button in pilot.app.screen.query(KeyButton) if button.display]
        assert len(shown) > 3
        for button in shown:
            assert button.region.right <= 80
            assert button.region.bottom <= 24
            assert button.size.width >= button.label.cell_length


@pytest.mark.parametrize("style", STYLES, ids=lambda path: path.name)
def test_styles_know_theme_colours_only(style: Path) -> None:
    for line in style.read_text(encoding="utf-8").splitlines():
        name, _colon, value = line.partition(":")
        if name.strip() in ("color", "background", "border", "border-top", "border-left", "background-tint"):
            assert "$" in value or "none" in value, line
            assert not re.search(r"#[0-9a-fA-F]{3}|rgb|hsl", value), line


@pytest.mark.parametrize("style", STYLES, ids=lambda path: path.name)
def test_styles_stay_on_their_own_screen(style: Path) -> None:
    """Textual applies a loaded file to everything there is from then on."""
    outermost = [
        line for line in style.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", " ", "}")
    ]
    if style.name == "base.tcss":
        assert not [line for line in outermost if line.startswith("#")]
    else:
        owner = {"modals": "Modal"}.get(style.stem, f"{style.stem.capitalize()}Screen")
        assert outermost == [f"{owner} {{"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_every_sentence_can_be_translated(source: Path) -> None:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    marked = set(_marked(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in marked:
            assert not re.search(r"[A-Za-z]{3,} [a-z]{2,} ", node.value), (
                f"line {node.lineno}: {node.value!r}"
            )


MARKS = ("_", "N_", "ngettext")


def _marked(tree: ast.Module) -> Iterator[int]:
    """The strings inside the marks for translation, and docstrings; an f-string there is an error."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKS:
            for inner in ast.walk(node):
                assert not isinstance(inner, ast.JoinedStr), (
                    f"line {node.lineno}: an f-string is not translated"
                )
                yield id(inner)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield id(node.value)


def test_the_plain_questions_need_no_textual() -> None:
    code = "import sys, screens.plain; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=HERE.parent, check=False).returncode == 0


def test_the_application_has_no_palette_and_no_keys_of_textual() -> None:
    keys = {
        key
        for binding in WizardApp.BINDINGS
        if isinstance(binding, Binding)
        for key in binding.key.split(",")
    }
    assert keys == {"ctrl+q", "ctrl+c"}
    assert not WizardApp.ENABLE_COMMAND_PALETTE
