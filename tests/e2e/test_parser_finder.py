"""The parser finder with a real vLLM: it asks a real server, and tries that vLLM's own parsers.

Three wire formats: Qwen3-Coder's XML behind a wrong parser; `<tools>`, which ends in another model; and
Hermes' JSON with a thought, where what the parsers do is compared with the recording that the unit tests
judge. The cure of a server that was started here, by a new start, stands in `test_cures.py`.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

import msgspec
import pytest
from realkit import RealKit
from serving import UNREADABLE, WRONG_PARSER, RunningServer, vllm_variables

from wizard import flow
from wizard.adopt import adopt
from wizard.errors import RefusedError
from wizard.flow import Journey
from wizard.flow.answers import Answers, StartAnswers
from wizard.plan import describe
from wizard.runtime import Runtime
from wizard.smoke.finder import RawText, Setting, asked_call
from wizard.smoke.finder.candidates import try_parsers

RECORDED = Path(__file__).parents[1] / "data" / "parser_trials_0.32.0.json"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are kept in a home of this test's own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def installed(kit: RealKit) -> Runtime:
    command, variables = (str(kit.vllm),), vllm_variables()
    return Runtime(kind="venv", path="", command=command, env=variables, version="0.32.0", cpu_build=True)


def connected(running: RunningServer, kit: RealKit) -> Journey:
    """A journey to a server that runs, with the vLLM that is installed beside it."""
    answers = Answers(start=StartAnswers(mode="connect", base_url=running.base_url))
    return flow.connect(Journey(answers=answers, runtime=installed(kit)))


@pytest.mark.parametrize("pairing", [WRONG_PARSER], indirect=True, ids=str)
def test_a_wrong_parser_is_found_out_with_the_one_that_fits(running: RunningServer, realkit: RealKit) -> None:
    cancel = threading.Event()
    port = running.base_url.rsplit(":", 1)[1].removesuffix("/v1")
    journey = msgspec.structs.replace(connected(running, realkit), plan=adopt(f"port:{port}").plan)
    search = flow.find_parsers(journey, cancel)
    assert search.decided_by == "installed vLLM"
    assert search.best == "qwen3_coder"
    assert search.raw.startswith("<tool_call>\n<function=add>")
    edit = flow.parser_edit(journey, search)
    assert edit is not None
    assert "+ --tool-call-parser qwen3_coder" in describe(edit)
    with pytest.raises(RefusedError, match="not started from here"):
        flow.with_parsers(
            journey, edit, emit=lambda _event: None, on_check=lambda _check: None, cancel=cancel
        )


@pytest.mark.parametrize("pairing", [UNREADABLE], indirect=True, ids=str)
def test_tags_that_no_parser_reads_end_in_another_model(running: RunningServer, realkit: RealKit) -> None:
    search = flow.find_parsers(connected(running, realkit), threading.Event())
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
