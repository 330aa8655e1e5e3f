"""The whole smoke test against the real vLLM: right pairs of model and parser pass, wrong ones fail rightly.

The tiny checkpoints do exactly as they are told, so what is amiss is never the model's weakness.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from realkit import RealKit
from serving import vllm_server

from wizard.serve import Server
from wizard.smoke import SmokeReport, run_smoke

UNDER_A_MINUTE_S = 60.0


@dataclass(frozen=True)
class Pair:
    """A wire format with a parser, the checks that must fail, and words of the hint that follows."""

    wire_format: str
    parser: str
    failing: frozenset[str] = field(default_factory=frozenset)
    hint: str = ""

    @property
    def right(self) -> bool:
        return not self.failing


CALLS = frozenset({"tool-call", "tool-call-stream"})
PAIRS = (
    Pair("hermes", "hermes"),
    Pair("qwen3_coder", "qwen3_coder"),
    Pair("tools_tag", "hermes", CALLS, "No parser"),
    Pair("qwen3_coder", "hermes", CALLS, "qwen3_coder"),
)


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: f"{pair.wire_format}-{pair.parser}")
def qualified(
    request: pytest.FixtureRequest,
    realkit: RealKit,
    checkpoints: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Pair, SmokeReport]:
    """A pair and the report on it; one start of the server for all tests."""
    pair: Pair = request.param
    flags = ["--enable-auto-tool-choice", "--tool-call-parser", pair.parser]
    log = tmp_path_factory.mktemp("qualification") / "vllm.log"
    with vllm_server(realkit, checkpoints / pair.wire_format, "tiny", flags, log) as running:
        server = Server(
            base_url=running.base_url,
            served_names=("tiny",),
            model="tiny",
            max_model_len=None,
            version=None,
            started_by="somebody else",
        )
        began = time.monotonic()
        report = run_smoke(server)
        assert time.monotonic() - began < UNDER_A_MINUTE_S
        return pair, report


def test_the_verdict_is_that_of_the_pair(qualified: tuple[Pair, SmokeReport]) -> None:
    pair, report = qualified
    told = "\n".join(f"{check.status} {check.id}: {check.detail}" for check in report.checks)
    assert report.verdict == ("pass" if pair.right else "fail"), told
    failed = {check.id for check in report.checks if check.required and check.status == "fail"}
    assert failed == pair.failing, told
    assert all(pair.hint in check.hint for check in report.checks if check.id == "tool-call")
    assert report.server.max_model_len == 32768


def test_what_vllm_itself_does_is_found(qualified: tuple[Pair, SmokeReport]) -> None:
    """vLLM 0.32: it clamps, refuses in words opencode knows, counts in streams, and frees its slots."""
    _pair, report = qualified
    statuses = {check.id: check.status for check in report.checks}
    asked = ("models", "window", "chat", "tool-result", "parallel-results", "title", "finish")
    limits = ("output-limit", "over-long", "wrong-model", "cancel", "usage", "garbage")
    assert {id: statuses[id] for id in (*asked, *limits)} == dict.fromkeys((*asked, *limits), "ok")
    assert statuses["wrong-key"] == "skip"
