"""The Smoke step and the parser finder: search, table, consent, plan edit, a new start, checks again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import journeys
import msgspec
import pytest

from screens import plain_server
from screens.dialogue import Dialogue
from screens.moves import Move
from wizard import flow
from wizard.errors import LaunchError
from wizard.flow import Journey, Step
from wizard.plan import PlanEdit
from wizard.smoke.finder import Candidate, ParserSearch

FOUND = ParserSearch(
    raw='<tool_call>\n{"name": "add", "arguments": {"a": 17, "b": 25}}\n</tool_call>',
    way="text",
    decided_by="installed vLLM",
    candidates=(
        Candidate(parser="hermes", extracted=True, ok=True, detail='add {"a": 17, "b": 25}'),
        Candidate(parser="mistral", extracted=False, ok=False, detail="no call"),
    ),
    best="hermes",
)
EDIT = PlanEdit(
    origin="parser finder", title="The parser that fits: hermes", set={"--tool-call-parser": "hermes"}
)


@pytest.fixture
def searched(still: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    still.setattr(flow, "tunable", lambda journey: ())
    still.setattr(flow, "find_parsers", lambda journey, cancel: FOUND)
    still.setattr(flow, "parser_edit", lambda journey, search: EDIT)
    return still


async def test_one_key_finds_asks_starts_anew_and_tests_again(
    opened: Any, see: Any, searched: pytest.MonkeyPatch
) -> None:
    given: list[PlanEdit] = []

    def anew(
        journey: Journey,
        edit: PlanEdit,
        *,
        emit: Any,
        on_check: Callable[[Any], None],
        cancel: Any,
    ) -> Journey:
        given.append(edit)
        for check in journeys.SMOKE_OK:
            on_check(check)
        return msgspec.structs.replace(journey, smoke=journeys.PASSED)

    searched.setattr(flow, "with_parsers", anew)
    async with opened(journeys.at(Step.SMOKE, smoke=journeys.FAILED)) as pilot:
        await see(pilot, "FAIL", "[p] find the parser")
        await pilot.press("p")
        await see(pilot, "The parser that fits: hermes", "+ --tool-call-parser hermes")
        await pilot.press("enter")
        await see(pilot, "PASS: tool calls work", "[Enter] next")
        assert given == [EDIT]
        assert pilot.app.screen.ready()
        assert not pilot.app.screen.half_done


async def test_closing_the_finder_changes_nothing(
    opened: Any, see: Any, searched: pytest.MonkeyPatch
) -> None:
    async with opened(journeys.at(Step.SMOKE, smoke=journeys.FAILED)) as pilot:
        await pilot.press("p")
        await see(pilot, "The parser that fits: hermes")
        await pilot.press("escape")
        await see(pilot, "[p] find the parser", "FAIL: opencode would not work")
        assert pilot.app.screen.journey.smoke is journeys.FAILED


async def test_a_parser_that_does_not_start_leaves_no_server_behind(
    opened: Any, see: Any, searched: pytest.MonkeyPatch
) -> None:
    def failing(*_given: Any, **_named: Any) -> Journey:
        raise LaunchError("vLLM did not come up: no such parser")

    searched.setattr(flow, "with_parsers", failing)
    async with opened(journeys.at(Step.SMOKE, smoke=journeys.FAILED)) as pilot:
        await pilot.press("p")
        await see(pilot, "The parser that fits: hermes")
        await pilot.press("enter")
        await see(pilot, "no such parser")
        assert flow.need(pilot.app.screen_stack[-2].journey).server is None  # type: ignore[attr-defined]


def test_plain_mode_finds_and_starts_anew(searched: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    answers = iter(["3", "yes"])
    started: list[Journey] = []

    def launch(journey: Journey, *_given: Any) -> Journey:
        started.append(journey)
        return journey

    searched.setattr(flow, "launch", launch)
    searched.setattr(
        flow,
        "smoke_test",
        lambda journey, tell, cancel: msgspec.structs.replace(journey, smoke=journeys.FAILED),
    )
    dialogue = Dialogue(lambda question: next(answers), written.append)
    outcome = plain_server.smoke(dialogue, journeys.at(Step.SMOKE))
    assert outcome.move is Move.GO
    assert outcome.journey.smoke is None
    (journey,) = started
    assert flow.need(journey.plan).flag("--tool-call-parser") == "hermes"
    text = "\n".join(written)
    assert "The parser that fits: hermes" in text
    assert "+ --tool-call-parser hermes" in text
