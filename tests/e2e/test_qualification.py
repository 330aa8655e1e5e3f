"""The whole smoke test against the real vLLM: right pairs of model and parser pass, wrong ones fail rightly.

The tiny checkpoints do exactly as they are told, so what is amiss is never the model's weakness.
"""

from __future__ import annotations

import time

import pytest
from serving import HERMES, QWEN3_CODER, UNREADABLE, WRONG_PARSER, Pairing, RunningServer

from wizard.serve import Server
from wizard.smoke import SmokeReport, run_smoke

UNDER_A_MINUTE_S = 60.0


CALLS = frozenset({"tool-call", "tool-call-stream"})
# A hint of the failed checks: for a format that nothing reads, and for one that another parser reads.
HINTS = {UNREADABLE: "No parser", WRONG_PARSER: "qwen3_coder"}

pytestmark = pytest.mark.parametrize(
    "pairing", [HERMES, QWEN3_CODER, UNREADABLE, WRONG_PARSER], indirect=True, ids=str
)


@pytest.fixture(scope="module")
def report(pairing: Pairing, running: RunningServer) -> SmokeReport:
    """The report on a pairing, made once for all tests."""
    server = Server(
        base_url=running.base_url,
        served_names=(running.name,),
        model=running.name,
        max_model_len=None,
        version=None,
        started_by="somebody else",
    )
    began = time.monotonic()
    made = run_smoke(server)
    assert time.monotonic() - began < UNDER_A_MINUTE_S
    return made


def test_the_verdict_is_that_of_the_pair(pairing: Pairing, report: SmokeReport) -> None:
    told = "\n".join(f"{check.status} {check.id}: {check.detail}" for check in report.checks)
    assert report.verdict == ("fail" if pairing in HINTS else "pass"), told
    failed = {check.id for check in report.checks if check.required and check.status == "fail"}
    assert failed == (CALLS if pairing in HINTS else set()), told
    assert all(HINTS.get(pairing, "") in check.hint for check in report.checks if check.id == "tool-call")
    assert report.server.max_model_len == 32768


def test_what_vllm_itself_does_is_found(report: SmokeReport) -> None:
    """vLLM 0.32: it clamps, refuses in words opencode knows, counts in streams, and frees its slots."""
    statuses = {check.id: check.status for check in report.checks}
    asked = ("models", "window", "chat", "tool-result", "parallel-results", "title", "finish")
    limits = ("output-limit", "over-long", "wrong-model", "cancel", "usage", "garbage")
    assert {id: statuses[id] for id in (*asked, *limits)} == dict.fromkeys((*asked, *limits), "ok")
    assert statuses["wrong-key"] == "skip"
