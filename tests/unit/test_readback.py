"""What a start measures is kept for these GPUs and this model, used next time, and shows a longer window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from wizard import paths, receipt
from wizard.budget import Residual, make_budget
from wizard.catalog import model
from wizard.compat import Choice
from wizard.flow import Answers, BudgetAnswers, Journey, longer_edit, save_progress, widen
from wizard.flow.prepare import make_plan
from wizard.flow.readback import comparison, fingerprint, longer_window, measurement, residual
from wizard.machine import Gpu, Machine, MemoryReading
from wizard.memory import EngineSettings
from wizard.runtime import Runtime
from wizard.serve import EngineFigures, Server


def h200() -> Gpu:
    return Gpu(
        index=0,
        name="NVIDIA H200",
        uuid="",
        compute_capability="9.0",
        memory_mib=143_771,
        memory_free_mib=143_000,
        memory_origin="measured",
        unified=False,
        bandwidth_gbs=4800.0,
        architecture="Hopper",
        links={},
    )


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journey:
    """A journey with a plan for Qwen3-Coder-30B-A3B, whose receipt lies in a folder of its own."""
    monkeypatch.setattr(paths, "state_dir", lambda: tmp_path)
    monkeypatch.setattr("wizard.flow.prompt.find_opencode", lambda given: None)
    monkeypatch.setattr("wizard.flow.prompt.extra_prompt", lambda **given: ())
    known = model("qwen3-coder-30b-a3b")
    machine = Machine(
        hostname="h",
        arch="x86_64",
        os="Linux",
        kernel="6",
        product=None,
        cpu_count=16,
        container=None,
        wsl=False,
        driver="580",
        cuda="13.0",
        gpus=(h200(),),
        nvlink_groups=(),
        memory=MemoryReading(total_mib=200_000, available_mib=190_000),
        disks=(),
        shm=None,
        problems=(),
    )
    choice = Choice(
        model=known.id,
        variant="bf16",
        checkpoint="org/model",
        quantization="bf16",
        config=known.config,
        context=known.context,
        weights_gib=56.9,
        thinks=known.thinks,
        gpus=(0,),
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        args=(),
        reasons=(),
        parser="qwen3_coder",
        reasoning_parser=None,
        served_model_name="model",
    )
    runtime = Runtime(
        kind="venv",
        path="/opt/vllm",
        command=("/opt/vllm/bin/vllm",),
        version="0.26.0",
        torch=None,
        cuda=None,
        cpu_build=False,
        tool_parsers=(),
        reasoning_parsers=(),
        flags=(),
    )
    answers = Answers(budget=BudgetAnswers(max_model_len=32768))
    return make_plan(Journey(answers=answers, machine=machine, runtime=runtime, choice=choice))


def started(planned: Journey, available: float | None, **figures: Any) -> Journey:
    server = Server(
        base_url="http://127.0.0.1:8000/v1",
        served_names=("model",),
        model="model",
        max_model_len=32768,
        version="0.26.0",
        started_by="wizard",
    )
    said = EngineFigures(available_kv_gib=available, weights_gib=57.0, **figures)
    return msgspec.structs.replace(planned, server=server, figures=said, started_here=True)


def expected(planned: Journey) -> float:
    assert planned.budget is not None
    assert planned.budget.memory is not None
    assert planned.budget.memory.available_kv_gib is not None
    return planned.budget.memory.available_kv_gib


def test_the_difference_is_kept_and_used_the_next_time(planned: Journey) -> None:
    before = expected(planned)
    save_progress(started(planned, before - 3.0))
    again = make_plan(msgspec.structs.replace(planned, budget=None, plan=None))
    assert expected(again) == pytest.approx(before - 3.0, abs=0.01)
    assert again.budget is not None
    assert again.budget.memory is not None
    memory = again.budget.memory
    assert memory.origins["available_kv_gib"] == memory.origins["weights_gib"] == "measured"
    assert memory.weights_gib == 57.0
    parts = (memory.weights_gib, memory.activation_gib, memory.graphs_gib, memory.other_gib)
    assert sum(part or 0.0 for part in parts) + expected(again) == pytest.approx(memory.requested_gib)


def test_what_was_learnt_is_not_added_twice(planned: Journey) -> None:
    before = expected(planned)
    save_progress(started(planned, before - 3.0))
    again = make_plan(msgspec.structs.replace(planned, budget=None, plan=None))
    save_progress(started(again, before - 2.0))
    kept = receipt.measurements(paths.receipt_path())
    assert len(kept) == 1
    third = make_plan(msgspec.structs.replace(planned, budget=None, plan=None))
    assert expected(third) == pytest.approx(before - 2.0, abs=0.01)


def test_it_holds_only_for_the_same_gpus_and_model(planned: Journey) -> None:
    save_progress(started(planned, expected(planned) - 3.0))
    assert residual(planned) is not None
    assert planned.choice is not None
    other = msgspec.structs.replace(planned.choice, checkpoint="org/other")
    assert residual(msgspec.structs.replace(planned, choice=other)) is None
    assert planned.runtime is not None
    newer = msgspec.structs.replace(planned.runtime, version="0.33.0")
    assert fingerprint(msgspec.structs.replace(planned, runtime=newer)) != fingerprint(planned)


def test_nothing_is_kept_of_what_was_not_measured_or_not_started_here(planned: Journey) -> None:
    assert measurement(started(planned, None)) is None
    found = msgspec.structs.replace(started(planned, 60.0), started_here=False)
    assert measurement(found) is None


def test_a_broken_receipt_is_left_where_it_is(planned: Journey) -> None:
    paths.receipt_path().write_text("not = [toml")
    assert residual(planned) is None
    assert paths.receipt_path().exists()


def test_estimate_and_truth_stand_side_by_side(planned: Journey) -> None:
    told = comparison(started(planned, 66.0, cache_tokens=720_000))
    assert told.vllm.available_kv_gib == 66.0
    assert told.estimate["available_kv_gib"] == expected(planned)
    assert told.max_model_len == 32768
    # 96 KiB a token: 66 GiB hold far more than the model's own 262,144 tokens.
    assert told.longer == 262_144


def test_a_longer_window_is_what_really_fits_in_whole_steps(planned: Journey) -> None:
    # 48 layers, 4 heads of 128, key and value, two bytes: 98,304 bytes a token.
    gib = 10.0
    fitting = int(gib * (1 << 30) / 98_304)
    longer = longer_window(started(planned, gib))
    assert longer == fitting // 1024 * 1024
    assert longer_window(started(planned, 3.0)) is None, "what runs already is as long"


def test_without_a_log_the_tokens_it_holds_are_safe(planned: Journey) -> None:
    assert longer_window(started(planned, None, cache_tokens=100_000)) == 97 * 1024


def test_the_longer_window_is_an_edit_of_the_plan(planned: Journey) -> None:
    journey = started(planned, 10.0)
    edit = longer_edit(journey)
    assert edit is not None
    assert edit.origin == "read-back"
    wide = widen(journey)
    assert wide.plan is not None
    assert planned.plan is not None
    window = edit.set["--max-model-len"]
    assert wide.plan.flag("--max-model-len") == window
    assert planned.plan.flag("--max-model-len") == "32768"
    assert wide.plan.edits[-1] == edit
    assert wide.plan.limits.context == int(window or 0)
    assert wide.server is None
    assert wide.figures is None


def test_a_residual_without_an_estimate_changes_nothing() -> None:
    budget = make_budget(
        gpu=h200(),
        weights_gib=None,
        config={"architectures": ["BrandNewForCausalLM"]},
        context=None,
        thinks=False,
        settings=EngineSettings(vllm_version="0.26.0"),
        residual=Residual(kv_gib=-1.0),
    )
    assert budget.memory is not None
    assert budget.memory.available_kv_gib is None
