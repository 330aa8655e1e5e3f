"""The steps as a pure state machine: order, Back, skip, and what an answer makes out of date.

A journey is frozen; every function returns a new one. Nothing here looks at the world: the work of a step
is in ``wizard.flow.steps``, and the screens, the plain questions and ``setup`` all go the same way.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeVar

import msgspec

from wizard.budget import Budget
from wizard.compat import Choice, Row
from wizard.diagnosis import Diagnosis
from wizard.errors import WizardError
from wizard.fetch import Fetched
from wizard.flow.answers import Answers, Mode
from wizard.machine import Check, Machine
from wizard.opencode import OpencodeChange, PromptSize, Proof
from wizard.plan import LaunchPlan, PlanEdit
from wizard.runtime import Runtime
from wizard.serve import EngineFigures, Run, Server
from wizard.smoke import SmokeReport

_Result = TypeVar("_Result")


class Cancelled(WizardError):
    """The user stopped a step; whatever it had started is stopped too."""

    exit_code = 130


def need(result: _Result | None) -> _Result:
    """A result that an earlier step left. Its absence is a bug of the caller, never of the user."""
    if result is None:
        raise RuntimeError("a step was called before the one it builds on")
    return result


class Step(StrEnum):
    """The steps of the wizard, in the order of the longest road."""

    START = "start"
    MACHINE = "machine"
    RUNTIME = "runtime"
    MODEL = "model"
    BUDGET = "budget"
    LAUNCH = "launch"
    SMOKE = "smoke"
    OPENCODE = "opencode"
    DIAGNOSE = "diagnose"
    DONE = "done"


_INSTALL = (
    Step.START,
    Step.MACHINE,
    Step.RUNTIME,
    Step.MODEL,
    Step.BUDGET,
    Step.LAUNCH,
    Step.SMOKE,
    Step.OPENCODE,
    Step.DONE,
)
ROADS: dict[Mode, tuple[Step, ...]] = {
    "install": _INSTALL,
    "rehearse": _INSTALL,
    "connect": (Step.START, Step.SMOKE, Step.OPENCODE, Step.DONE),
    "troubleshoot": (Step.START, Step.DIAGNOSE),
}
"""The steps each road takes."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A remedy that was applied to a plan against a fault, and what came of it."""

    plan: str
    """Fingerprint of the plan without any remedy."""
    fault: str
    remedy: str
    """Fingerprint of the remedy."""
    title: str
    edit: PlanEdit | None
    """None: vLLM was started once more, unchanged."""
    outcome: Literal["tried", "helped", "failed", "changed"] = "tried"
    """``failed``: the same fault came again; ``changed``: another one came."""
    when: str


class TuningAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A conservative option that was left out to see whether a stream gets more tokens a second."""

    option: str
    started: bool = False
    passed: bool = False
    """Whether the smoke test passed without it."""
    before_tps: float | None = None
    after_tps: float | None = None
    kept: bool = False
    """It stays out; else the plan is as it was."""
    why: str = ""
    """Why it is not kept."""


class Journey(msgspec.Struct, frozen=True, kw_only=True):
    """Where somebody is, what was answered, and the result of each step so far.

    ``run`` outlives changed answers on purpose: a vLLM that was started must be found again to be stopped.
    """

    answers: Answers = Answers()
    step: Step = Step.START
    scratch: str | None = None
    """The folder that stands in for the real world during a simulation."""
    machine: Machine | None = None
    checks: tuple[Check, ...] = ()
    runtimes: tuple[Runtime, ...] = ()
    runtime: Runtime | None = None
    rows: tuple[Row, ...] = ()
    choice: Choice | None = None
    prompt: PromptSize | None = None
    """opencode's first prompt, once it was measured; the model's name chooses between its own prompts."""
    budget: Budget | None = None
    plan: LaunchPlan | None = None
    attempts: tuple[Attempt, ...] = ()
    """What was tried against faults since the last start that went well, oldest first."""
    fetched: Fetched | None = None
    """What was downloaded for this journey; None: everything was there."""
    run: Run | None = None
    started_here: bool = False
    """``run`` was started by this wizard, not found running: only then a failure further on stops it."""
    server: Server | None = None
    figures: EngineFigures | None = None
    """What the running server says it has for the KV cache."""
    smoke: SmokeReport | None = None
    tuning: tuple[TuningAttempt, ...] = ()
    """What was tried to make the server faster; it belongs to the plan."""
    change: OpencodeChange | None = None
    proof: Proof | None = None
    diagnosis: Diagnosis | None = None
    skipped: tuple[Step, ...] = ()

    @property
    def road(self) -> tuple[Step, ...]:
        """The steps of the chosen road."""
        return ROADS[self.answers.start.mode]

    @property
    def simulated(self) -> bool:
        """Whether the real world stays untouched."""
        return self.answers.start.mode == "rehearse" or self.answers.machine.simulate is not None


_RESULTS: dict[Step, dict[str, object]] = {
    Step.START: {},
    Step.MACHINE: {"machine": None, "checks": ()},
    Step.RUNTIME: {"runtimes": (), "runtime": None},
    Step.MODEL: {"rows": (), "choice": None, "prompt": None, "fetched": None},
    Step.BUDGET: {"budget": None, "plan": None, "tuning": ()},
    Step.LAUNCH: {"server": None, "figures": None},
    Step.SMOKE: {"smoke": None},
    Step.OPENCODE: {"change": None, "proof": None},
    Step.DIAGNOSE: {"diagnosis": None},
    Step.DONE: {},
}


def advance(journey: Journey) -> Journey:
    """The next step of the road; the last step stays where it is."""
    road = journey.road
    position = min(road.index(journey.step) + 1, len(road) - 1)
    return msgspec.structs.replace(journey, step=road[position])


def back(journey: Journey) -> Journey:
    """The last step that was not skipped; answers and results are kept, the first step stays where it is."""
    road = journey.road
    for step in reversed(road[: road.index(journey.step)]):
        if step not in journey.skipped:
            return msgspec.structs.replace(journey, step=step)
    return journey


def skip(journey: Journey) -> Journey:
    """Leave the current step out and go on; Back will pass over it too."""
    skipped = (*journey.skipped, journey.step)
    return advance(msgspec.structs.replace(journey, skipped=skipped))


def answer(journey: Journey, step: Step, **sections: object) -> Journey:
    """Replace sections of the answers at a step.

    Results of this step and of every later one are forgotten, unless nothing changed.
    """
    answers = msgspec.structs.replace(journey.answers, **sections)
    if answers == journey.answers:
        return journey
    return forget(msgspec.structs.replace(journey, answers=answers), step)


def forget(journey: Journey, step: Step) -> Journey:
    """Drop the results of a step and of all later ones."""
    order = list(Step)
    stale: dict[str, object] = {}
    for later in order[order.index(step) :]:
        stale |= _RESULTS[later]
    skipped = tuple(kept for kept in journey.skipped if order.index(kept) < order.index(step))
    return msgspec.structs.replace(journey, **stale, skipped=skipped)
