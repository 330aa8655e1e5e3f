"""The parser finder with a real vLLM: it asks a real server, and tries that vLLM's own parsers.

Three wire formats: Qwen3-Coder's XML behind a wrong parser, cured by a new start; `<tools>`, which ends in
another model; and Hermes' JSON with a thought, where what the parsers do is compared with the recording that
the unit tests judge.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
from realkit import RealKit
from serving import free_port, vllm_environment, vllm_server

from wizard import flow
from wizard.flow import Journey
from wizard.flow.answers import (
    Answers,
    BudgetAnswers,
    ModelAnswers,
    RuntimeAnswers,
    ServeAnswers,
    StartAnswers,
)
from wizard.plan import describe
from wizard.runtime import Runtime
from wizard.smoke.finder import RawText, Setting, asked_call
from wizard.smoke.finder.candidates import try_parsers

RECORDED = Path(__file__).parents[1] / "data" / "parser_trials_0.32.0.json"
AUTO = ("--enable-auto-tool-choice", "--tool-call-parser")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are kept in a home of this test's own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def installed(kit: RealKit) -> Runtime:
    kept = ("HF_HUB_OFFLINE", "VLLM_CPU_KVCACHE_SPACE", "VLLM_NO_USAGE_STATS")
    env = {name: vllm_environment()[name] for name in kept}
    return Runtime(kind="venv", path="", command=(str(kit.vllm),), env=env, version="0.32.0", cpu_build=True)


@contextlib.contextmanager
def launched(kit: RealKit, checkpoint: Path, parser: str) -> Iterator[list[Journey]]:
    """A journey whose vLLM answers, as the last of a list that may grow; stopped in the end."""
    answers = Answers(
        runtime=RuntimeAnswers(command=(str(kit.vllm),)),
        model=ModelAnswers(
            id=f"tiny/{checkpoint.name}", path=str(checkpoint), served_name="tiny", parser=parser
        ),
        budget=BudgetAnswers(max_model_len=32768),
        serve=ServeAnswers(port=free_port(), extra_args=("--enforce-eager",), timeout_s=300),
    )
    journey = flow.look_at_machine(Journey(answers=answers), thorough=False)
    journey = msgspec.structs.replace(journey, runtime=installed(kit))
    journey = flow.make_plan(flow.choose_model(flow.rate_models(journey)))
    made = [flow.launch(journey, lambda _event: None, threading.Event())]
    try:
        yield made
    finally:
        flow.stop_server(made[-1])


def smoked(journey: Journey) -> Journey:
    return flow.smoke_test(journey, lambda _check: None, threading.Event())


def test_a_wrong_parser_is_found_out_and_the_new_start_is_green(realkit: RealKit, checkpoints: Path) -> None:
    cancel = threading.Event()
    with launched(realkit, checkpoints / "qwen3_coder", "hermes") as made:
        first = smoked(made[-1])
        assert first.smoke is not None
        assert first.smoke.verdict == "fail"
        search = flow.find_parsers(first, cancel)
        assert search.decided_by == "installed vLLM"
        assert search.best == "qwen3_coder"
        assert search.raw.startswith("<tool_call>\n<function=add>")
        edit = flow.parser_edit(first, search)
        assert edit is not None
        assert "+ --tool-call-parser qwen3_coder" in describe(edit)
        cured = flow.with_parsers(
            first, edit, emit=lambda _event: None, on_check=lambda _check: None, cancel=cancel
        )
        made.append(cured)
        assert cured.smoke is not None
        assert cured.smoke.verdict == "pass"
        assert flow.parser_edit(cured, search) is None
        assert _calls_add(cured)


def _calls_add(journey: Journey) -> bool:
    """Asked past the wizard: does the server return a call."""
    assert journey.server is not None
    tools = [{"type": "function", "function": msgspec.to_builtins(tool)} for tool in asked_call().tools]
    request = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Use the add tool to add 17 and 25."}],
        "tools": tools,
    }
    url = f"{journey.server.base_url}/chat/completions"
    answer = httpx.post(url, json=request, trust_env=False, timeout=60).json()
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    return bool(json.loads(call["function"]["arguments"]) == {"a": 17, "b": 25})


def test_tags_that_no_parser_reads_end_in_another_model(
    realkit: RealKit, checkpoints: Path, tmp_path: Path
) -> None:
    flags = (*AUTO, "hermes")
    with vllm_server(realkit, checkpoints / "tools_tag", "tiny", flags, tmp_path / "log") as server:
        answers = Answers(start=StartAnswers(mode="connect", base_url=server.base_url))
        journey = flow.connect(Journey(answers=answers, runtime=installed(realkit)))
        search = flow.find_parsers(journey, threading.Event())
    assert search.decided_by == "installed vLLM"
    assert "<tools>" in search.raw
    assert search.best is None
    assert len(search.candidates) > 50
    assert not any(candidate.ok for candidate in search.candidates)
    assert [advice.id for advice in search.advice] == ["swap-model", "parser-plugin", "chat-template"]
    assert "qwen3-coder-30b-a3b" in search.advice[0].models


def test_the_recorded_parsers_are_those_of_this_vllm(realkit: RealKit, checkpoints: Path) -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))["hermes"]
    texts = {
        kind: RawText(text=recorded[key], way="text")
        for kind, key in (("tool", "text"), ("reasoning", "words"))
    }
    setting = Setting(checkpoint=str(checkpoints / "hermes"))
    trials = try_parsers(installed(realkit), texts, asked_call().tools, setting)  # type: ignore[arg-type]
    assert trials.problem == ""
    told = {(trial.kind, trial.parser): msgspec.to_builtins(trial) for trial in trials.trials}
    assert set(told) == {(trial["kind"], trial["parser"]) for trial in recorded["trials"]}
    for trial in recorded["trials"]:
        mine = told[trial["kind"], trial["parser"]]
        for way in ("whole", "streamed"):
            assert list(mine[way]["calls"]) == trial.get(way, {}).get("calls", []), trial["parser"]
            assert mine[way]["content"] == trial.get(way, {}).get("content", ""), trial["parser"]
