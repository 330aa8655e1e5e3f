"""The numbered questions: answers, Back, the end of the input, and an interruption."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import journeys
import msgspec
import pytest

from screens.dialogue import Dialogue
from screens.plain import PlainWizard
from wizard import flow
from wizard.errors import LaunchError, RefusedError, UsageError
from wizard.flow import Journey, Step
from wizard.opencode import PromptSize


class Person:
    """Answers in order, then has nothing more to say; keeps what was written."""

    def __init__(self, answers: Iterable[str | type[BaseException]]) -> None:
        self._answers = iter(answers)
        self.read_lines: list[str] = []

    def type(self, question: str) -> str:
        """The next answer, or the exception that stands for a key."""
        self.read_lines.append(question)
        answer = next(self._answers, EOFError)
        if isinstance(answer, str):
            return answer
        raise answer

    def read(self, line: str) -> None:
        """What the wizard writes."""
        self.read_lines.append(line)

    @property
    def text(self) -> str:
        """Everything that was written and asked."""
        return "\n".join(self.read_lines)


def walk(journey: Journey, *answers: str | type[BaseException]) -> tuple[int, Person, PlainWizard]:
    """A run of the questions with these answers."""
    person = Person(answers)
    wizard = PlainWizard(journey, person.type, person.read)
    return wizard.run(), person, wizard


@pytest.fixture(autouse=True)
def nothing_is_done(still: pytest.MonkeyPatch) -> None:
    """Tests give back the work they need."""


def test_the_end_of_the_input_is_told() -> None:
    code, person, _wizard = walk(Journey())
    assert code == 2
    assert "The input ended before the wizard did. Unattended: vllm-opencode setup --yes" in person.text


def test_an_interruption_has_its_exit_code() -> None:
    code, person, _wizard = walk(Journey(), KeyboardInterrupt)
    assert code == 130
    assert person.read_lines[-1] == "Interrupted."


def test_q_leaves_and_b_goes_back() -> None:
    code, person, wizard = walk(journeys.at(Step.RUNTIME), "b", "b", "b", "q")
    assert code == 0
    assert wizard.journey.step is Step.START
    assert "Step 3 of 9: Runtime" in person.text
    assert "Step 1 of 9: Start" in person.text


def test_anything_but_a_number_is_asked_again() -> None:
    _code, person, _wizard = walk(journeys.at(Step.RUNTIME), "next", "7", "q")
    assert person.text.count("Please type a number from 1 to 4.") == 2


def test_a_model_is_chosen_by_its_number_and_explained(still: pytest.MonkeyPatch) -> None:
    still.setattr(flow, "rate_models", lambda journey: msgspec.structs.replace(journey, rows=journeys.ROWS))
    still.setattr(
        flow, "choose_model", lambda journey: msgspec.structs.replace(journey, choice=journeys.CHOICE)
    )
    _code, person, wizard = walk(journeys.at(Step.MODEL), "?", "2", "q")
    assert "1. Qwen3-Coder-Next, fp8, 75 GiB, 256k c, qwen3_coder, OK" in person.text
    assert "Qwen3-Coder-Next fp8: Fits with 21 GiB to spare for the KV cache." in person.text
    assert wizard.journey.answers.model.id == "gpt-oss-120b"
    assert wizard.journey.step is Step.BUDGET


def test_a_vllm_that_does_not_answer_is_not_kept(still: pytest.MonkeyPatch) -> None:
    def find(journey: Journey) -> Journey:
        if journey.answers.runtime.path is not None:
            raise UsageError("/nope does not answer as a vLLM.", "Check [runtime] in the answers.")
        return journey

    still.setattr(flow, "find_runtime", find)
    _code, person, wizard = walk(journeys.at(Step.RUNTIME), "3", "/nope", "1", "q")
    assert "Try again, and name another one." in person.read_lines
    assert "[runtime]" not in person.text
    assert wizard.journey.answers.runtime.path is None


def test_leaving_half_way_says_what_is_kept() -> None:
    _code, person, _wizard = walk(journeys.at(Step.RUNTIME), "q")
    assert person.read_lines[-1] == "Your answers are kept: the next start offers to go on."


def test_without_a_gpu_the_express_road_leads_to_a_rehearsal(still: pytest.MonkeyPatch) -> None:
    def choose(journey: Journey, emit: object) -> Journey:
        raise RefusedError("No usable GPU was found.", "vllm-opencode --simulate gb10")

    still.setattr(flow, "choose_for_me", choose)
    _code, person, _wizard = walk(Journey(), "1", "2", "q")
    assert "choose to rehearse on a recorded machine." in person.text
    assert "--simulate" not in person.text


def test_figures_are_asked_and_a_refused_plan_is_asked_again(still: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def make_plan(journey: Journey) -> Journey:
        window = journey.answers.budget.max_model_len
        asked.append(window)
        plan = journeys.REFUSED if window == 4096 else journeys.PLAN
        return msgspec.structs.replace(journey, budget=journeys.BUDGET, plan=plan)

    still.setattr(flow, "make_plan", make_plan)
    # Window, answers, people, share, type of the cache, extra prompt; then what to do with the figures.
    first = ("many", "4096", "", "", "", "", "", "")
    answers = (*first, "65536", "", "2", "80", "2", "0", "", "q")
    _code, person, wizard = walk(journeys.at(Step.BUDGET), *answers)
    assert asked == [4096, 65536]
    assert "Please type a whole number, or auto." in person.text
    assert "NO  opencode would tidy up for ever" in person.text
    assert wizard.journey.step is Step.LAUNCH
    budget = wizard.journey.answers.budget
    assert (budget.concurrency, budget.gpu_memory_utilization, budget.kv_cache_dtype) == (2, 0.8, "fp8")
    assert budget.extra_prompt_tokens == 0


def test_a_small_window_is_only_had_without_some_tools(still: pytest.MonkeyPatch) -> None:
    trimmed: list[bool] = []

    def make_plan(journey: Journey) -> Journey:
        trimmed.append(journey.answers.budget.trim_tools)
        return msgspec.structs.replace(journey, budget=journeys.BUDGET, plan=journeys.PLAN)

    still.setattr(flow, "make_plan", make_plan)
    _code, person, _wizard = walk(journeys.at(Step.BUDGET), "12288", "", "", "", "", "", "yes", "", "q")
    assert trimmed == [True]
    assert "only without these tools: question, skill, task" in person.text


def test_the_first_prompt_can_be_measured(still: pytest.MonkeyPatch) -> None:
    def measure(journey: Journey, cancel: object) -> Journey:
        size = PromptSize(tokens=11_200, tools=14, origin="computed")
        return msgspec.structs.replace(journey, prompt=size)

    def make_plan(journey: Journey) -> Journey:
        return msgspec.structs.replace(journey, budget=journeys.BUDGET, plan=journeys.PLAN)

    still.setattr(flow, "measure_first_prompt", measure)
    still.setattr(flow, "make_plan", make_plan)
    answers = ("", "", "", "", "", "", "3", "", "", "", "", "", "", "", "q")
    _code, person, wizard = walk(journeys.at(Step.BUDGET), *answers)
    assert "3. Let opencode say how long its first prompt is here" in person.text
    assert wizard.journey.prompt is not None
    assert wizard.journey.prompt.tokens == 11_200


def test_a_failed_start_is_quoted_and_left(still: pytest.MonkeyPatch) -> None:
    def launch(*given: object) -> Journey:
        raise LaunchError("vLLM did not come up: Triton Error", "Use another build.", journeys.EVIDENCE)

    still.setattr(flow, "launch", launch)
    code, person, wizard = walk(journeys.at(Step.LAUNCH, worked=False), "?", "1", "2", "q")
    assert code == 0
    assert (
        "--enable-auto-tool-choice: Without it vLLM refuses every request that offers tools." in person.text
    )
    assert journeys.EVIDENCE[1] in person.read_lines
    assert "This did not work: vLLM did not come up: Triton Error" in person.read_lines
    assert "Use another build." in person.read_lines
    assert wizard.journey.step is Step.BUDGET


def test_an_interrupted_start_is_stopped_by_the_flow(still: pytest.MonkeyPatch) -> None:
    def launch(*given: object) -> Journey:
        raise KeyboardInterrupt

    still.setattr(flow, "launch", launch)
    code, _person, _wizard = walk(journeys.at(Step.LAUNCH, worked=False), "1")
    assert code == 130


def test_no_gpu_leads_to_a_rehearsal(still: pytest.MonkeyPatch) -> None:
    still.setattr(
        flow, "look_at_machine", lambda journey: msgspec.structs.replace(journey, machine=journeys.spark())
    )
    _code, person, wizard = walk(journeys.at(Step.MACHINE, machine=journeys.spark(gpus=())), "3")
    assert "There is no NVIDIA GPU here that vLLM could use." in person.text
    assert wizard.journey.simulated


def test_connecting(still: pytest.MonkeyPatch) -> None:
    def connect(journey: Journey) -> Journey:
        if journey.answers.start.base_url != "http://10.0.0.7/v1":
            raise UsageError("Nobody answers there.", "Is vLLM running?")
        return msgspec.structs.replace(journey, server=journeys.SERVER)

    still.setattr(flow, "connect", connect)
    still.setattr(
        flow,
        "smoke_test",
        lambda journey, tell, cancel: msgspec.structs.replace(journey, smoke=journeys.PASSED),
    )
    _code, person, wizard = walk(Journey(), "3", "", "", "1", "3", "http://10.0.0.7/v1", "")
    assert "This did not work: Nobody answers there." in person.text
    assert "Step 2 of 4: Smoke test" in person.text
    assert wizard.journey.step is Step.SMOKE


def test_a_failed_smoke_test_can_only_be_passed_over(still: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def smoke(journey: Journey, tell: Callable[[object], None], cancel: object) -> Journey:
        for check in journeys.FAILED.checks:
            tell(check)
        return msgspec.structs.replace(journey, smoke=journeys.FAILED)

    def plan(journey: Journey, *, unproven: bool) -> Journey:
        seen.append(unproven)
        return msgspec.structs.replace(journey, change=journeys.CHANGE)

    still.setattr(flow, "smoke_test", smoke)
    still.setattr(flow, "plan_configuration", plan)
    _code, person, _wizard = walk(journeys.at(Step.SMOKE, worked=False), "2", "q")
    assert "FAIL  tool call, streaming: The call came as text: <tools>" in person.text
    assert seen == [True]


def test_writing_and_proving(still: pytest.MonkeyPatch) -> None:
    asked: list[tuple[bool, str, bool]] = []

    def plan(journey: Journey, *, unproven: bool) -> Journey:
        wanted = journey.answers.opencode
        asked.append((wanted.default_model, wanted.globals, wanted.private))
        return msgspec.structs.replace(journey, change=journeys.CHANGE)

    still.setattr(flow, "plan_configuration", plan)
    still.setattr(
        flow, "write_configuration", lambda journey: msgspec.structs.replace(journey, change=journeys.WRITTEN)
    )
    still.setattr(
        flow, "prove", lambda journey, cancel: msgspec.structs.replace(journey, proof=journeys.PROOF)
    )
    typed = ("2", "no", "perhaps", "y", "", "", "1")
    code, person, _wizard = walk(journeys.at(Step.OPENCODE, worked=False), *typed)
    assert code == 0
    assert asked == [(True, "ask", False), (False, "yes", False)]
    assert "Please type yes or no." in person.text
    assert "PROVED (opencode 1.18.2): opencode wrote a file through a tool call." in person.text
    assert (
        "vLLM goes on at http://127.0.0.1:8000/v1. Stop it with: vllm-opencode stop" in person.read_lines[-1]
    )


@pytest.mark.parametrize(("answer", "stopped"), [("yes", 1), ("", 0)])
def test_leaving_a_running_server_asks(still: pytest.MonkeyPatch, answer: str, stopped: int) -> None:
    calls: list[Journey] = []
    still.setattr(flow, "stop_server", calls.append)
    code, _person, _wizard = walk(journeys.at(Step.LAUNCH), "q", answer)
    assert code == 0
    assert len(calls) == stopped


def test_the_input_ends_while_a_server_runs(still: pytest.MonkeyPatch) -> None:
    code, person, _wizard = walk(journeys.at(Step.LAUNCH))
    assert code == 2
    assert "vLLM goes on at" in person.text


def test_diagnosing_ends_the_road(still: pytest.MonkeyPatch) -> None:
    still.setattr(flow, "examine_trouble", lambda journey, cancel: journey)
    code, person, _wizard = walk(journeys.diagnosing(), "3")
    assert code == 0
    assert "FAILED: here is why. (412 lines read)" in person.text
    assert "  line 412  RuntimeError: Triton Error [CUDA]: operation not permitted" in person.read_lines


def test_a_remedy_is_applied_to_the_plan(still: pytest.MonkeyPatch) -> None:
    started: list[Journey] = []

    def launch(journey: Journey, emit: object, cancel: object) -> Journey:
        started.append(journey)
        if len(started) == 1:
            raise flow.StartFailed("vLLM did not come up.", found=journeys.DIAGNOSIS)
        raise KeyboardInterrupt

    still.setattr(flow, "launch", launch)
    code, person, _wizard = walk(journeys.at(Step.LAUNCH, worked=False), "1", "1", "1")
    assert code == 130
    assert "+ VLLM_USE_FLASHINFER_SAMPLER=1" in person.text
    assert started[1].plan is not None
    assert started[1].plan.env["VLLM_USE_FLASHINFER_SAMPLER"] == "1"


def test_a_text_of_several_lines_is_several_lines() -> None:
    written: list[str] = []
    Dialogue(lambda question: "", written.append).say("one\ntwo", "")
    assert written == ["one", "two", ""]
