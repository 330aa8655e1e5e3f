"""Tuning: leave conservative options out one by one, and keep what starts, passes the test and is faster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from wizard.catalog import speed_facts
from wizard.errors import LaunchError, RefusedError, WizardError
from wizard.flow.answers import Answers
from wizard.flow.journey import Cancelled, Journey, Step, TuningAttempt, forget, need
from wizard.flow.qualify import smoke_test
from wizard.flow.serving import launch, stop_server
from wizard.flow.weights import LaunchEvent
from wizard.i18n import _
from wizard.plan import PlanEdit, apply, leave_out
from wizard.serve import is_alive
from wizard.smoke import CostlyOption, SmokeCheck, brakes_of, release

_RESTARTS = 2
"""How often the plan that worked is started again before it is given up."""


class Trying(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="tuning"):
    """An option is about to be left out, or the plan that worked comes back after one was."""

    option: str
    doing: Literal["without", "back"]


class Tried(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="tuned"):
    """What came of leaving an option out."""

    attempt: TuningAttempt


TuningEvent: TypeAlias = Trying | Tried | LaunchEvent | SmokeCheck


def tunable(journey: Journey) -> tuple[CostlyOption, ...]:
    """The options that could be left out; none where nothing is proved, or the server is not ours to stop."""
    run, report = journey.run, journey.smoke
    ours = journey.plan is not None and journey.started_here and run is not None and is_alive(run)
    if not ours or report is None or report.verdict != "pass":
        return ()
    tried = {attempt.option for attempt in journey.tuning}
    return tuple(cost for cost in brakes_of(need(journey.plan)) if cost.option not in tried)


def tune(
    journey: Journey,
    hear: Callable[[TuningEvent], None],
    cancel: threading.Event,
    leave: threading.Event | None = None,
) -> Journey:
    """Leave each of ``tunable`` out in turn; what helps stays out, after anything else the old plan is back.

    ``cancel`` ends the attempt that runs: the plan that worked is started again, and the journey with it is
    returned. ``leave`` stops that, too, and raises Cancelled with nothing left running. Raises RefusedError
    where there is nothing to try, LaunchError when the plan that worked does not come up again.
    """
    costs = tunable(journey)
    if not costs:
        raise RefusedError(
            _("There is nothing to try: tuning needs a server started from here that passed the smoke test."),
            _("It leaves out options that cost speed; the smoke test names those of your plan."),
        )
    return _Tuning(journey, hear, cancel, leave or threading.Event()).run(costs)


class _Tuning:
    """One session. ``_best`` is the journey to come back to, ``_now`` the one whose server may be running."""

    def __init__(
        self,
        journey: Journey,
        hear: Callable[[TuningEvent], None],
        cancel: threading.Event,
        leave: threading.Event,
    ) -> None:
        self._best = self._now = journey
        self._hear = hear
        self._cancel = cancel
        self._leave = leave

    def run(self, costs: tuple[CostlyOption, ...]) -> Journey:
        try:
            for cost in costs:
                if self._cancel.is_set():
                    break
                self._try(cost)
        except BaseException:
            stop_server(self._now)
            raise
        return self._best

    def _try(self, cost: CostlyOption) -> None:
        """One attempt, and the way back unless it helped."""
        edit = release(cost, need(self._best.plan))
        self._hear(Trying(option=cost.option, doing="without"))
        attempt = self._attempt(cost, edit)
        tuning = (*self._best.tuning, attempt)
        if attempt.kept:
            answers = _without(self._now.answers, edit)
            self._best = self._now = msgspec.structs.replace(self._now, tuning=tuning, answers=answers)
        else:
            self._hear(Trying(option=cost.option, doing="back"))
            self._best = msgspec.structs.replace(self._best, tuning=tuning)
            self._go_back()
        self._hear(Tried(attempt=attempt))

    def _attempt(self, cost: CostlyOption, edit: PlanEdit) -> TuningAttempt:
        best = self._best
        attempt = TuningAttempt(option=cost.option, before_tps=_rate(best))
        changed = msgspec.structs.replace(
            forget(self._now, Step.LAUNCH), plan=apply(need(best.plan), edit), tuning=best.tuning
        )
        try:
            self._now = launch(changed, self._hear, self._cancel)
            attempt = msgspec.structs.replace(attempt, started=True)
            self._now = smoke_test(self._now, self._hear, self._cancel)
        except WizardError as error:
            return msgspec.structs.replace(attempt, why=error.message)
        return _compared(attempt, self._now)

    def _go_back(self) -> None:
        """Start the plan that worked again; what was proved of it still holds."""
        best = self._best
        for left in reversed(range(_RESTARTS)):
            there = msgspec.structs.replace(
                forget(self._now, Step.LAUNCH), plan=best.plan, budget=best.budget, tuning=best.tuning
            )
            try:
                started = launch(there, self._hear, self._leave)
            except Cancelled:
                raise
            except WizardError as error:
                if not left:
                    text = _("The plan that worked did not come up again: {reason}")
                    raise LaunchError(text.format(reason=error.message), error.hint) from error
            else:
                self._best = self._now = msgspec.structs.replace(started, smoke=best.smoke)
                return


def _compared(attempt: TuningAttempt, tested: Journey) -> TuningAttempt:
    """Whether what came of it is better: the test passed, and a stream gets more tokens a second."""
    report, after = need(tested.smoke), _rate(tested)
    if report.verdict != "pass":
        failed = next((check for check in report.checks if check.required and check.status != "ok"), None)
        why = _("The smoke test does not pass.") if failed is None else f"{failed.title}: {failed.detail}"
        return msgspec.structs.replace(attempt, why=why)
    attempt = msgspec.structs.replace(attempt, passed=True, after_tps=after)
    if attempt.before_tps is None or after is None:
        return msgspec.structs.replace(attempt, why=_("The speed could not be measured."))
    if after < attempt.before_tps * (1 + speed_facts().least_gain):
        return msgspec.structs.replace(attempt, why=_("It is not faster."))
    return msgspec.structs.replace(attempt, kept=True)


def _without(answers: Answers, edit: PlanEdit) -> Answers:
    """The answers without what proved to cost speed, so that the next start does not bring it back."""
    arguments = leave_out(answers.serve.extra_args, edit)
    env = {name: value for name, value in answers.runtime.env.items() if name not in edit.env}
    return msgspec.structs.replace(
        answers,
        serve=msgspec.structs.replace(answers.serve, extra_args=arguments),
        runtime=msgspec.structs.replace(answers.runtime, env=env),
    )


def _rate(journey: Journey) -> float | None:
    return None if journey.smoke is None else journey.smoke.speed.decode_tps
