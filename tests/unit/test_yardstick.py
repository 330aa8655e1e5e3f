"""What the limit of a server follows from: its plan, the GPUs of the plan, the weights of the checkpoint."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from launching import plan_for
from standin import server_at

from wizard.flow import Answers, Journey, MachineAnswers, look_at_machine, yardstick
from wizard.plan import LaunchPlan, Option
from wizard.smoke import Speed, SpeedReading

CHECKPOINT = "meta-llama/Llama-3.1-8B-Instruct"
READ = (8_030_261_248 - 128_256 * 4096) * 2
"""Bytes of Llama 3.1 8B in 16 bit without the table of embeddings."""
MEASURED = SpeedReading(speed=Speed(ttft_ms=1.0, decode_tps=10.0))


def plan(*options: tuple[str, str], **changes: Any) -> LaunchPlan:
    made = tuple(Option(flag=flag, value=value) for flag, value in options)
    named = {"model": "llama-3.1-8b", "checkpoint": CHECKPOINT, "base_options": made}
    return plan_for("vllm", "serve", CHECKPOINT, **(named | changes))


def journey() -> Journey:
    """Connected to a server, on a GB10 (273 GB/s)."""
    spark = look_at_machine(Journey(answers=Answers(machine=MachineAnswers(simulate="gb10"))), thorough=False)
    return msgspec.structs.replace(spark, server=server_at("http://127.0.0.1:9"), choice=None)


def told(monkeypatch: pytest.MonkeyPatch, found: LaunchPlan | None) -> Speed:
    monkeypatch.setattr(yardstick, "_plan_of", lambda journey: found)
    return yardstick.judged(journey(), MEASURED)


def test_a_plan_of_ours_gives_the_limit_of_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    speed = told(monkeypatch, plan())
    # The size in the table is the checkpoint's, rounded to a tenth of a GiB.
    assert speed.roofline_tps == pytest.approx(273e9 / READ, rel=0.01)
    assert speed.share == pytest.approx(10 * READ / 273e9, rel=0.01)
    assert speed.note == ""


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "not started from here"),
        (plan(("--speculative-config", "{}")), "several tokens"),
        (plan(checkpoint="/models/mine", model="mine"), "size of the weights"),
        (plan(("--kv-cache-dtype", "int3")), "int3"),
    ],
)
def test_where_something_is_unknown_there_is_no_limit_but_a_reason(
    monkeypatch: pytest.MonkeyPatch, found: LaunchPlan | None, why: str
) -> None:
    speed = told(monkeypatch, found)
    assert (speed.roofline_tps, speed.share, speed.decode_tps) == (None, None, 10.0)
    assert why in speed.note


def test_the_price_of_the_plan_is_told_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    brakes = told(monkeypatch, plan(base_options=(Option(flag="--enforce-eager"),))).brakes
    assert [cost.option for cost in brakes] == ["--enforce-eager"]
