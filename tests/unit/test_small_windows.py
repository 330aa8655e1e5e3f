"""Small windows at the client: tools are given up by consent, and what is really written is what is safe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from wizard.errors import RefusedError
from wizard.flow import Answers, BudgetAnswers, Journey, OpencodeAnswers, StartAnswers, plan_configuration
from wizard.opencode.jsonc import parse
from wizard.serve import Server


@pytest.fixture
def connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A journey at the client of a server with a window, and an opencode of a version."""

    def at(window: int, version: str = "1.18.33", trim: bool = False, **opencode: Any) -> Journey:
        monkeypatch.setattr("wizard.flow.client.find_opencode", lambda given: "opencode")
        monkeypatch.setattr("wizard.flow.client.opencode_version", lambda binary: version)
        monkeypatch.setattr("wizard.flow.prompt.find_opencode", lambda given: None)
        monkeypatch.setattr("wizard.flow.prompt.extra_prompt", lambda **given: ())
        server = Server(
            base_url="http://127.0.0.1:8000/v1",
            served_names=("m",),
            model="m",
            max_model_len=window,
            version="0.33.0",
            started_by="somebody else",
        )
        answers = Answers(
            start=StartAnswers(mode="connect"),
            budget=BudgetAnswers(trim_tools=trim),
            opencode=msgspec.convert({"path": str(tmp_path / "opencode.json"), **opencode}, OpencodeAnswers),
        )
        return Journey(answers=answers, server=server)

    return at


def written(journey: Journey) -> dict[str, Any]:
    change = plan_configuration(journey).change
    assert change is not None
    document = parse(change.after.decode())
    assert isinstance(document, dict)
    return document


def test_between_the_floors_it_is_refused_with_what_would_do(connected: Any) -> None:
    with pytest.raises(RefusedError, match="Without its tools question"):
        plan_configuration(connected(12288))


def test_agreed_to_the_tools_are_denied_in_the_file(connected: Any) -> None:
    document = written(connected(12288, trim=True))
    assert document["permission"]["websearch"] == "deny"
    limit = document["provider"]["vllm"]["models"]["m"]["limit"]
    assert limit == {"context": 12288, "input": 11264, "output": 1024}


def test_a_no_to_what_touches_all_providers_holds_for_tools_too(connected: Any) -> None:
    with pytest.raises(RefusedError, match="touches all providers"):
        plan_configuration(connected(12288, trim=True, globals="no"))


def test_without_its_reserve_opencode_2_is_refused_in_a_small_window(connected: Any) -> None:
    """It keeps 20,000 of 32,768 tokens free unless compaction.reserved says less."""
    with pytest.raises(RefusedError, match="opencode 2 keeps 20,000"):
        plan_configuration(connected(32768, "2.0.12", globals="no"))
    document = written(connected(32768, "2.0.12", globals="yes"))
    assert document["compaction"] == {"reserved": 4096}
    assert written(connected(32768, "1.18.33", globals="no"))["provider"]["vllm"]
    assert written(connected(131072, "2.0.12", globals="no"))["provider"]["vllm"]
