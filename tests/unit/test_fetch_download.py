"""Downloads by the real huggingface_hub and our own process, from a hub that goes wrong in every way."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hub import COMMIT, REPO, Fault, Hub, serving, sha256

from wizard import fetch
from wizard.errors import FetchError, RefusedError, WizardError
from wizard.fetch import Fetched, FetchEvent, FetchPlan, FetchProgress, FetchWaiting, Job, Order
from wizard.fetch.job import is_alive

DEADLINE_S = 20.0
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
_random = random.Random(4)
FILES = {
    "config.json": b'{"architectures": ["Qwen3ForCausalLM"]}',
    "tokenizer.json": _random.randbytes(3000),
    "model.safetensors.index.json": json.dumps({"weight_map": {"a": SHARDS[0], "b": SHARDS[1]}}).encode(),
    SHARDS[0]: _random.randbytes(300_000),
    SHARDS[1]: _random.randbytes(200_000),
    "README.md": b"# tiny",
    "original/consolidated.00.pth": _random.randbytes(5000),
}
LOADED = sum(len(FILES[name]) for name in FILES if name not in ("README.md", "original/consolidated.00.pth"))


@pytest.fixture(autouse=True)
def own_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_TOKEN", "HF_ENDPOINT", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "VLLM_USE_MODELSCOPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(Path(fetch.__file__).parents[2]))


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(FILES) as server:
        yield server


@pytest.fixture
def begun() -> Iterator[list[Job]]:
    """Whatever a test began is ended."""
    jobs: list[Job] = []
    yield jobs
    for job in jobs:
        fetch.stop(job)


def order(hub: Hub, **env: str) -> Order:
    return Order(checkpoint=REPO, env={"HF_ENDPOINT": hub.url, **env})


def bring(wanted: Order) -> list[FetchEvent]:
    job = fetch.start(fetch.look(wanted), wanted)
    try:
        return list(fetch.follow(job, threading.Event()))
    finally:
        fetch.stop(job)


def content(tmp_path: Path, name: str) -> bytes:
    return (tmp_path / "hf/hub/models--org--tiny/snapshots" / COMMIT / name).read_bytes()


def part(tmp_path: Path, name: str) -> Path:
    return tmp_path / "hf/hub/models--org--tiny/blobs" / f"{sha256(FILES[name])}.incomplete"


def until(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < ends, "it did not come to this in time"
        time.sleep(0.01)


def test_what_vllm_loads_is_brought_and_nothing_else(hub: Hub, tmp_path: Path) -> None:
    plan = fetch.look(order(hub))
    assert (plan.total_bytes, plan.missing_bytes, plan.fits) == (LOADED, LOADED, True)
    assert not (tmp_path / "hf").exists(), "a look writes nothing"
    events = bring(order(hub))
    assert isinstance(events[0], FetchPlan)
    assert isinstance(events[-1], Fetched)
    assert events[-1].downloaded_bytes == LOADED
    assert all(content(tmp_path, file.path) == FILES[file.path] for file in plan.files)
    assert not (tmp_path / "hf/hub/models--org--tiny/snapshots" / COMMIT / "README.md").exists()
    assert fetch.presence(order(hub)).state == "whole"
    assert fetch.look(order(hub)).files == ()


def test_vllms_own_look_finds_it_offline(hub: Hub, tmp_path: Path) -> None:
    bring(order(hub))
    program = (
        "from huggingface_hub import snapshot_download as s;"
        f"print(s('{REPO}', allow_patterns=['*.safetensors', '*.json'], local_files_only=True))"
    )
    environ = {**os.environ, "HF_HUB_OFFLINE": "1"}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip().endswith(f"snapshots/{COMMIT}")


def test_a_cut_connection_goes_on_in_the_middle(hub: Hub, tmp_path: Path) -> None:
    hub.faults["cdn/model-00001"] = Fault(cut_after=100_000)
    events = bring(order(hub))
    assert [event.text for event in events if isinstance(event, FetchWaiting)] == ["the connection was cut"]
    assert hub.ranges(SHARDS[0])[-1] == "bytes=100000-299999"
    assert content(tmp_path, SHARDS[0]) == FILES[SHARDS[0]]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=503),
        Fault(status=429, headers={"Retry-After": "0"}),
        Fault(content=b"x" * 10),
        Fault(content=b"x" * 400_000),
    ],
    ids=["503", "429", "too short", "too long"],
)
def test_what_passes_is_asked_for_again(hub: Hub, tmp_path: Path, fault: Fault) -> None:
    hub.faults["cdn/model-00001"] = fault
    assert isinstance(bring(order(hub))[-1], Fetched)
    assert content(tmp_path, SHARDS[0]) == FILES[SHARDS[0]]


def test_a_server_without_ranges_begins_anew(hub: Hub, tmp_path: Path) -> None:
    part(tmp_path, SHARDS[0]).parent.mkdir(parents=True)
    part(tmp_path, SHARDS[0]).write_bytes(FILES[SHARDS[0]][:1000])
    hub.faults["cdn/model-00001"] = Fault(ignores_range=True)
    bring(order(hub))
    assert content(tmp_path, SHARDS[0]) == FILES[SHARDS[0]]


def test_a_refused_range_begins_anew(hub: Hub, tmp_path: Path) -> None:
    part(tmp_path, SHARDS[0]).parent.mkdir(parents=True)
    part(tmp_path, SHARDS[0]).write_bytes(b"y" * 1000)
    hub.faults["cdn/model-00001"] = Fault(status=416)
    bring(order(hub))
    assert content(tmp_path, SHARDS[0]) == FILES[SHARDS[0]]


def test_content_that_stays_wrong_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.faults["cdn/model-00001"] = Fault(times=9, content=b"x" * 300_000)
    with pytest.raises(FetchError, match="other content than the hub names"):
        bring(order(hub))
    assert not part(tmp_path, SHARDS[0]).exists()
    assert fetch.presence(order(hub)).state != "whole"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_and_gone_on_with(hub: Hub, tmp_path: Path, begun: list[Job], number: signal.Signals) -> None:
    held = threading.Event()
    hub.faults["cdn/model-00001"] = Fault(cut_after=120_000, until=held)
    job = fetch.start(fetch.look(order(hub)), order(hub))
    begun.append(job)
    until(lambda: part(tmp_path, SHARDS[0]).exists() and part(tmp_path, SHARDS[0]).stat().st_size == 120_000)
    os.kill(job.pid, number)
    held.set()
    with pytest.raises(FetchError, match="ended from outside"):
        list(fetch.follow(job, threading.Event()))
    found = fetch.presence(order(hub))
    assert found.state == "partial"
    assert found.bytes >= 120_000
    plan = fetch.look(order(hub))
    assert next(file.have for file in plan.files if file.path == SHARDS[0]) == 120_000
    assert plan.missing_bytes <= LOADED - 120_000
    bring(order(hub))
    assert hub.ranges(SHARDS[0])[-1] == "bytes=120000-299999"
    assert content(tmp_path, SHARDS[0]) == FILES[SHARDS[0]]


def test_a_second_one_joins_and_a_lost_terminal_ends_neither(
    hub: Hub, tmp_path: Path, begun: list[Job]
) -> None:
    held = threading.Event()
    hub.faults["cdn/model-00001"] = Fault(cut_after=50_000, until=held)
    plan = fetch.look(order(hub))
    jobs: list[Job] = begun
    both = [
        threading.Thread(target=lambda: jobs.append(fetch.start(plan, order(hub)))) for _number in range(2)
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert jobs[0] == jobs[1] == fetch.running(order(hub))
    assert os.getsid(jobs[0].pid) == jobs[0].pid != os.getsid(0)
    held.set()
    assert isinstance(list(fetch.follow(jobs[1], threading.Event()))[-1], Fetched)
    until(lambda: not is_alive(jobs[0]))
    assert fetch.running(order(hub)) is None


def test_a_cancel_is_heard_while_the_server_is_silent(hub: Hub, begun: list[Job]) -> None:
    held = threading.Event()
    hub.faults["cdn/model-00002"] = Fault(cut_after=10, until=held)
    job = fetch.start(fetch.look(order(hub)), order(hub))
    begun.append(job)
    cancel = threading.Event()
    events = []
    for event in fetch.follow(job, cancel):
        events.append(event)
        if isinstance(event, FetchProgress) and event.done >= LOADED - 200_000:
            cancel.set()
    began = time.monotonic()
    fetch.stop(job)
    assert time.monotonic() - began < 3
    assert not is_alive(job)
    held.set()


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", folder]).returncode:
        pytest.skip("a small file system needs root")
    monkeypatch.setenv("HF_HOME", str(folder))
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_no_room_is_said_before_anything_is_written(hub: Hub, small_disk: Path) -> None:
    (small_disk / "other").write_bytes(b"x" * 400_000)
    plan = fetch.look(order(hub))
    assert not plan.fits
    assert 0 < plan.free_bytes < plan.needed_bytes
    with pytest.raises(RefusedError, match=r"needs \d+\.\d GiB more, and \d+\.\d GiB are free"):
        fetch.start(plan, order(hub))
    assert fetch.running(order(hub)) is None


def test_a_disk_that_fills_up_in_the_middle_keeps_what_came(hub: Hub, small_disk: Path) -> None:
    plan = fetch.look(order(hub))
    assert plan.fits
    (small_disk / "other").write_bytes(b"x" * 300_000)
    with pytest.raises(FetchError, match="The disk is full"):
        list(fetch.follow(fetch.start(plan, order(hub)), threading.Event()))
    # Whichever file found no room first: what had come of the others by then is not asked for again.
    kept = fetch.presence(order(hub)).bytes
    (small_disk / "other").unlink()
    done = bring(order(hub))[-1]
    assert isinstance(done, Fetched)
    assert done.downloaded_bytes <= done.total_bytes - kept


def refused(wanted: Order) -> WizardError:
    with pytest.raises(WizardError) as caught:
        fetch.look(wanted)
    return caught.value


def test_a_gated_repository_names_its_page_and_never_the_token(begun: list[Job]) -> None:
    with serving(FILES, gated=True) as hub:
        without = refused(order(hub))
        assert "gated" in without.message
        assert f"{hub.url}/{REPO}" in without.hint
        assert "HF_TOKEN" in without.hint
        wrong = refused(order(hub, HF_TOKEN="hf_wrongwrongwrong"))
        assert "does not belong to an account that did" in wrong.hint
        assert "hf_wrong" not in str(wrong)
        hub.token = "hf_rightrightright"
        assert isinstance(bring(order(hub, HF_TOKEN=hub.token))[-1], Fetched)
        kept = [file.read_text() for file in Path(os.environ["XDG_STATE_HOME"]).rglob("*") if file.is_file()]
        assert not any(hub.token in text for text in kept)


def test_an_unknown_repository(hub: Hub) -> None:
    error = refused(Order(checkpoint="org/none", env={"HF_ENDPOINT": hub.url}))
    assert "There is no org/none" in error.message
    assert hub.url in error.message


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(status=401), "refuses|There is no"),
        (Fault(content=b"<html>Log in</html>"), "answers not as a hub does"),
        (Fault(status=429, headers={"Retry-After": "3600"}), "left alone for 60 minutes"),
    ],
    ids=["401", "login page", "rate limit"],
)
def test_a_hub_that_does_not_help(hub: Hub, fault: Fault, said: str) -> None:
    hub.faults["/api/models"] = fault
    with pytest.raises(FetchError, match=said):
        fetch.look(order(hub))


def test_a_repository_without_weights_or_without_all_of_them(hub: Hub) -> None:
    del hub.files[SHARDS[1]]
    assert f"{SHARDS[1]} is missing there" in refused(order(hub)).message
    del hub.files[SHARDS[0]]
    assert "no weights that vLLM loads" in refused(order(hub)).message


def test_what_is_not_asked_of_the_hub(hub: Hub, tmp_path: Path) -> None:
    assert "this is offline" in refused(order(hub, HF_HUB_OFFLINE="1")).message
    assert "ModelScope" in refused(order(hub, VLLM_USE_MODELSCOPE="True")).message
    assert "neither a folder nor" in refused(Order(checkpoint="/no/folder")).message
    assert "does not hold all of its weights" in refused(Order(checkpoint=str(tmp_path))).message
    assert hub.asked == []


def test_a_look_that_is_cancelled_ends_at_once(hub: Hub) -> None:
    hub.faults["/api/models"] = Fault(content=b"{", until=threading.Event())
    cancel = threading.Event()
    cancel.set()
    began = time.monotonic()
    with pytest.raises(FetchError):
        fetch.look(order(hub), cancel)
    assert time.monotonic() - began < 3


def test_a_job_whose_number_was_given_away_is_not_alive(tmp_path: Path) -> None:
    other = Job(checkpoint=REPO, folder=str(tmp_path), pid=os.getpid(), process_started=1.0)
    assert not is_alive(other)
