"""The verdict of the smoke test is kept, and opencode is not configured for a server that failed it."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from standin import TOOLS, serving

from wizard import flow, paths, receipt
from wizard.cli import main
from wizard.errors import RefusedError
from wizard.flow import Answers, Journey, StartAnswers


def cli(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["vllm-opencode", *words])
    code = main()
    said = capsys.readouterr()
    return code, said.out, said.err


def connected(root: str) -> Journey:
    return flow.connect(Journey(answers=Answers(start=StartAnswers(mode="connect", base_url=f"{root}/v1"))))


def test_configure_asks_the_verdict_of_an_earlier_smoke_test(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    target = own_home / "opencode.json"
    with serving(*TOOLS, "--rehearsal-fault", "swallowed") as (root, _standin):
        url = ("--base-url", f"{root}/v1")
        assert cli(capsys, monkeypatch, "smoke", *url, "--json")[0] == 1
        kept = receipt.load(paths.receipt_path())[0]
        assert kept is not None
        assert [(entry.model, entry.verdict) for entry in kept.verdicts] == [("tiny", "fail")]
        assert "swallowed" in kept.verdicts[0].failed
        assert kept.undo == ()

        code, _out, err = cli(capsys, monkeypatch, "configure", *url, "--path", str(target), "--yes")
        assert code == 1
        assert "smoke test" in err
        assert "--unproven" in err
        assert not target.exists()

        words = ("configure", *url, "--path", str(target), "--yes", "--unproven", "--json")
        code, out, _err = cli(capsys, monkeypatch, *words)
        assert code == 0
        assert json.loads(out)["warnings"][0].startswith("NOT PROVEN")
        assert target.exists()


def test_a_passed_test_opens_the_gate_again(own_home: Path) -> None:
    with serving(*TOOLS) as (root, _standin):
        journey = connected(root)
        assert flow.last_verdict(journey) is None
        spoilt = flow.smoke_test(journey, _ignore, threading.Event())
        flow.keep_verdict(spoilt)
        last = flow.last_verdict(journey)
        assert last is not None
        assert last.verdict == "pass"
        assert flow.plan_configuration(journey).change is not None
        other = flow.need(journey.server)
        assert receipt.verdict_of(paths.receipt_path(), other.base_url, "another") is None


def test_a_new_receipt_keeps_the_verdicts_and_a_verdict_keeps_the_receipt(own_home: Path) -> None:
    with serving(*TOOLS) as (root, _standin):
        tested = flow.smoke_test(connected(root), _ignore, threading.Event())
        flow.keep_verdict(tested)
        flow.finish(flow.forget(tested, flow.Step.SMOKE))
        made = receipt.load(paths.receipt_path())[0]
        assert made is not None
        assert [entry.verdict for entry in made.verdicts] == ["pass"]
        flow.keep_verdict(tested)
        after = receipt.load(paths.receipt_path())[0]
        assert after is not None
        assert (after.results, after.finished, len(after.verdicts)) == (made.results, True, 1)


def test_the_verdict_of_this_journey_wins_over_a_kept_one(own_home: Path) -> None:
    with serving(*TOOLS, "--rehearsal-fault", "tools-tag") as (root, _standin):
        failed = flow.smoke_test(connected(root), _ignore, threading.Event())
        with pytest.raises(RefusedError, match="smoke test failed") as refused:
            flow.plan_configuration(failed)
        assert "--unproven" in refused.value.hint
        change = flow.need(flow.plan_configuration(failed, unproven=True).change)
        assert "NOT PROVEN" in change.warnings[0]


def _ignore(_check: Any) -> None:
    return
