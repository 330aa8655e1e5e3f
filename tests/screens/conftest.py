"""A world of its own for every test: folders, language, clock; and no way out to the network."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import textual
from textual.pilot import Pilot
from textual.widgets import Input

from screens.app import WizardApp
from wizard import flow, i18n
from wizard.fetch import Presence
from wizard.flow import Journey

PINNED = "8.2.8"
"""The Textual whose drawing the snapshots show."""
DEADLINE_S = 10.0
WHOLE = Presence(state="whole", bytes=61 << 30)

Wait = Callable[[Pilot[Any], Callable[[], object]], Awaitable[None]]
Open = Callable[..., AbstractAsyncContextManager[Pilot[int]]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pictures of another Textual differ for reasons that are not ours."""
    if textual.__version__ == PINNED:
        return
    skipped = pytest.mark.skip(
        reason=f"snapshots are drawn by Textual {PINNED}, this is {textual.__version__}"
    )
    for item in items:
        if "snap_compare" in getattr(item, "fixturenames", ()):
            item.add_marker(skipped)


@pytest.fixture(autouse=True)
def own_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing outside the test's own folder is read or written, and every run draws the same."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    for name in ("OPENCODE_CONFIG", "NO_COLOR", "TEXTUAL_THEME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setattr(Input, "cursor_blink", False)
    # Textual looks every 20 ms whether a pressed key was dealt with; 5 ms make these tests twice as fast.
    monkeypatch.setattr("textual._wait.SLEEP_GRANULARITY", 0.005)
    monkeypatch.setattr("textual._wait.SLEEP_IDLE", 0.0005)
    monkeypatch.setattr(socket.socket, "connect", _loopback_only(socket.socket.connect))
    i18n.use("en")
    yield
    i18n.use("en")


def _loopback_only(connect: Callable[[socket.socket, Any], None]) -> Callable[[socket.socket, Any], None]:
    def checked(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1"):
            raise AssertionError(f"a test wants to connect to {address}")
        connect(self, address)

    return checked


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No work is done: every function of the flow that would look at the world is missing, time stands.

    A test gives back the ones it needs. Saving is allowed and does nothing.
    """

    def missing(*given: object, **named: object) -> Journey:
        raise AssertionError("this work was not expected")

    for name in (
        "look_at_machine",
        "find_runtime",
        "rate_models",
        "choose_model",
        "make_plan",
        "launch",
        "connect",
        "smoke_test",
        "stop_server",
        "plan_configuration",
        "write_configuration",
        "prove",
        "install_client",
        "diagnose",
        "examine_trouble",
        "choose_for_me",
    ):
        monkeypatch.setattr(flow, name, missing)
    monkeypatch.setattr(flow, "client_missing", lambda _journey: False)
    monkeypatch.setattr(flow, "project_folder", lambda _journey: "/home/operator/project")
    for name in ("save_progress", "finish"):
        monkeypatch.setattr(flow, name, lambda journey: None)
    monkeypatch.setattr(flow, "resume", lambda: (None, ""))
    monkeypatch.setattr(flow, "weights_on_disk", lambda rows, journey: {"Org/gpt-oss-120b-MXFP4": WHOLE})
    monkeypatch.setattr("wizard.flow.setup.presence", lambda order: Presence(state="absent"))
    monkeypatch.setattr("screens.moves.is_alive", lambda run: True)
    monkeypatch.setattr("screens.widgets.status.monotonic", lambda: 0.0)
    return monkeypatch


@pytest.fixture
def opened() -> Open:
    """The wizard at 80x24 (or another size), open at a journey."""

    @asynccontextmanager
    async def open_at(
        journey: Journey | None = None, size: tuple[int, int] = (80, 24)
    ) -> AsyncIterator[Pilot[int]]:
        app = WizardApp(journey)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            yield pilot

    return open_at


@pytest.fixture
def until() -> Wait:
    """Wait for a condition, with a deadline instead of sleeping."""

    async def wait(pilot: Pilot[Any], condition: Callable[[], object]) -> None:
        deadline = monotonic() + DEADLINE_S
        while not condition():
            if monotonic() > deadline:
                raise AssertionError(f"not within {DEADLINE_S:.0f} s; the screen shows:\n{text_of(pilot)}")
            await asyncio.sleep(0.01)

    return wait


@pytest.fixture
def see(until: Wait) -> Callable[..., Awaitable[None]]:
    """Wait until all of these texts stand on the screen."""

    async def wait(pilot: Pilot[Any], *texts: str) -> None:
        await until(pilot, lambda: all(text in text_of(pilot) for text in texts))

    return wait


def text_of(pilot: Pilot[Any]) -> str:
    """What a person reads on the screen at this moment."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


@pytest.fixture
def shown() -> Callable[[Pilot[Any]], str]:
    """The text on the screen."""
    return text_of
