"""Step Budget: tokens and memory, vLLM's arithmetic beside opencode's."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.timer import Timer
from textual.widgets import Input, Label, Static

from screens import estimates, figures, wording
from screens.base import COMMON_KEYS, StepScreen
from screens.widgets.fields import NumberField
from screens.widgets.memorybar import MemoryBar
from wizard import flow
from wizard.budget import needs_trimming
from wizard.errors import WizardError
from wizard.flow import Journey, Step
from wizard.i18n import N_, _

SETTLE_S = 0.4
"""How long a field rests before the plan is computed again."""

STEPS = {"window": 4096, "output": 1024, "people": 1, "share": 1, "extra": 500}
"""What + and - add, by field."""


class BudgetScreen(StepScreen, inherit_bindings=False):
    """Window, answers, people at once; what they cost; what opencode is told."""

    STEP = Step.BUDGET
    HEADLINE = N_("How long may the conversation get, and for how many people?")
    HELP = N_(
        "Window is vLLM's max model len, empty: as much as is sensible here. Answers is the longest answer "
        "opencode asks for, empty: by rule. People is how many may ask at the same moment. "
        "Memory is the percentage vLLM may take. Extra prompt is what your instructions and MCP servers add "
        "to every prompt, empty: estimated from your files; [m] lets opencode itself say it. "
        "The bar shows the memory of one GPU; letters say where a figure comes from, [?] how it came about. "
        "opencode's limits below are written exactly so; limits that would make it loop are refused."
    )
    CSS_PATH = "budget.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus", "change(1)", N_("more"), id="more"),
        Binding("minus", "change(-1)", N_("less"), id="less"),
        Binding("d", "halve", N_("KV in fp8"), id="fp8"),
        Binding("m", "measure", N_("measure prompt"), id="measure"),
        Binding("t", "trim", N_("fewer tools"), id="trim"),
        Binding("w", "widen", N_("longer window"), id="widen"),
        *COMMON_KEYS,
    ]

    def __init__(self, journey: Journey) -> None:
        super().__init__(journey)
        self._timer: Timer | None = None
        self._problem = ""
        self._leaving = False
        self._field = "window"

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
        with Horizontal(id="more-fields"):
            yield Label(_("Memory %"), markup=False)
            yield NumberField(figures.percent(budget.gpu_memory_utilization), id="share")
            yield Label(_("Extra prompt"), markup=False)
            extra = budget.extra_prompt_tokens
            yield NumberField("" if extra == "auto" else str(extra), id="extra")
            yield Static(id="cache-type", markup=False)
        with VerticalScroll(id="figures"):
            yield Static(id="memory-title", markup=False)
            yield MemoryBar(id="memory")
            yield Static(id="columns", markup=False)
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
        number = {name: self.query_one(f"#{name}", NumberField).number for name in STEPS}
        wanted = msgspec.structs.replace(
            self.journey.answers.budget,
            max_model_len=number["window"] or "auto",
            output=number["output"] or None,
            concurrency=number["people"] or 1,
            gpu_memory_utilization=min(share, 100) / 100 if (share := number["share"]) else None,
            extra_prompt_tokens="auto" if number["extra"] is None else number["extra"],
        )
        self._take(flow.answer(self.journey, Step.BUDGET, budget=wanted))

    def _take(self, journey: Journey) -> None:
        self.journey = journey
        if journey.plan is None:
            self._compute()

    def action_change(self, direction: int) -> None:
        """More or less in the field that had the focus last; an empty one starts from what was computed."""
        field = self.query_one(f"#{self._field}", NumberField)
        start = field.number if field.number is not None else self._computed(self._field)
        field.value = str(max(STEPS[self._field], start + direction * STEPS[self._field]))

    @on(events.DescendantFocus)
    def _focused(self, event: events.DescendantFocus) -> None:
        """A click on a key takes the focus, and means the field that had it."""
        if event.widget.id in STEPS:
            self._field = event.widget.id

    def _computed(self, field: str) -> int:
        budget = self.journey.budget
        if budget is None:
            return 0
        share = budget.memory.gpu_memory_utilization if budget.memory else 0.0
        return {
            "window": budget.opencode.context,
            "output": budget.opencode.output,
            "share": round(100 * share),
            "extra": budget.opencode.extra_prompt_tokens,
        }.get(field, 1)

    def action_halve(self) -> None:
        """Keep the KV cache in 8 bit, or no longer."""
        budget = self.journey.answers.budget
        other = "auto" if budget.kv_cache_dtype == "fp8" else "fp8"
        wanted = msgspec.structs.replace(budget, kv_cache_dtype=other)
        self._take(flow.answer(self.journey, Step.BUDGET, budget=wanted))

    def action_trim(self) -> None:
        """Do without some of opencode's tools, or no longer: a small window works then."""
        budget = self.journey.answers.budget
        wanted = msgspec.structs.replace(budget, trim_tools=not budget.trim_tools)
        self._take(flow.answer(self.journey, Step.BUDGET, budget=wanted))

    def action_measure(self) -> None:
        """Let opencode say what it sends, and compute with that."""
        self.query_one("#extra", NumberField).value = ""
        self.perform(_("opencode is started and asks us…"), self._measured)

    def _measured(self, journey: Journey) -> Journey:
        return flow.make_plan(flow.measure_first_prompt(journey, self.cancel))

    def action_widen(self) -> None:
        """Plan the longer window that vLLM has room for."""
        self.perform(_("Computing…"), flow.widen)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What would change nothing is not offered."""
        budget = self.journey.budget
        match action:
            case "measure":
                return not self.journey.simulated
            case "trim":
                small = budget is not None and needs_trimming(budget.opencode.context)
                return small and flow.longer_edit(self.journey) is None
            case "widen":
                return flow.longer_edit(self.journey) is not None
        return super().check_action(action, parameters)

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
        self.query_one("#share", NumberField).placeholder = figures.percent(
            budget.memory.gpu_memory_utilization if budget.memory else None
        )
        self.query_one("#extra", NumberField).placeholder = figures.count(budget.opencode.extra_prompt_tokens)
        cache = _("KV cache {type}").format(type=self.journey.answers.budget.kv_cache_dtype)
        self.query_one("#cache-type", Static).update(cache)
        self.query_one("#memory-title", Static).update(estimates.memory_title(self.journey))
        self.query_one(MemoryBar).show(budget.memory)
        self.query_one("#columns", Static).update("\n".join(estimates.side_by_side(self.journey)))
        self.query_one("#tokens", Static).update("\n".join(estimates.token_words(self.journey)))
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
        return [
            figures.legend(),
            *texts,
            *estimates.memory_reasons(self.journey),
            *wording.plan_reasons(plan),
        ]
