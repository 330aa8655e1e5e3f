"""Why (?) on the Machine screen: each check that is not OK, what to do, and the command that proves it."""

from __future__ import annotations

from typing import Any

import journeys
import pytest

from wizard.flow import Step
from wizard.machine import Check


async def test_why_shows_the_command_that_proves_a_check(
    opened: Any, see: Any, still: pytest.MonkeyPatch
) -> None:
    check = Check(
        id="port", status="warn", detail="Port 8000 is taken.", hint="Choose another.", command="ss -l"
    )
    async with opened(journeys.at(Step.MACHINE, machine=journeys.spark(), checks=(check,))) as pilot:
        await pilot.press("question_mark")
        await see(pilot, "Why", "Port 8000 is taken.", "Choose another.", "$ ss -l")
