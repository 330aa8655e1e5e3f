"""Weights before the start: what a launch does about them, and what the receipt and the tables say."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hub import REPO, Fault, Hub, serving

from wizard import cli, fetch
from wizard.compat import Choice
from wizard.errors import RefusedError
from wizard.fetch import FetchProgress, progress_words
from wizard.flow import Answers, Journey, ServeAnswers
from wizard.flow.records import _results
from wizard.flow.weights import Cancelled, bring_weights, order_of
from wizard.serve import Milestone

FILES = {"config.json": b"{}", "model.safetensors": b"w" * 5000}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(Path(fetch.__file__).parents[2]))
    for name in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "VLLM_USE_MODELSCOPE"):
        monkeypatch.delenv(name, raising=False)
    with serving(FILES) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def chosen(checkpoint: str = REPO, **serve: Any) -> Journey:
    choice = Choice(
        model="tiny",
        variant="",
        checkpoint=checkpoint,
        served_model_name="tiny",
        quantization="bf16",
        parser=None,
        reasoning_parser=None,
        thinks=False,
        weights_gib=None,
        config={},
        context=None,
        gpus=(),
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        args=(),
        reasons=(),
    )
    return Journey(answers=Answers(serve=ServeAnswers(**serve)), choice=choice)


def test_a_launch_brings_what_is_missing_and_the_receipt_says_so(hub: Hub) -> None:
    events: list[object] = []
    brought = bring_weights(chosen(), events.append, threading.Event())
    assert [event.id for event in events if isinstance(event, Milestone)] == ["weights"]
    assert fetch.presence(order_of(brought)).state == "whole"
    weights = _results(brought)["weights"]
    assert isinstance(weights, dict)
    assert weights["downloaded_bytes"] == sum(map(len, FILES.values()))
    hub.asked.clear()
    assert bring_weights(chosen(), events.append, threading.Event()).fetched is None
    assert hub.asked == [], "what is whole is not asked for"


def test_what_only_vllm_can_load_is_left_to_it(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for checkpoint in (str(tmp_path), "s3://bucket/model", "org/m:Q4_K_M"):
        assert bring_weights(chosen(checkpoint), pytest.fail, threading.Event()).fetched is None
    monkeypatch.setenv("VLLM_USE_MODELSCOPE", "1")
    bring_weights(chosen(), pytest.fail, threading.Event())
    assert hub.asked == []


def test_offline_is_said_before_vllm_is_started(hub: Hub) -> None:
    with pytest.raises(RefusedError, match="is not whole on this disk"):
        bring_weights(chosen(offline=True), pytest.fail, threading.Event())
    assert hub.asked == []


def test_a_stop_ends_the_download_it_began(hub: Hub) -> None:
    held, cancel = threading.Event(), threading.Event()
    hub.faults["cdn/model"] = Fault(cut_after=100, until=held)

    def stop_soon(event: object) -> None:
        if isinstance(event, FetchProgress):
            cancel.set()

    with pytest.raises(Cancelled):
        bring_weights(chosen(), stop_soon, cancel)
    assert fetch.running(order_of(chosen())) is None
    held.set()


def test_where_the_plan_sends_vllm_is_where_it_goes(hub: Hub, tmp_path: Path) -> None:
    journey = chosen(extra_args=("--download-dir", str(tmp_path / "weights"), "--revision", "main"))
    assert order_of(journey).download_dir == str(tmp_path / "weights")
    brought = bring_weights(journey, lambda event: None, threading.Event())
    assert brought.fetched is not None
    assert list((tmp_path / "weights").rglob("model.safetensors"))
    assert not list((tmp_path / "weights").rglob("config.json")), "vLLM reads it from the cache"


def run(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]], str]:
    code = cli.main(["--json", *words])
    out, err = capsys.readouterr()
    return code, [msgspec.json.decode(line) for line in out.splitlines()], err


def test_the_command_says_an_event_a_line(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    code, events, _err = run("fetch", "--model", REPO, "--yes", capsys=capsys)
    assert code == 0
    assert (events[0]["event"], events[-1]["event"]) == ("plan", "done")
    assert {"total_bytes", "missing_bytes", "free_bytes", "gated"} <= events[0].keys()
    progress = [event for event in events if event["event"] == "progress"]
    assert progress[-1]["done"] == progress[-1]["total"] == 5002
    code, events, _err = run("fetch", "--model", REPO, "--offline", capsys=capsys)
    assert (code, [event["event"] for event in events]) == (0, ["done"])


def test_the_command_asks_first(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    code, events, err = run("fetch", "--model", REPO, capsys=capsys)
    assert (code, [event["event"] for event in events]) == (2, ["plan", "error"])
    assert "--yes" in err
    assert fetch.presence(order_of(chosen())).state == "absent"


def test_an_unknown_name_is_one_line_and_no_traceback(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    code, events, err = run("fetch", "--model", "org/none", "--yes", capsys=capsys)
    assert (code, events[-1]["event"]) == (1, "error")
    assert "There is no org/none" in err


def test_a_simulation_downloads_nothing(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    code, events, _err = run("--simulate", "gb10", "fetch", "--yes", capsys=capsys)
    assert (code, [event["event"] for event in events]) == (0, ["plan"])
    assert hub.asked == []


def test_the_models_table_says_what_is_on_disk(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["--json", "models"])
    rows = msgspec.json.decode(capsys.readouterr().out)["rows"]
    assert {row["on_disk"]["state"] for row in rows} == {"absent"}
    checkpoint = rows[0]["checkpoint"]
    snapshot = tmp_path / "hf/hub" / f"models--{checkpoint.replace('/', '--')}" / "snapshots/abc"
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs/main").write_text("abc")
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors").write_bytes(b"12345")
    cli.main(["--json", "models"])
    rows = msgspec.json.decode(capsys.readouterr().out)["rows"]
    found = next(row["on_disk"] for row in rows if row["checkpoint"] == checkpoint)
    assert found == {"state": "whole", "bytes": 5}


@pytest.mark.parametrize(
    ("pace", "left", "words"),
    [
        (None, None, "20.00 of 80.00 GiB, 25 %"),
        (95_250_000, 676, "20.00 of 80.00 GiB, 25 %, 95.2 MB/s, 11 min left"),
        (9e6, 7150, "20.00 of 80.00 GiB, 25 %, 9.0 MB/s, 1 h 59 min left"),
        (9e6, 42, "20.00 of 80.00 GiB, 25 %, 9.0 MB/s, 42 s left"),
        (0, None, "20.00 of 80.00 GiB, 25 %, 0.0 MB/s, nothing comes at the moment"),
    ],
)
def test_progress_in_words(pace: float | None, left: float | None, words: str) -> None:
    event = FetchProgress(done=20 << 30, total=80 << 30, bytes_per_s=pace, seconds_left=left)
    assert progress_words(event) == words
    assert len(words) < 80
