"""The child that tries parsers, run by this Python in an environment with a made-up, old vLLM."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from environments import Environment

from wizard.runtime import Runtime
from wizard.smoke.finder import RawText, Setting, asked_call
from wizard.smoke.finder import candidates as trying
from wizard.smoke.finder.candidates import try_parsers
from wizard.smoke.finder.types import Trial, Trials

TEXT = '<call>{"name": "add", "arguments": {"a": 17, "b": 25}}</call>'
MANAGER = """
    class Manager:
        lazy = {}
        @classmethod
        def list_registered(cls):
            return list(cls.lazy)
        @classmethod
        def get_tool_parser(cls, name):
            return cls.lazy[name]
        get_reasoning_parser = get_tool_parser
"""
REQUEST = """
    class ChatCompletionRequest:
        def __init__(self, model, messages, tools=None, tool_choice=None):
            self.tools, self.tool_choice = tools, tool_choice
"""
PARSERS = """
    import json
    import os
    import time
    from types import SimpleNamespace as Thing

    class Manager:
        lazy = {}
        @classmethod
        def list_registered(cls):
            return list(cls.lazy)
        @classmethod
        def get_tool_parser(cls, name):
            return cls.lazy[name]

    ToolParserManager = Manager

    class Good:
        def __init__(self, tokenizer, tools):
            self.tools, self.seen = tools, ""
        def call(self, text):
            body = json.loads(text.removeprefix("<call>").removesuffix("</call>"))
            assert body["name"] == self.tools[0]["function"]["name"]
            return Thing(name=body["name"], arguments=json.dumps(body["arguments"]))
        def extract_tool_calls(self, text, request):
            return Thing(content=None, tool_calls=[Thing(function=self.call(text))])
        def extract_tool_calls_streaming(self, before, now, piece, ids, now_ids, piece_ids, request):
            assert before + piece == now and ids + piece_ids == now_ids
            self.seen += piece
            if not now.endswith("</call>"):
                return None
            function = self.call(self.seen)
            return Thing(content=None, tool_calls=[Thing(index=0, function=function)])

    class Picky(Good):
        def __init__(self, tokenizer, tools):
            raise RuntimeError("no token <x> in the tokenizer")

    class Broken(Good):
        def extract_tool_calls(self, text, request):
            raise KeyError("name")

    class Stuck(Good):
        def extract_tool_calls(self, text, request):
            while True:
                try:
                    time.sleep(60)
                except Exception:
                    pass

    class Deaf(Good):
        def extract_tool_calls(self, text, request):
            while True:
                try:
                    time.sleep(60)
                except BaseException:
                    pass

    class Deadly(Good):
        def extract_tool_calls(self, text, request):
            os._exit(7)

"""
REASONING = MANAGER + "\n    ReasoningParserManager = Manager\n"


@pytest.fixture
def made_up(tmp_path: Path) -> Environment:
    environment = Environment(tmp_path / "venv")
    environment.module("vllm.entrypoints.openai.protocol", REQUEST)
    environment.module("vllm.reasoning", REASONING)
    return environment


def with_parsers(environment: Environment, *names: str) -> Runtime:
    """An old vLLM, whose tool parsers lie where those before 0.13 do."""
    listed = ", ".join(f'"{name}": {name.capitalize()}' for name in names)
    environment.module(
        "vllm.entrypoints.openai.tool_parsers", f"{PARSERS}\n    Manager.lazy = {{{listed}}}\n"
    )
    return Runtime(kind="venv", path=str(environment.home), command=(str(environment.program),))


def tried(runtime: Runtime, **options: object) -> Trials:
    texts = {"tool": RawText(text=TEXT, way="text")}
    return try_parsers(runtime, texts, asked_call().tools, Setting(), **options)  # type: ignore[arg-type]


def by_name(trials: Trials) -> dict[str, Trial]:
    return {trial.parser: trial for trial in trials.trials}


def test_a_good_parser_gives_the_call_whole_and_streamed(made_up: Environment) -> None:
    trials = tried(with_parsers(made_up, "good"))
    assert trials.problem == ""
    assert trials.tokenizer == ""
    (trial,) = trials.trials
    for reading in (trial.whole, trial.streamed):
        assert [(call.name, call.arguments) for call in reading.calls] == [("add", '{"a": 17, "b": 25}')]
        assert not reading.problem


def test_parsers_that_break_are_told_and_the_others_go_on(made_up: Environment) -> None:
    found = by_name(tried(with_parsers(made_up, "broken", "good", "picky")))
    assert found["broken"].whole.problem == "KeyError: 'name'"
    assert found["broken"].streamed.calls
    assert found["picky"].problem == "RuntimeError: no token <x> in the tokenizer"
    assert found["good"].whole.calls


@pytest.mark.parametrize("kind", ["stuck", "deaf", "deadly"])
def test_a_parser_without_end_is_cut_off_and_named(
    made_up: Environment, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(trying, "PARSER_S", 0.4)
    trials = tried(with_parsers(made_up, kind, "good"), deadline_s=30.0)
    found = by_name(trials)
    assert found[kind].hung
    assert found["good"].whole.calls
    assert trials.problem == ""


def test_a_vllm_that_cannot_be_imported_says_why(made_up: Environment) -> None:
    made_up.module("vllm.entrypoints.openai.tool_parsers", "raise ImportError('libcudart.so.13: not found')")
    runtime = Runtime(kind="venv", path="", command=(str(made_up.program),))
    trials = tried(runtime)
    assert trials.trials == ()
    assert "libcudart.so.13" in trials.problem


def test_a_cancel_is_heard(made_up: Environment) -> None:
    made_up.module("vllm.entrypoints.openai.tool_parsers", "import time\ntime.sleep(60)")
    runtime = Runtime(kind="venv", path="", command=(str(made_up.program),))
    cancel = threading.Event()
    cancel.set()
    began = time.monotonic()
    assert tried(runtime, cancel=cancel).trials == ()
    assert time.monotonic() - began < 10.0


def test_a_wrapper_hides_its_python(tmp_path: Path) -> None:
    wrapper = tmp_path / "vllm"
    wrapper.write_text("#!/bin/sh\nexec true\n")
    wrapper.chmod(0o755)
    trials = tried(Runtime(kind="command", path="", command=(str(wrapper), "--now")))
    assert trials.problem
    assert trials.trials == ()
