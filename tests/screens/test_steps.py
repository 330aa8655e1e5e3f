"""What single steps do with what a person asks for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import journeys
import msgspec
import pytest
from textual.widgets import Log

from screens.budget import BudgetScreen
from screens.done import DoneScreen
from screens.launch import LaunchScreen
from screens.opencode import OpencodeScreen
from screens.smoke import SmokeScreen
from screens.widgets.fields import NumberField, Tick
from screens.widgets.live import KEPT_LINES, LiveStart
from screens.widgets.modals import AskModal, DecideModal, ErrorModal, ReadModal
from wizard import flow
from wizard.errors import LaunchError, RefusedError, UsageError
from wizard.flow import Cancelled, Journey, Step
from wizard.opencode import PromptSize
from wizard.serve import EngineFigures, Event, LogLine

Emit = Callable[[Event], None]


def launching(
    events: tuple[Event, ...], error: Exception | None = None
) -> Callable[[Journey, Emit, threading.Event], Journey]:
    """A start that tells its events and then fails, or gives a server, or waits to be cancelled."""

    def launch(journey: Journey, emit: Emit, cancel: threading.Event) -> Journey:
        for event in events:
            emit(event)
        if error is not None:
            raise error
        if events and events[-1] is journeys.READY:
            return msgspec.structs.replace(journey, run=journeys.RUN, server=journeys.SERVER)
        assert cancel.wait(10)
        raise Cancelled("The start was stopped.")

    return launch


class TestLaunch:
    async def test_a_start_that_succeeds(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        still.setattr(flow, "launch", launching((*journeys.EVENTS, journeys.READY)))
        still.setattr(flow, "smoke_test", lambda journey, tell, cancel: journeys.at(Step.SMOKE))
        async with opened(journeys.at(Step.LAUNCH, worked=False)) as pilot:
            await see(pilot, "--tool-call-parser qwen3_coder")
            await pilot.press("enter")
            await see(pilot, "READY: vLLM answers at http://127.0.0.1:8000/v1")
            await see(pilot, "OK      0:14  Loading weights")
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, SmokeScreen))

    async def test_stopping_a_start_leads_back_to_the_plan(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch
    ) -> None:
        still.setattr(flow, "launch", launching(journeys.EVENTS))
        async with opened(journeys.at(Step.LAUNCH, worked=False)) as pilot:
            await pilot.press("enter")
            await see(pilot, "31/40")
            await see(pilot, ">>      0:14  Loading weights")
            await see(pilot, "[bold]not markup[/bold]")
            await pilot.press("b")
            assert pilot.app.screen.busy
            await pilot.press("x")
            await see(pilot, "The start was stopped.")
            await see(pilot, "What will be started")
            await see(pilot, "[Enter] start vLLM")

    async def test_a_failure_is_quoted_and_can_be_tried_again(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch
    ) -> None:
        failure = LaunchError("vLLM did not come up: Triton Error", "Use another build.", journeys.EVIDENCE)
        still.setattr(flow, "launch", launching(journeys.EVENTS, failure))
        async with opened(journeys.at(Step.LAUNCH, worked=False)) as pilot:
            await pilot.press("enter")
            await see(pilot, "FAILED after 2:58")
            await see(pilot, "RuntimeError: Triton Error [CUDA]: operation not permitted")
            await see(pilot, "Use another build.")
            assert not isinstance(pilot.app.screen, ErrorModal)
            still.setattr(flow, "launch", launching((journeys.READY,)))
            await pilot.press("r")
            await see(pilot, "READY")

    async def test_one_key_applies_the_remedy_and_starts_again(
        self, opened: Any, see: Any, shown: Any, still: pytest.MonkeyPatch
    ) -> None:
        started: list[Journey] = []
        failure = flow.StartFailed("vLLM did not come up.", found=journeys.DIAGNOSIS, log="/nowhere.log")

        def launch(journey: Journey, emit: Emit, cancel: threading.Event) -> Journey:
            started.append(journey)
            if len(started) == 1:
                raise failure
            return msgspec.structs.replace(journey, run=journeys.RUN, server=journeys.SERVER)

        still.setattr(flow, "launch", launch)
        async with opened(journeys.at(Step.LAUNCH, worked=False)) as pilot:
            await pilot.press("enter")
            await see(pilot, "[TRITON-PERM]", "line 412", "Tried so far: nothing", "[Enter] show the steps")
            await pilot.press("enter")
            await see(pilot, "pip install -U vllm", "This is for you to do")
            assert len(started) == 1
            await pilot.press("escape", "down", "d")
            await see(pilot, "What it changes", "+ VLLM_USE_FLASHINFER_SAMPLER=1")
            await pilot.press("escape")
            await see(pilot, "[Enter] apply and start again")
            await pilot.press("enter")
            await see(pilot, "READY")
        assert started[1].plan is not None
        assert started[1].plan.env["VLLM_USE_FLASHINFER_SAMPLER"] == "1"

    async def test_a_failure_lets_one_go_back_and_change(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        still.setattr(flow, "launch", launching((), LaunchError("vLLM ended without a word.")))
        async with opened(journeys.at(Step.LAUNCH, worked=False)) as pilot:
            await pilot.press("enter")
            await see(pilot, "FAILED")
            await pilot.press("b")
            await until(pilot, lambda: isinstance(pilot.app.screen, BudgetScreen))

    async def test_a_refused_plan_cannot_be_started(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(journeys.at(Step.LAUNCH, worked=False, plan=journeys.REFUSED)) as pilot:
            await see(pilot, "NO  opencode would tidy up for ever")
            await pilot.press("enter")
            assert not pilot.app.screen.busy

    async def test_without_an_installed_vllm_the_plan_can_only_be_read(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch
    ) -> None:
        def refuse(*given: object) -> Journey:
            raise RefusedError("No installed vLLM was found on this machine.", "Install vLLM.")

        still.setattr(flow, "launch", refuse)
        plan = msgspec.structs.replace(journeys.PLAN, runtime_kind="assumed")
        async with opened(journeys.at(Step.LAUNCH, worked=False, plan=plan)) as pilot:
            await see(pilot, "WARN  No vLLM is installed here")
            await pilot.press("enter")
            await see(pilot, "This did not work", "step Runtime", "installs one for")
            await pilot.press("escape")
            await see(pilot, "What will be started")

    async def test_stopping_a_running_server_is_asked_first(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        stopped = journeys.at(Step.LAUNCH, worked=False)
        still.setattr(flow, "stop_server", lambda journey: stopped)
        async with opened(journeys.at(Step.LAUNCH)) as pilot:
            await pilot.press("x")
            await until(pilot, lambda: isinstance(pilot.app.screen, DecideModal))
            await pilot.press("tab", "enter")
            await see(pilot, "[Enter] start vLLM")

    async def test_a_long_log_is_drawn_in_batches_and_cut(
        self, opened: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        lines = tuple(LogLine(seconds=1.0, number=number, text=f"line {number}") for number in range(20_000))
        still.setattr(flow, "launch", launching(lines))
        async with opened(journeys.at(Step.LAUNCH, worked=False)) as pilot:
            await pilot.press("enter")
            log = pilot.app.screen.query_one(Log)
            await until(pilot, lambda: log.line_count and log.lines[-1] == "line 19999")
            assert log.line_count <= KEPT_LINES
            await until(pilot, lambda: log.is_vertical_scroll_end)
            await pilot.press("l")
            assert pilot.app.screen.query_one(LiveStart).has_class("-log")
            await pilot.press("x")
            await until(pilot, lambda: not pilot.app.screen.busy)

    async def test_a_log_made_larger_or_smaller_still_follows_its_end(
        self, opened: Any, see: Any, until: Any, shown: Any, still: pytest.MonkeyPatch
    ) -> None:
        emits: list[Emit] = []

        def launch(journey: Journey, emit: Emit, cancel: threading.Event) -> Journey:
            emits.append(emit)
            for event in journeys.EVENTS:
                emit(event)
            for number in range(50):
                emit(LogLine(seconds=180.0, number=number, text=f"line {number}"))
            assert cancel.wait(10)
            raise Cancelled("The start was stopped.")

        still.setattr(flow, "launch", launch)
        async with opened(journeys.at(Step.LAUNCH, worked=False)) as pilot:
            await pilot.press("enter")
            await see(pilot, "line 49", "[l] log larger")
            for number, name in ((60, "smaller"), (61, "larger")):
                await pilot.press("l")
                await see(pilot, f"[l] log {name}", "line 49" if number == 60 else "line 60")
                emits[0](LogLine(seconds=181.0, number=number, text=f"line {number}"))
                await see(pilot, f"line {number}")
            await pilot.press("x")
            await until(pilot, lambda: not pilot.app.screen.busy)

    async def test_the_command_can_be_copied(self, opened: Any, still: pytest.MonkeyPatch) -> None:
        async with opened(journeys.at(Step.LAUNCH, worked=False)) as pilot:
            await pilot.press("y")
            assert "/opt/vllm/bin/vllm serve Org/Qwen3-Coder-Next-FP8" in pilot.app.clipboard


class TestModel:
    async def test_what_cannot_run_is_shown_on_demand_and_not_taken(
        self, opened: Any, see: Any, until: Any, shown: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(journeys.at(Step.MODEL)) as pilot:
            assert "Qwen2.5-Coder-32B" not in shown(pilot)
            await pilot.press("a", "down", "down", "down")
            await see(pilot, "NO  Org/Qwen2.5-Coder-32B-BF16")
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, ReadModal))
            await see(pilot, "tool calls between <tools> tags")

    async def test_another_row_is_chosen_by_the_flow(
        self, opened: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        asked: list[tuple[str | None, str | None]] = []

        def choose(journey: Journey) -> Journey:
            asked.append((journey.answers.model.id, journey.answers.model.variant))
            return msgspec.structs.replace(journey, choice=journeys.CHOICE)

        still.setattr(
            flow, "rate_models", lambda journey: msgspec.structs.replace(journey, rows=journeys.ROWS)
        )
        still.setattr(flow, "choose_model", choose)
        still.setattr(flow, "make_plan", lambda journey: journeys.at(Step.BUDGET))
        async with opened(journeys.at(Step.MODEL)) as pilot:
            await pilot.press("down", "enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, BudgetScreen))
        assert asked == [("gpt-oss-120b", "mxfp4")]


class TestBudget:
    async def test_a_refused_plan_stops_here(self, opened: Any, see: Any, still: pytest.MonkeyPatch) -> None:
        async with opened(journeys.at(Step.BUDGET, plan=journeys.REFUSED)) as pilot:
            await pilot.press("enter")
            await pilot.pause()
            assert isinstance(pilot.app.screen, BudgetScreen)
            await see(pilot, "NO  opencode would tidy up for ever")

    async def test_a_wrong_figure_is_answered_beside_the_field(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        def refuse(journey: Journey) -> Journey:
            raise RefusedError("A window of 7 tokens is too short.", "Take at least 16,384.")

        still.setattr(flow, "make_plan", refuse)
        async with opened(journeys.at(Step.BUDGET)) as pilot:
            await pilot.press("7")
            await see(pilot, "too short. Take at least 16,384.")
            assert not isinstance(pilot.app.screen, ErrorModal)
            await pilot.press("enter")
            await until(pilot, lambda: not pilot.app.screen.busy)
            assert isinstance(pilot.app.screen, BudgetScreen)

    async def test_fields_and_the_cache_type_make_another_plan(
        self, opened: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        asked: list[tuple[object, ...]] = []

        def make_plan(journey: Journey) -> Journey:
            budget = journey.answers.budget
            asked.append((budget.max_model_len, budget.output, budget.concurrency, budget.kv_cache_dtype))
            return msgspec.structs.replace(journey, budget=journeys.BUDGET, plan=journeys.PLAN)

        still.setattr(flow, "make_plan", make_plan)
        async with opened(journeys.at(Step.BUDGET)) as pilot:
            await pilot.press("plus", "tab", "minus", "tab", "plus")
            # A slow machine may compute between two keys: what counts is what the fields said at last.
            await until(pilot, lambda: asked[-1:] == [(69632, 7168, 2, "auto")] and not pilot.app.screen.busy)
            await pilot.press("d")
            await until(pilot, lambda: asked[-1][-1] == "fp8")
            # From the computed 65,536 and 8,192; people from the 1 in the field.
            assert pilot.app.screen.query_one("#window", NumberField).value == "69632"
        assert asked[-2:] == [(69632, 7168, 2, "auto"), (69632, 7168, 2, "fp8")]

    async def test_a_click_on_more_means_the_field_used_last(
        self, opened: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(journeys.at(Step.BUDGET)) as pilot:
            pilot.app.screen.query_one("#people", NumberField).focus()
            await pilot.click("#key-more")
            assert pilot.app.screen.query_one("#people", NumberField).value == "2"
            assert pilot.app.screen.query_one("#window", NumberField).value == ""

    async def test_share_and_extra_prompt_are_fields_too(
        self, opened: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        asked: list[tuple[object, object]] = []

        def make_plan(journey: Journey) -> Journey:
            budget = journey.answers.budget
            asked.append((budget.gpu_memory_utilization, budget.extra_prompt_tokens))
            return msgspec.structs.replace(journey, budget=journeys.BUDGET, plan=journeys.PLAN)

        still.setattr(flow, "make_plan", make_plan)
        async with opened(journeys.at(Step.BUDGET)) as pilot:
            await pilot.press("tab", "tab", "tab", *"80", "tab", *"2500")
            await until(pilot, lambda: (0.8, 2500) in asked)
        assert asked[-1] == (0.8, 2500)

    async def test_measuring_the_prompt_makes_another_plan(
        self, opened: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        def measure(journey: Journey, cancel: object) -> Journey:
            return msgspec.structs.replace(journey, prompt=PromptSize(tokens=9, tools=1, origin="measured"))

        def make_plan(journey: Journey) -> Journey:
            return msgspec.structs.replace(journey, budget=journeys.BUDGET, plan=journeys.PLAN)

        still.setattr(flow, "measure_first_prompt", measure)
        still.setattr(flow, "make_plan", make_plan)
        async with opened(journeys.at(Step.BUDGET)) as pilot:
            await pilot.press("m")
            await until(pilot, lambda: pilot.app.screen.journey.prompt is not None)

    async def test_a_rehearsal_does_not_offer_to_measure(
        self, opened: Any, shown: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(journeys.at(Step.BUDGET, answers=journeys.SIMULATED)) as pilot:
            assert "measure prompt" not in shown(pilot)

    async def test_a_window_between_the_floors_offers_to_do_without_tools(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        asked: list[bool] = []

        def make_plan(journey: Journey) -> Journey:
            asked.append(journey.answers.budget.trim_tools)
            return msgspec.structs.replace(journey, budget=small, plan=journeys.PLAN)

        small = msgspec.structs.replace(
            journeys.BUDGET, opencode=msgspec.structs.replace(journeys.LIMITS, context=14336)
        )
        still.setattr(flow, "make_plan", make_plan)
        async with opened(journeys.at(Step.BUDGET, budget=small)) as pilot:
            await see(pilot, "[t] fewer tools")
            await pilot.press("t")
            await until(pilot, lambda: asked == [True])

    async def test_what_vllm_said_stands_beside_the_estimate(
        self, opened: Any, see: Any, still: pytest.MonkeyPatch
    ) -> None:
        said = EngineFigures(available_kv_gib=26.37, cache_tokens=1_151_000, max_concurrency=17.6)
        async with opened(journeys.at(Step.BUDGET, server=journeys.SERVER, figures=said)) as pilot:
            await see(pilot, "KV cache, GiB   24.1 c            26.37", "1,052,000 c       1,151,000")
            await see(pilot, "vLLM measured more room: a window of 262,144 tokens")
            await pilot.press("question_mark")
            await see(pilot, "KV cache 24.10 GiB c: what vLLM may take, less all of these")


class TestSmoke:
    async def test_checks_appear_as_they_come(
        self, opened: Any, see: Any, until: Any, shown: Any, still: pytest.MonkeyPatch
    ) -> None:
        go = threading.Event()

        def smoke(journey: Journey, tell: Callable[[object], None], cancel: threading.Event) -> Journey:
            tell(journeys.SMOKE_OK[0])
            assert go.wait(10)
            return msgspec.structs.replace(journey, smoke=journeys.FAILED)

        still.setattr(flow, "smoke_test", smoke)
        async with opened(journeys.at(Step.SMOKE, worked=False)) as pilot:
            await see(pilot, "served name")
            assert "streaming" not in shown(pilot)
            go.set()
            await see(pilot, "FAIL: opencode would not work")
            await pilot.press("v")
            await until(pilot, lambda: isinstance(pilot.app.screen, ReadModal))
            await see(pilot, '{"name": "add", "arguments"')
            await pilot.press("escape")
            still.setattr(flow, "smoke_test", lambda *given: journeys.at(Step.SMOKE))
            await pilot.press("r")
            await see(pilot, "PASS: tool calls work")


class TestOpencode:
    async def test_writing_then_proving(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        order: list[str] = []

        def write(journey: Journey) -> Journey:
            order.append("write")
            return msgspec.structs.replace(journey, change=journeys.WRITTEN)

        def prove(journey: Journey, cancel: threading.Event) -> Journey:
            order.append("prove")
            return msgspec.structs.replace(journey, proof=journeys.PROOF)

        still.setattr(flow, "write_configuration", write)
        still.setattr(flow, "prove", prove)
        async with opened(journeys.at(Step.OPENCODE, change=journeys.CHANGE, proof=None)) as pilot:
            await see(pilot, "[red]not markup[/red]")
            await pilot.press("enter")
            await see(pilot, "PROVED (opencode 1.18.2)")
            await see(pilot, "WRITTEN to /home/operator/.config/opencode/opencode.jsonc")
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, DoneScreen))
        assert order == ["write", "prove"]

    async def test_a_proof_that_breaks_keeps_what_was_written(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        def prove(journey: Journey, cancel: threading.Event) -> Journey:
            raise UsageError("opencode cannot be started.", "Check its installation.")

        still.setattr(
            flow,
            "write_configuration",
            lambda journey: msgspec.structs.replace(journey, change=journeys.WRITTEN),
        )
        still.setattr(flow, "prove", prove)
        async with opened(journeys.at(Step.OPENCODE, change=journeys.CHANGE, proof=None)) as pilot:
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, ErrorModal))
            await pilot.press("escape")
            assert pilot.app.screen.journey.change.written
            await see(pilot, "[Enter] next")

    async def test_what_is_as_it_should_be_is_not_written(
        self, opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        change = msgspec.structs.replace(journeys.CHANGE, action="unchanged", diff="", backup=None)
        async with opened(journeys.at(Step.OPENCODE, change=change, proof=None)) as pilot:
            await see(pilot, "already as it should be")
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(pilot.app.screen, DoneScreen))
            await see(pilot, "opencode -m vllm/")

    async def test_leaving_opencode_alone(
        self, opened: Any, until: Any, shown: Any, still: pytest.MonkeyPatch
    ) -> None:
        async with opened(journeys.at(Step.OPENCODE, change=journeys.CHANGE, proof=None)) as pilot:
            await pilot.press("s")
            await until(pilot, lambda: isinstance(pilot.app.screen, DoneScreen))
            assert "opencode -m vllm/" not in shown(pilot)

    async def test_in_a_new_file_the_tick_says_why_it_is_set(
        self, opened: Any, see: Any, shown: Any, still: pytest.MonkeyPatch
    ) -> None:
        created = msgspec.structs.replace(journeys.CHANGE, action="created", sets_globals=True)
        still.setattr(
            flow,
            "plan_configuration",
            lambda journey, *, unproven: msgspec.structs.replace(journey, change=created),
        )
        async with opened(journeys.at(Step.OPENCODE, worked=False)) as pilot:
            why = "(new file: nothing of yours in it)"
            await see(pilot, f"[x] also set what touches all providers {why}")
        async with opened(journeys.at(Step.OPENCODE, change=journeys.CHANGE, proof=None)) as pilot:
            await see(pilot, "[ ] also set what touches all providers (tidying up, tool output)")

    async def test_ticks_plan_the_change_again(
        self, opened: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        asked: list[tuple[bool, str, bool]] = []

        def plan(journey: Journey, *, unproven: bool) -> Journey:
            wanted = journey.answers.opencode
            asked.append((wanted.default_model, wanted.globals, wanted.private))
            return msgspec.structs.replace(journey, change=journeys.CHANGE)

        still.setattr(flow, "plan_configuration", plan)
        async with opened(journeys.at(Step.OPENCODE, change=journeys.CHANGE, proof=None)) as pilot:
            pilot.app.screen.query_one("#private", Tick).focus()
            await pilot.press("space")
            await until(pilot, lambda: asked and not pilot.app.screen.busy)
            pilot.app.screen.query_one("#project", Tick).focus()
            await pilot.press("space")
            await until(pilot, lambda: len(asked) == 2 and not pilot.app.screen.busy)
            assert pilot.app.screen.journey.answers.opencode.project == "/home/operator/project"
        assert asked == [(True, "no", True)] * 2

    async def test_after_a_failed_smoke_test_nothing_is_planned(
        self, opened: Any, until: Any, still: pytest.MonkeyPatch
    ) -> None:
        def plan(journey: Journey, *, unproven: bool) -> Journey:
            if unproven:
                return msgspec.structs.replace(journey, change=journeys.CHANGE)
            raise RefusedError("The smoke test failed.", "Test again.")

        still.setattr(flow, "plan_configuration", plan)
        async with opened(journeys.at(Step.OPENCODE, worked=False)) as pilot:
            await until(pilot, lambda: isinstance(pilot.app.screen, ErrorModal))
            await pilot.press("escape", "enter")
            assert isinstance(pilot.app.screen, OpencodeScreen)
            assert not pilot.app.screen.ready()


async def test_opencode_is_told_where_the_key_is(
    opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str | None, str | None]] = []

    def plan(journey: Journey, *, unproven: bool) -> Journey:
        asked.append(flow.key_places(journey.answers))
        return msgspec.structs.replace(journey, change=journeys.CHANGE)

    still.setattr(flow, "plan_configuration", plan)
    keyed = flow.answer(
        journeys.at(Step.OPENCODE, worked=False),
        Step.OPENCODE,
        serve=flow.ServeAnswers(api_key_file="/home/operator/key"),
    )
    async with opened(keyed) as pilot:
        await until(pilot, lambda: asked)
        await until(pilot, lambda: not pilot.app.screen.busy)
        await pilot.press("k")
        await until(pilot, lambda: isinstance(pilot.app.screen, AskModal))
        await pilot.press("ctrl+u", *"TEAM_KEY", "enter")
        await until(pilot, lambda: len(asked) == 2)
    assert asked == [("/home/operator/key", None), (None, "TEAM_KEY")]


async def test_opencode_is_installed_when_asked_for(
    opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    missing = [True]

    def install(journey: Journey, cancel: threading.Event) -> Journey:
        missing.clear()
        return journey

    still.setattr(flow, "client_missing", lambda _journey: bool(missing))
    still.setattr(flow, "install_client", install)
    still.setattr(
        flow, "prove", lambda journey, cancel: msgspec.structs.replace(journey, proof=journeys.PROOF)
    )
    async with opened(journeys.at(Step.OPENCODE)) as pilot:
        await see(pilot, "install opencode")
        await pilot.press("i")
        await see(pilot, "PROVED (opencode 1.18.2)")
        assert not missing


async def test_the_end_names_what_to_type(
    opened: Any, see: Any, until: Any, still: pytest.MonkeyPatch
) -> None:
    written: list[Journey] = []
    still.setattr(flow, "finish", written.append)
    async with opened(journeys.at(Step.DONE)) as pilot:
        await until(pilot, lambda: written)
        await see(pilot, "cd project; opencode -m vllm/qwen3-coder-next-fp8")
        await see(pilot, "vllm-opencode stop")
        await pilot.press("y")
        assert pilot.app.clipboard == "opencode -m vllm/qwen3-coder-next-fp8"


async def test_launch_is_where_a_planned_journey_stands(opened: Any, still: pytest.MonkeyPatch) -> None:
    async with opened(journeys.at(Step.LAUNCH, worked=False)) as pilot:
        assert isinstance(pilot.app.screen, LaunchScreen)


@pytest.mark.parametrize("anywhere", [True, False])
async def test_a_report_that_cannot_be_written_here_ends_nothing(
    opened: Any, see: Any, still: pytest.MonkeyPatch, tmp_path: Path, anywhere: bool
) -> None:
    """The working folder cannot be written: it goes to another, or a person is told that it went nowhere."""
    still.chdir("/proc")
    still.setattr("tempfile.tempdir", str(tmp_path) if anywhere else "/proc/nowhere")
    broken = msgspec.structs.replace(journeys.at(Step.DIAGNOSE), diagnosis=journeys.DIAGNOSIS)
    async with opened(broken) as pilot:
        await pilot.press("p")
        await see(pilot, "Read it before you send it" if anywhere else "Cannot write")
        await pilot.press("escape")
        await see(pilot, "What is broken, and what helps")
    assert bool(list(tmp_path.glob("vllm-opencode-fault-*.txt"))) == anywhere
