"""The whole chain without screens, rehearsed: it ends well, and it ends clearly when something is wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from wizard import paths
from wizard.errors import LaunchError, RefusedError, UnknownNameError, WizardError
from wizard.flow import Journey, answers_from, free_port, run_setup, serving
from wizard.flow.setup import ChosenEvent, DoneEvent, StepEvent
from wizard.plan import PlanEdit, apply
from wizard.serve import is_alive, latest_run, load_plan

DEADLINE_S = 60


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The stand-in server starts without acting the wait, and scratch folders stay in the test's own."""
    monkeypatch.setattr(serving, "REHEARSAL_PACE_S", 0.0)
    monkeypatch.setattr(serving, "rehearsed_pace", lambda journey: 4000.0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def stand_ins() -> list[psutil.Process]:
    """Stand-in servers that are children of this test run."""
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if process.status() != psutil.STATUS_ZOMBIE and "wizard.rehearsal" in process.cmdline()
    ]


@pytest.fixture
def nothing_left(own_home: Path) -> Iterator[None]:
    yield
    assert stand_ins() == []
    assert not list(own_home.rglob("opencode.json*"))


def setup(cancel: threading.Event | None = None, **sections: dict[str, Any]) -> tuple[Journey, list[object]]:
    events: list[object] = []
    # A port of its own: other tests rehearse at the same time.
    sections["serve"] = {"port": free_port()} | sections.get("serve", {})
    raw = {"machine": {"simulate": "gb10"}} | sections
    done = run_setup(
        answers_from(raw, "test"),
        emit=events.append,
        consent=lambda _: None,
        cancel=cancel or threading.Event(),
    )
    return done, events


@pytest.mark.usefixtures("nothing_left")
def test_the_rehearsed_chain_ends_in_a_receipt() -> None:
    done, events = setup()
    steps = [event.step for event in events if isinstance(event, StepEvent)]
    assert steps == ["machine", "runtime", "model", "budget", "launch", "smoke", "opencode"]
    last = events[-1]
    assert isinstance(last, DoneEvent)
    assert last.scratch is not None
    assert last.receipt.finished
    assert last.receipt.results["smoke"] == "pass"
    assert Path(last.path).is_relative_to(last.scratch)
    assert done.change is not None
    config = json.loads(Path(done.change.path).read_text(encoding="utf-8"))
    assert list(config["provider"]["vllm"]["models"]) == ["qwen3-coder-next-fp8"]


@pytest.mark.usefixtures("nothing_left")
def test_what_is_chosen_is_told_before_anything_is_started() -> None:
    _done, events = setup()
    chosen = next(place for place, event in enumerate(events) if isinstance(event, ChosenEvent))
    launch = next(
        place for place, event in enumerate(events) if isinstance(event, StepEvent) and event.step == "launch"
    )
    assert chosen < launch
    summary = events[chosen]
    assert isinstance(summary, ChosenEvent)
    assert summary.checkpoint == "Qwen/Qwen3-Coder-Next-FP8"
    assert summary.free_disk_gib is not None
    assert summary.start_minutes is not None


@pytest.mark.usefixtures("nothing_left")
def test_a_served_name_of_ones_own_is_the_key_in_the_configuration() -> None:
    done, _events = setup(model={"served_name": "my-coder"})
    assert done.change is not None
    assert done.change.model == "vllm/my-coder"


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("parser-wrong-name", "invalid tool call parser"),
        ("too-long", "max seq len"),
        ("oom", "out of memory"),
        ("dies-loading", "killed"),
        ("sampler-kernel", "operation not permitted"),
        ("port-busy", "Address already in use"),
    ],
)
def test_a_start_that_fails_says_why_and_leaves_nothing(fault: str, said: str) -> None:
    with pytest.raises(LaunchError) as caught:
        setup(start={"fault": fault})
    told = " ".join([caught.value.message, caught.value.hint, *caught.value.evidence])
    assert said in told
    assert caught.value.exit_code == 1


@pytest.mark.usefixtures("nothing_left")
def test_a_start_that_never_ends_is_ended_by_its_deadline() -> None:
    with pytest.raises(LaunchError, match="did not come up"):
        setup(start={"fault": "never-ready"}, serve={"timeout_s": 2})


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("fault", ["tools-tag", "stream-leak", "swallowed", "dies-serving"])
def test_a_server_whose_tool_calls_do_not_work_is_not_configured(fault: str) -> None:
    with pytest.raises(WizardError) as caught:
        setup(start={"fault": fault})
    assert caught.value.exit_code == 1


@pytest.mark.usefixtures("nothing_left")
def test_a_cancelled_start_stops_the_server() -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(serving.Cancelled) as caught:
        setup(cancel, start={"fault": "never-ready"})
    assert caught.value.exit_code == 130


def test_a_refused_plan_starts_nothing() -> None:
    with pytest.raises(RefusedError, match="tools"):
        setup(model={"id": "qwen2.5-coder-32b"})
    assert stand_ins() == []


def test_an_unknown_fault_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="tools-tag"):
        setup(start={"fault": "tool-tag"})


def test_a_dry_run_plans_and_touches_nothing(tmp_path: Path) -> None:
    events: list[object] = []
    answers = answers_from({"machine": {"simulate": "gb10"}}, "test")
    done = run_setup(
        answers, emit=events.append, consent=lambda _: None, cancel=threading.Event(), dry_run=True
    )
    assert done.plan is not None
    assert done.run is None
    assert list(tmp_path.iterdir()) == []


class Site:
    """``setup`` as a process of its own, on this machine, with the stand-in taken for an installed vLLM."""

    def __init__(self, folder: Path, **serve: object) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.variables: dict[str, str] = {}
        (folder / "checkpoint").mkdir()
        (folder / "checkpoint" / "config.json").write_text(
            '{"max_position_embeddings": 65536}', encoding="utf-8"
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = serve.pop("port", None) or probe.getsockname()[1]
        self.name = "checkpoint"
        fault = serve.pop("fault", None)
        extra = ["--rehearsal-pace", "0", *(["--rehearsal-fault", str(fault)] if fault else [])]
        self.answers = folder / "answers.toml"
        self.answers.write_text(
            f"""
[runtime]
command = [{json.dumps(sys.executable)}, "-m", "wizard.rehearsal"]
[model]
path = {json.dumps(str(folder / "checkpoint"))}
parser = "hermes"
[serve]
port = {self.port}
extra_args = {json.dumps(extra)}
[opencode]
proof = false
""",
            encoding="utf-8",
        )

    @property
    def config(self) -> Path:
        return self.home / ".config" / "opencode" / "opencode.json"

    def environment(self) -> dict[str, str]:
        root = str(Path(__file__).parents[2])
        own = {"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONPATH": root, "LANG": "C.UTF-8"}
        return own | self.variables

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "wizard", *words],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=DEADLINE_S)
        return process.returncode, out, err

    def setup(self) -> tuple[int, str, str]:
        return self.run("setup", "--answers", str(self.answers), "--yes", "--json")

    def servers(self) -> list[int]:
        """Process numbers of stand-ins on this site's port, whoever their parent is by now."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            words = process.info["cmdline"] or []
            if "wizard.rehearsal" in words and str(self.port) in words and process.info["status"] != "zombie":
                found.append(process.pid)
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    for pid in made.servers():
        os.kill(pid, signal.SIGKILL)


def test_the_server_outlives_setup_and_is_stopped_by_name(site: Site) -> None:
    code, out, err = site.setup()
    assert code == 0, err
    assert json.loads(out.splitlines()[-1])["event"] == "done"
    assert site.servers()
    assert json.loads(site.run("status", "--json")[1])["running"] is True
    assert "Rehearsal" in site.run("logs")[1] or "rehearsal" in site.run("logs")[1]
    assert site.run("stop")[0] == 0
    assert site.servers() == []
    assert site.run("status")[0] == 1


def test_what_setup_wrote_is_taken_back_by_undo(site: Site) -> None:
    site.config.parent.mkdir(parents=True)
    before = b'{\n  // mine\n  "theme": "night",\n}\n'
    site.config.write_bytes(before)
    assert site.setup()[0] == 0
    assert b"// mine" in site.config.read_bytes()
    assert site.config.read_bytes() != before
    code, out, _err = site.run("undo", "--json")
    assert code == 0
    assert [entry["path"] for entry in json.loads(out)["reverted"]] == [str(site.config)]
    assert site.config.read_bytes() == before


def test_what_setup_created_is_removed_by_undo(site: Site) -> None:
    assert site.setup()[0] == 0
    assert site.run("report", "--output", str(site.home / "sheet.txt"))[0] == 0
    assert site.name in (site.home / "sheet.txt").read_text(encoding="utf-8")
    assert site.run("undo")[0] == 0
    assert not site.config.exists()


def test_a_second_setup_changes_nothing_and_undo_still_goes_back_to_the_start(site: Site) -> None:
    site.config.parent.mkdir(parents=True)
    site.config.write_bytes(b'{"theme": "night"}')
    assert site.setup()[0] == 0
    written = site.config.read_bytes(), site.config.stat().st_mtime_ns
    assert site.run("stop")[0] == 0
    assert site.setup()[0] == 0
    assert (site.config.read_bytes(), site.config.stat().st_mtime_ns) == written
    assert site.run("undo")[0] == 0
    assert site.config.read_bytes() == b'{"theme": "night"}'


def test_undo_after_two_changes_goes_back_to_what_the_user_had(site: Site) -> None:
    site.config.parent.mkdir(parents=True)
    site.config.write_bytes(b'{"theme": "night"}')
    assert site.setup()[0] == 0
    assert site.run("configure", "--yes", "--output", "4096")[0] == 0
    assert site.run("undo")[0] == 0
    assert site.config.read_bytes() == b'{"theme": "night"}'


def test_what_the_user_changed_in_between_is_never_undone(site: Site) -> None:
    assert site.setup()[0] == 0
    with site.config.open("ab") as file:
        file.write(b"// mine\n")
    code, out, _err = site.run("undo", "--json")
    assert code == 1
    assert [entry["path"] for entry in json.loads(out)["kept"]] == [str(site.config)]
    assert site.config.read_bytes().endswith(b"// mine\n")


def test_a_server_found_running_is_not_stopped_by_a_failure_of_a_later_setup(site: Site) -> None:
    assert site.setup()[0] == 0
    before = site.servers()
    site.config.write_text("{ broken", encoding="utf-8")
    code, _out, err = site.setup()
    assert code == 1, err
    assert site.servers() == before


def test_a_reader_that_goes_away_stops_the_setup_and_says_so(site: Site) -> None:
    command = f"{sys.executable} -m wizard setup --answers {site.answers} --yes"
    line = f"{command} | head -2; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], env=site.environment(), capture_output=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 1
    assert b"stopped" in done.stderr
    assert site.servers() == []


def test_a_key_of_the_environment_is_referenced_and_never_written(site: Site) -> None:
    site.variables["VLLM_API_KEY"] = "sk-secret-of-the-house"
    code, out, err = site.setup()
    assert code == 0, err
    config = site.config.read_text(encoding="utf-8")
    assert json.loads(config)["provider"]["vllm"]["options"]["apiKey"] == "{env:VLLM_API_KEY}"
    told = out + err + config + site.run("report", "--output", str(site.home / "sheet.txt"))[1]
    told += "".join(file.read_text(errors="replace") for file in site.home.rglob("*") if file.is_file())
    assert "sk-secret-of-the-house" not in told


def test_a_key_in_a_file_is_referenced_and_never_written(site: Site) -> None:
    key = site.home / "key"
    key.write_text("sk-secret-in-a-file\n", encoding="utf-8")
    text = site.answers.read_text(encoding="utf-8")
    site.answers.write_text(text.replace("[serve]", f'[serve]\napi_key_file = "{key}"'), encoding="utf-8")
    code, out, err = site.setup()
    assert code == 0, err
    config = site.config.read_text(encoding="utf-8")
    assert json.loads(config)["provider"]["vllm"]["options"]["apiKey"] == f"{{file:{key}}}"
    others = [file for file in site.home.rglob("*") if file.is_file() and file != key]
    assert "sk-secret-in-a-file" not in out + err + "".join(
        file.read_text(errors="replace") for file in others
    )
    process = psutil.Process(site.servers()[0])
    assert "sk-secret-in-a-file" not in " ".join(process.cmdline())


def test_a_taken_port_is_named_with_its_owner_and_nothing_is_started(site: Site) -> None:
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", site.port))
        owner.listen()
        code, _out, err = site.setup()
    assert code == 1
    assert str(site.port) in err
    assert str(os.getpid()) in err
    assert site.servers() == []
    assert not site.config.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", ["machine", "launch", "smoke", "opencode"])
def test_an_interrupt_in_any_step_leaves_nothing_running_nor_half_written(
    site: Site, step: str, number: signal.Signals
) -> None:
    process = site.start("setup", "--answers", str(site.answers), "--yes", "--json")
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "step" and event["step"] == step:
            process.send_signal(number)
            break
    rest, err = process.communicate(timeout=DEADLINE_S)
    finished = '"event":"done"' in rest
    assert process.returncode == (0 if finished else 130), err
    assert "Traceback" not in err
    if not finished:
        assert site.servers() == []
    if site.config.exists():
        json.loads(site.config.read_text(encoding="utf-8"))
    assert not list(site.home.rglob(".opencode.json*"))


def test_without_yes_and_without_a_terminal_nothing_is_started(site: Site) -> None:
    code, _out, err = site.run("setup", "--answers", str(site.answers))
    assert code == 2
    assert "--yes" in err
    assert site.servers() == []


def test_a_wizard_killed_in_the_start_is_found_again(tmp_path: Path) -> None:
    site = Site(tmp_path, fault="never-ready")
    process = site.start("setup", "--answers", str(site.answers), "--yes", "--json")
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == "milestone":
            process.kill()
            break
    process.communicate(timeout=DEADLINE_S)
    assert site.servers()
    assert site.run("stop")[0] == 0
    assert site.servers() == []


def test_setup_goes_on_with_a_start_whose_wizard_was_killed(site: Site) -> None:
    process = site.start("setup", "--answers", str(site.answers), "--yes", "--json")
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == "ready":
            process.kill()
            break
    process.communicate(timeout=DEADLINE_S)
    before = site.servers()
    code, _out, err = site.setup()
    assert code == 0, err
    assert site.servers() == before


def test_another_plan_does_not_take_over_the_address_of_an_earlier_one(site: Site) -> None:
    assert site.setup()[0] == 0
    before = site.servers()
    with site.answers.open("a", encoding="utf-8") as file:
        file.write("[budget]\nmax_model_len = 32768\n")
    code, _out, err = site.setup()
    assert code == 1
    assert "vllm-opencode stop" in err
    assert site.servers() == before


def test_a_stand_in_ends_when_whoever_practised_is_gone(tmp_path: Path) -> None:
    site = Site(tmp_path)
    process = site.start("--simulate", "gb10", "launch", "--yes", "--attach", "--json")
    assert process.stdout is not None
    next(line for line in process.stdout if json.loads(line)["event"] == "milestone")
    (server,) = psutil.Process(process.pid).children()
    process.kill()
    process.communicate(timeout=DEADLINE_S)
    psutil.wait_procs([server], timeout=DEADLINE_S)
    assert not server.is_running()


def test_a_run_that_was_only_found_is_never_stopped_for_another_plan(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert site.setup()[0] == 0
    monkeypatch.setenv("HOME", str(site.home))
    found = latest_run(paths.runs_dir())
    assert found is not None
    other = apply(load_plan(found), PlanEdit(origin="user", title="other", set={"--max-num-seqs": "4"}))
    with pytest.raises(RefusedError, match="earlier"):
        serving._alive_run(Journey(run=found, started_here=False), other)
    assert is_alive(found)


def test_launch_fails_clearly_when_the_checkpoint_is_not_there(site: Site) -> None:
    text = site.answers.read_text(encoding="utf-8")
    site.answers.write_text(
        re.sub(r"^path = .*$", 'path = "/nonexistent"', text, flags=re.M), encoding="utf-8"
    )
    code, _out, err = site.run("launch", "--answers", str(site.answers), "--yes")
    assert code == 2
    assert "/nonexistent" in err
