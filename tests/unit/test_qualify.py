"""The smoke test as a load: a GPU that stays slow under it is told, and one elsewhere is not looked at."""

from __future__ import annotations

import threading

import msgspec
import pytest
from standin import TOOLS, serving

from wizard import flow
from wizard.flow import Answers, Journey, MachineAnswers, StartAnswers, qualify
from wizard.machine import Check, Machine
from wizard.smoke import SmokeCheck

STUCK = Check(
    id="low-power",
    status="warn",
    detail="GPU 0: 96 % busy, 14 W, 611 MHz.",
    hint="Off the mains.",
    command="",
)


@pytest.mark.parametrize(("ours", "told"), [(True, ["low-power"]), (False, [])])
def test_a_gpu_stuck_at_low_power_shows_under_the_test(
    monkeypatch: pytest.MonkeyPatch, ours: bool, told: list[str]
) -> None:
    def watch(machine: Machine, *, cancel: threading.Event) -> Check:
        assert machine.gpus
        return STUCK

    monkeypatch.setattr(qualify, "watch_load", watch)
    seen: list[SmokeCheck] = []
    with serving(*TOOLS, "--max-model-len", "65536") as (root, _standin):
        answers = Answers(
            start=StartAnswers(mode="connect", base_url=f"{root}/v1"), machine=MachineAnswers(simulate="gb10")
        )
        journey = flow.connect(flow.look_at_machine(Journey(answers=answers)))
        journey = msgspec.structs.replace(journey, started_here=ours)
        tested = flow.smoke_test(journey, seen.append, threading.Event())
    assert tested.smoke is not None
    assert tested.smoke.verdict == "pass"
    assert [
        check.id for check in tested.smoke.checks if not check.required and check.status == "warn"
    ] == told
    assert [check.detail for check in seen if check.id == "low-power"] == [STUCK.detail] * len(told)
