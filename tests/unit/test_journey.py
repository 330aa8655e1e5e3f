"""The state machine of the steps."""

from __future__ import annotations

import msgspec
import pytest

from wizard.flow import ROADS, Answers, Journey, Step, advance, answer, back, forget, skip
from wizard.flow.answers import StartAnswers, answers_from
from wizard.flow.journey import _RESULTS
from wizard.flow.prepare import look_at_machine


def at(step: Step, mode: str = "install") -> Journey:
    return Journey(answers=Answers(start=StartAnswers(mode=mode)), step=step)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", list(ROADS))
def test_next_walks_every_road_to_its_end_and_back_to_its_start(mode: str) -> None:
    journey = at(Step.START, mode)
    seen = [journey.step]
    while (following := advance(journey)).step is not journey.step:
        journey = following
        seen.append(journey.step)
    assert tuple(seen) == ROADS[mode]  # type: ignore[index]
    while (before := back(journey)).step is not journey.step:
        journey = before
    assert journey.step is Step.START


def test_back_passes_over_skipped_steps() -> None:
    journey = skip(at(Step.SMOKE))
    assert journey.step is Step.OPENCODE
    assert back(journey).step is Step.LAUNCH


def test_back_keeps_answers_and_results() -> None:
    journey = look_at_machine(
        Journey(answers=answers_from({"machine": {"simulate": "gb10"}}, "t"), step=Step.MACHINE)
    )
    gone_back = back(advance(journey))
    assert gone_back.machine == journey.machine
    assert gone_back.answers == journey.answers


def test_a_changed_answer_makes_its_own_and_later_results_stale() -> None:
    journey = look_at_machine(Journey(answers=answers_from({"machine": {"simulate": "gb10"}}, "t")))
    same = answer(journey, Step.BUDGET, budget=journey.answers.budget)
    assert same is journey
    budget = msgspec.structs.replace(journey.answers.budget, output=2048)
    changed = answer(journey, Step.BUDGET, budget=budget)
    assert changed.answers.budget.output == 2048
    assert changed.machine is not None
    moved = answer(
        journey, Step.MACHINE, machine=msgspec.structs.replace(journey.answers.machine, simulate="h200")
    )
    assert moved.machine is None


def test_forgetting_never_loses_a_run_that_may_be_alive() -> None:
    assert all("run" not in results for results in _RESULTS.values())


def test_every_result_field_belongs_to_exactly_one_step() -> None:
    named = [name for results in _RESULTS.values() for name in results]
    assert len(named) == len(set(named))
    fields = {field.name for field in msgspec.structs.fields(Journey)}
    assert fields - set(named) == {"answers", "step", "scratch", "run", "started_here", "attempts", "skipped"}


def test_forgetting_a_step_also_forgets_that_later_ones_were_skipped() -> None:
    assert forget(skip(at(Step.SMOKE)), Step.MODEL).skipped == ()
