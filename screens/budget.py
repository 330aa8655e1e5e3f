"""Step Budget: tokens and memory, vLLM's arithmetic beside opencode's."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.timer import Timer
from textual.widgets import Input, Label, Static

from screens import figures, wording
from screens.base import COMMON_KEYS, StepScreen
from screens.widgets.fields import NumberField
from screens.widgets.memorybar import MemoryBar
from wizard import flow
from wizard.errors import WizardError
from wizard.flow import Journey, Step
from wizard.i18n import N_, _

SETTLE_S = 0.4
"""How long a field rests before the plan is computed again."""

STEPS = {"window": 4096, "output": 1024, "people": 1}
"""What + and - add, by field."""


class BudgetScreen(StepScreen, inherit_bindings=False):
    """Window, answers, people at once; what they cost; what opencode is told."""

    STEP = Step.BUDGET
    HEADLINE = N_("How long may the conversation get, and for how many people?")
    HELP = N_(
        "Window is vLLM's max model len, empty: as much as is sensible here. Answers is the longest answer "
        "opencode asks for, empty: by rule. People is how many may ask at the same moment. "
        "The bar shows the memory of one GPU; letters say where a figure comes from. "
        "opencode's limits below are written exactly so; limits that would make it loop are refused."
    )
    CSS_PATH = "budget.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus", "change(1)", N_("more"), id="more"),
        Binding("minus", "change(-1)", N_("less"), id="less"),
        Binding("d", "halve", N_("KV cache in fp8, on/off"), id="fp8"),
        *COMMON_KEYS,
    ]

    def __init__(self, journey: Journey) -> None:
        super().__init__(journey)
        self._timer: Timer | None = None
        self._problem = ""
        self._leaving = False

    def compose_body(self) -> ComposeResult:
        """Fields, memory, tokens."""
        budget = self.journey.answers.budget
        window = "" if budget.max_model_len == "auto" else str(budget.max_model_len)
        with Horizontal(id="fields"):
            yield Label(_("Window"), markup=False)
            yield NumberField(window, id="window")
            yield Label(_("Answers up to"), markup=False)
            yield NumberField("" if budget.output is None else str(budget.output), id="output")
            yield Label(_("People at once"), markup=False)
            yield NumberField(str(budget.concurrency), id="people")
        with VerticalScroll(id="figures"):
            yield Static(id="memory-title", markup=False)
            yield MemoryBar(id="memory")
            yield Static(id="tokens", markup=False)
            yield Static(id="verdict", markup=False)

    def begin(self) -> None:
        """Compute, unless that was done before."""
        if self.journey.plan is None:
            self._compute()

    def _compute(self) -> None:
        self.perform(_("Computing…"), flow.make_plan)

    @on(Input.Changed)
    def _changed(self) -> None:
        """Wait until the typing rests, then compute."""
        self._leaving = False
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(SETTLE_S, self._settle)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.action_next()

    def action_next(self) -> None:
        """Go on with what the fields say now, as soon as it is computed."""
        self._settle()
        if self.busy:
            self._leaving = True
        elif self.ready():
            super().action_next()

    def _settle(self) -> None:
        """Take over what the fields say; computing waits for them."""
        if self._timer is not None:
            self._timer.stop()
        window, output, people = (self.query_one(f"#{name}", NumberField).number for name in STEPS)
        wanted = msgspec.structs.replace(
            self.journey.answers.budget,
            max_model_len=window or "auto",
            output=output or None,
            concurrency=people or 1,
        )
        self._take(flow.answer(self.journey, Step.BUDGET, budget=wanted))

    def _take(self, journey: Journey) -> None:
        self.journey = journey
        if journey.plan is None:
            self._compute()

    def action_change(self, direction: int) -> None:
        """More or less in the field that has the focus; an empty one starts from what was computed."""
        field = self.focused
        if not isinstance(field, NumberField) or field.id is None:
            return
        start = field.number if field.number is not None else self._computed(field.id)
        field.value = str(max(STEPS[field.id], start + direction * STEPS[field.id]))

    def _computed(self, field: str) -> int:
        budget = self.journey.budget
        if budget is None:
            return 0
        return {"window": budget.opencode.context, "output": budget.opencode.output}.get(field, 1)

    def action_halve(self) -> None:
        """Keep the KV cache in 8 bit, or no longer."""
        budget = self.journey.answers.budget
        other = "auto" if budget.kv_cache_dtype == "fp8" else "fp8"
        wanted = msgspec.structs.replace(budget, kv_cache_dtype=other)
        self._take(flow.answer(self.journey, Step.BUDGET, budget=wanted))

    def failed(self, error: BaseException) -> None:
        """A figure that cannot be: said beside the fields, where it is corrected."""
        self._leaving = False
        if isinstance(error, WizardError):
            self._problem = str(error)
            self.show()
        else:
            super().failed(error)

    def done(self) -> None:
        """New figures, and on to the next step when that was asked for meanwhile."""
        self._problem = ""
        super().done()
        if self._leaving and self.ready():
            super().action_next()
        self._leaving = False

    def show(self) -> None:
        """Draw the figures."""
        budget, plan = self.journey.budget, self.journey.plan
        verdict = self.query_one("#verdict", Static)
        if budget is None or plan is None:
            verdict.update(f"{wording.status_word('no')}  {self._problem}" if self._problem else "")
            return
        self.query_one("#window", NumberField).placeholder = figures.count(budget.opencode.context)
        self.query_one("#output", NumberField).placeholder = figures.count(budget.opencode.output)
        self.query_one("#memory-title", Static).update(wording.memory_title(self.journey))
        self.query_one(MemoryBar).show(budget.memory)
        self.query_one("#tokens", Static).update("\n".join(wording.token_lines(self.journey)))
        verdict.update("\n".join(wording.plan_verdict(plan, self.journey.simulated)))

    def ready(self) -> bool:
        """Whether there is a plan that may be started."""
        plan = self.journey.plan
        return plan is not None and not plan.refused

    def reasons(self) -> list[str]:
        """How the figures came about: the plan's reasons and warnings, with their sources."""
        plan = self.journey.plan
        if plan is None:
            return []
        texts = [wording.sourced(reason.text, reason.source) for reason in (*plan.refused, *plan.warnings)]
        return [figures.legend(), *texts, *wording.plan_reasons(plan)]
