"""The way of the finder against the stand-in as a real process, and raw texts from odd servers."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standin import TOOLS, Reply, plain, scripted, serving

from wizard import flow
from wizard.cli import main
from wizard.errors import RefusedError
from wizard.flow import Journey
from wizard.flow import serving as flow_serving
from wizard.flow.answers import Answers, MachineAnswers, StartAnswers
from wizard.plan import PlanEdit, describe
from wizard.smoke.exchange import Line
from wizard.smoke.finder import raw_texts
from wizard.smoke.trouble import Trouble

HERMES = '<tool_call>\n{"name": "add", "arguments": {"a": 17, "b": 25}}\n</tool_call>'
UNFIT = ("--rehearsal-fault", "parser-unfit")


def connected(root: str) -> Journey:
    answers = Answers(start=StartAnswers(mode="connect", base_url=f"{root}/v1"))
    return flow.connect(Journey(answers=answers))


@pytest.mark.parametrize(
    ("options", "best", "format"),
    [
        (TOOLS, "hermes", "json-in-tool-call"),
        (
            ("--enable-auto-tool-choice", "--tool-call-parser", "qwen3_xml"),
            "qwen3_coder",
            "functions-in-tool-call",
        ),
        ((*TOOLS, *UNFIT), "mistral", "mistral"),
        ((*TOOLS, "--rehearsal-fault", "tools-tag"), None, "qwen2.5-coder-tools"),
        ((*TOOLS, "--rehearsal-fault", "swallowed"), "hermes", "json-in-tool-call"),
        ((), "hermes", "json-in-tool-call"),
    ],
    ids=["hermes", "xml", "unfit", "tools-tag", "swallowed", "no parser at all"],
)
def test_what_the_stand_in_writes_is_recognised(
    options: tuple[str, ...], best: str | None, format: str
) -> None:
    with serving(*options) as (root, _standin):
        search = flow.find_parsers(connected(root), threading.Event())
    assert search.best == best
    assert search.format == format
    assert search.way == "completions"
    assert search.decided_by == "wire-format table"
    assert bool(search.advice) == (best is None)


def test_a_rehearsal_is_cured_by_the_parser_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong parser, failed test, search, edit, new start, passed test: the whole way."""
    monkeypatch.setattr(flow_serving, "REHEARSAL_PACE_S", 0.0)
    monkeypatch.setattr(flow_serving, "rehearsed_pace", lambda _journey: 4000.0)
    cancel = threading.Event()
    journey = Journey(
        answers=Answers(
            start=StartAnswers(mode="rehearse", fault="parser-unfit"), machine=MachineAnswers(simulate="gb10")
        )
    )
    journey = flow.choose_for_me(journey, lambda _event: None)
    with contextlib.ExitStack() as stack:
        journey = flow.launch(journey, lambda _event: None, cancel)
        stack.callback(lambda: flow.stop_server(journey))
        journey = flow.smoke_test(journey, lambda _check: None, cancel)
        assert journey.smoke is not None
        assert journey.smoke.verdict == "fail"
        search = flow.find_parsers(journey, cancel)
        edit = flow.parser_edit(journey, search)
        assert edit is not None
        assert edit.origin == "parser finder"
        assert "+ --tool-call-parser mistral" in describe(edit)
        first = journey.run
        journey = flow.with_parsers(
            journey, edit, emit=lambda _event: None, on_check=lambda _check: None, cancel=cancel
        )
        assert journey.run != first
        assert journey.smoke is not None
        assert journey.smoke.verdict == "pass"
        assert journey.plan is not None
        assert journey.plan.parser == journey.answers.model.parser == "mistral"
        assert flow.parser_edit(journey, flow.find_parsers(journey, cancel)) is None


@pytest.mark.parametrize(("cure", "found"), [("ask", True), ("never", False)])
def test_the_set_up_without_screens_goes_on_with_the_parser_that_fits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cure: str, found: bool
) -> None:
    monkeypatch.setattr(flow_serving, "REHEARSAL_PACE_S", 0.0)
    monkeypatch.setattr(flow_serving, "rehearsed_pace", lambda _journey: 4000.0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    raw = {
        "start": {"fault": "parser-unfit"},
        "machine": {"simulate": "gb10"},
        "serve": {"cure": cure, "port": flow.free_port()},
        "opencode": {"proof": False},
    }
    events: list[object] = []

    def whole_road() -> Journey:
        return flow.run_setup(
            flow.answers_from(raw, "test"),
            emit=events.append,
            consent=lambda _summary: None,
            cancel=threading.Event(),
        )

    if not found:
        with pytest.raises(RefusedError):
            whole_road()
        return
    done = whole_road()
    assert done.smoke is not None
    assert done.smoke.verdict == "pass"
    notes = [event.text for event in events if isinstance(event, flow.NoteEvent)]
    assert any("--tool-call-parser mistral" in note for note in notes)


def test_a_server_of_others_is_not_started_anew() -> None:
    with serving(*TOOLS, *UNFIT) as (root, _standin):
        journey = connected(root)
        search = flow.find_parsers(journey, threading.Event())
    assert search.best == "mistral"
    assert flow.parser_edit(journey, search) is None
    edit = PlanEdit(origin="parser finder", title="", set={"--tool-call-parser": "mistral"})
    with pytest.raises(RefusedError, match="--tool-call-parser mistral"):
        flow.with_parsers(
            journey, edit, emit=lambda _: None, on_check=lambda _: None, cancel=threading.Event()
        )


def test_the_command_asks_the_server_and_hides_the_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "sk-finder-0123456789"
    monkeypatch.setenv("FINDER_KEY", key)
    with serving(*TOOLS, *UNFIT, "--api-key", key) as (root, _standin):
        code = main(["parsers", "--base-url", f"{root}/v1", "--api-key-env", "FINDER_KEY", "--json"])
    told = capsys.readouterr()
    assert code == 0
    assert json.loads(told.out)["best"] == "mistral"
    assert key not in told.out + told.err


def completions_only_by_ids(request: dict[str, Any]) -> Reply:
    """A server in front of vLLM that hides /tokenize: chat answers with token ids."""
    if "tokens" in request:
        return Reply(json.dumps({"prompt": HERMES if request["tokens"] == [1, 2, 3] else "?"}))
    if "messages" in request and "return_token_ids" in request:
        message = {"role": "assistant", "content": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "token_ids": [1, 2, 3, 99]}
        return Reply(json.dumps({"choices": [choice], "prompt_token_ids": [7, 8]}))
    return Reply("{}", status=404)


def only_chat(request: dict[str, Any]) -> Reply:
    """A gateway that knows nothing but chat, and drops what it does not know."""
    if "messages" not in request or "add_generation_prompt" in request:
        return Reply('{"detail": "Not Found"}', status=404)
    return plain(HERMES if request.get("tool_choice") == "none" else "swallowed")


def cut_short_first(request: dict[str, Any]) -> Reply:
    """Thinks beyond the first limit."""
    if "add_generation_prompt" in request:
        return Reply(json.dumps({"tokens": [5]}))
    cut = request["max_tokens"] < 1000
    text = "<think>Hm" if cut else f"<think>Hm</think>{HERMES}"
    choice = {"index": 0, "text": text, "finish_reason": "length" if cut else "stop"}
    return Reply(json.dumps({"choices": [choice]}))


@contextlib.contextmanager
def line_to(answer: Any) -> Iterator[Line]:
    with scripted(answer) as (root, _asked), contextlib.closing(Line(f"{root}/v1", None, None)) as line:
        yield line


@pytest.mark.parametrize(
    ("answer", "way", "text"),
    [
        (completions_only_by_ids, "token ids", HERMES),
        (only_chat, "tool_choice none", HERMES),
        (cut_short_first, "completions", f"<think>Hm</think>{HERMES}"),
    ],
)
def test_the_text_is_had_by_the_first_way_that_works(answer: Any, way: str, text: str) -> None:
    with line_to(answer) as line:
        call, _words = raw_texts(line, "tiny", None)
    assert (call.way, call.text) == (way, text)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply('{"error":"Unauthorized"}', status=401), "key-refused"),
        (Reply("<html>502 Bad Gateway</html>", status=502), "gateway"),
        (Reply("<html>hello</html>"), "unreadable"),
        (Reply('{"choices": []}'), "unreadable"),
        (Reply('{"tokens": [1]}', cut=True), "broken-off"),
    ],
)
def test_a_server_that_gives_no_text_is_told(reply: Reply, code: str) -> None:
    with line_to(lambda _request: reply) as line, pytest.raises(Trouble) as raised:
        raw_texts(line, "tiny", None)
    assert raised.value.code == code
    assert raised.value.hint


def test_an_answer_in_words_is_asked_for_again() -> None:
    asked: list[str] = []

    def answer(request: dict[str, Any]) -> Reply:
        if "add_generation_prompt" in request:
            asked.append(request["messages"][0]["content"])
            return Reply(json.dumps({"tokens": [5]}))
        text = "Forty-two." if len(asked) == 1 else HERMES
        return Reply(json.dumps({"choices": [{"text": text, "finish_reason": "stop"}]}))

    with line_to(answer) as line:
        call, _words = raw_texts(line, "tiny", None)
    assert call.text == HERMES
    assert len(set(asked[:2])) == 2
