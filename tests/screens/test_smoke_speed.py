"""The Smoke step: speed beside its limit, evidence that opens, and tuning by one key."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import journeys
import msgspec
import pytest

from screens import plain_server
from screens.dialogue import Dialogue
from screens.moves import Move
from screens.widgets.keybar import KeyButton
from wizard import flow
from wizard.errors import LaunchError
from wizard.flow import Journey, Step, Tried, Trying, TuningAttempt

KEPT = TuningAttempt(
    option="--enforce-eager", started=True, passed=True, before_tps=33.4, after_tps=40.9, kept=True
)
LIMITED = "33.4 m tokens/s  [##########..........]  49 % of 68 c"


@pytest.fixture
def offered(still: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """One option can be left out, until it was tried."""
    still.setattr(flow, "tunable", lambda journey: () if journey.tuning else (journeys.BRAKE,))
    return still


def helping(journey: Journey, hear: Callable[[Any], None], *_stops: threading.Event) -> Journey:
    hear(Trying(option=KEPT.option, doing="without"))
    hear(Tried(attempt=KEPT))
    return msgspec.structs.replace(journey, tuning=(KEPT,))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_speed_limit_and_price_stand_there_and_one_key_tunes(
    opened: Any, see: Any, offered: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    offered.setattr(flow, "tune", helping)
    async with opened(journeys.at(Step.SMOKE), size) as pilot:
        await see(
            pilot, LIMITED, "8,012 tokens read in 2.41 s", "--enforce-eager costs 15 to 20 %", "[t] tune"
        )
        await pilot.press("t")
        await see(pilot, "Try it")
        await pilot.press("enter")
        await see(pilot, "KEPT        without --enforce-eager: 33.4 -> 40.9 tokens/s")
        assert pilot.app.screen.journey.tuning == (KEPT,)
        assert not pilot.app.screen.half_done


async def test_nothing_is_tuned_without_a_yes(
    opened: Any, see: Any, shown: Any, offered: pytest.MonkeyPatch
) -> None:
    async with opened(journeys.at(Step.SMOKE)) as pilot:
        await pilot.press("t")
        await see(pilot, "Leave it as it is")
        await pilot.press("tab", "enter")
        await see(pilot, "[t] tune")
        assert not pilot.app.screen.busy


async def test_tuning_is_stopped_by_a_key_and_cannot_be_walked_away_from(
    opened: Any, see: Any, until: Any, offered: pytest.MonkeyPatch
) -> None:
    def waiting(
        journey: Journey, hear: Callable[[Any], None], cancel: threading.Event, leave: threading.Event
    ) -> Journey:
        hear(Trying(option=KEPT.option, doing="without"))
        assert cancel.wait(10)
        assert not leave.is_set()
        tried = msgspec.structs.replace(KEPT, started=False, kept=False, passed=False, why="Stopped.")
        return msgspec.structs.replace(journey, tuning=(tried,))

    offered.setattr(flow, "tune", waiting)
    async with opened(journeys.at(Step.SMOKE)) as pilot:
        await pilot.press("t")
        await see(pilot, "Try it")
        await pilot.press("enter")
        await see(pilot, "Starting vLLM without --enforce-eager", "[x] stop")
        shown = {key.action_name for key in pilot.app.screen.query(KeyButton) if key.display}
        # Whatever cannot be done now would only push "stop" off a narrow terminal.
        assert "stop" in shown
        assert not shown & {"find", "tune", "helps", "again", "skip"}
        await pilot.press("b", "s", "r", "h")
        assert pilot.app.screen.half_done
        await pilot.press("x")
        await see(pilot, "TAKEN BACK  without --enforce-eager: it does not start. Stopped.")


async def test_a_server_that_does_not_come_back_is_gone_from_the_journey(
    opened: Any, see: Any, offered: pytest.MonkeyPatch
) -> None:
    def failing(*_given: Any) -> Journey:
        raise LaunchError("The plan that worked did not come up again: no memory")

    offered.setattr(flow, "tune", failing)
    async with opened(journeys.at(Step.SMOKE)) as pilot:
        await pilot.press("t")
        await see(pilot, "Try it")
        await pilot.press("enter")
        await see(pilot, "did not come up again")
        await pilot.press("enter")
        assert pilot.app.screen.journey.server is None
        assert not pilot.app.screen.ready()


async def test_evidence_opens_inert(opened: Any, see: Any, still: pytest.MonkeyPatch) -> None:
    async with opened(journeys.at(Step.SMOKE, smoke=journeys.FAILED)) as pilot:
        await see(pilot, "* tool call", "[e] evidence")
        await pilot.press("e")
        # As it came: no markup is read in it, no line is folded away.
        await see(pilot, '{"name": "add", "arguments": {"a": 17, "b": 25}}', "[Enter] close")


def test_plain_mode_asks_the_same(offered: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    answers = iter(["3"])
    offered.setattr(flow, "tune", helping)
    offered.setattr(
        flow,
        "smoke_test",
        lambda journey, tell, cancel: msgspec.structs.replace(journey, smoke=journeys.PASSED),
    )
    dialogue = Dialogue(lambda question: next(answers), written.append)
    outcome = plain_server.smoke(dialogue, journeys.at(Step.SMOKE))
    assert outcome.move is Move.NEXT
    assert outcome.journey.tuning == (KEPT,)
    text = "\n".join(written)
    assert LIMITED in text
    assert "Try whether it is faster without --enforce-eager" in text
    assert "KEPT        without --enforce-eager" in text
