"""Weights that are downloaded before the start, as the screen of the launch shows them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import journeys
import pytest

from wizard import flow
from wizard.fetch import FetchProgress, FetchWaiting
from wizard.flow import Cancelled, Journey, LaunchEvent, Step
from wizard.serve import Milestone


async def test_a_download_shows_how_far_and_is_stopped_by_a_key(
    opened: Any, see: Any, still: pytest.MonkeyPatch
) -> None:
    cut = threading.Event()

    def launch(journey: Journey, emit: Callable[[LaunchEvent], None], cancel: threading.Event) -> Journey:
        emit(Milestone(seconds=0.0, id=flow.WEIGHTS, title="Weights on disk", detail="75.0 GiB to download"))
        emit(FetchProgress(done=20 << 30, total=80 << 30, bytes_per_s=95e6, seconds_left=676))
        assert cut.wait(10)
        emit(FetchWaiting(text="the connection was cut", seconds=1.0))
        assert cancel.wait(10)
        raise Cancelled("The download was stopped.")

    still.setattr(flow, "launch", launch)
    async with opened(journeys.at(Step.LAUNCH, worked=False)) as pilot:
        await pilot.press("enter")
        await see(pilot, "20.00 of 80.00 GiB, 25 %, 95.0 MB/s, 11 min left")
        cut.set()
        await see(pilot, "the connection was cut")
        await pilot.press("x")
        await see(pilot, "The download was stopped.", "What will be started")
