"""Something is broken: what a person names is read or asked, and its cause comes first."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from standin import serving

from wizard import flow
from wizard.catalog import symptoms
from wizard.diagnosis.faultbase import faults
from wizard.errors import UnknownNameError, UsageError
from wizard.flow import Answers, Journey, StartAnswers

ENDED = "2026-11-30T12:00:02.0Z (APIServer pid=1) INFO 11-30 12:00:02 [x.py:1] vLLM API server version 0.32.0"
KILLED = "137"


def looking_at(source: str, **start: str) -> Journey:
    return Journey(answers=Answers(start=StartAnswers(mode="troubleshoot", log=source, **start)))


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("docker logs vllm", "docker:vllm"),
        ("sudo docker logs -f --tail 100 vllm-1", "docker:vllm-1"),
        ("docker logs -f vllm-1", "docker:vllm-1"),
        ("podman logs  vllm", "podman:vllm"),
        ("journalctl -u vllm.service", "unit:vllm.service"),
        ("journalctl -u vllm -f", "unit:vllm"),
        ("sudo journalctl --unit=vllm", "unit:vllm"),
        (":8000", "port:8000"),
        ("8000", "port:8000"),
        ("http://10.0.0.5:8000/v1", "server:http://10.0.0.5:8000/v1"),
        ("/var/log/vllm.log", "/var/log/vllm.log"),
        ("docker logs -f vllm 2>&1", "docker:vllm"),
        ("sudo docker logs --tail 200 vllm 2>&1 | tail -100", "docker:vllm"),
        ("journalctl --user -u vllm -f | less", "unit:vllm"),
        ("tail -f /var/log/vllm.log", "/var/log/vllm.log"),
        ("tail -n 200 vllm.log", "vllm.log"),
        ("cat vllm.log | grep Error", "vllm.log"),
        ("a | b.log", "a | b.log"),
        ("cat", "cat"),
    ],
)
def test_commands_that_print_logs_are_understood(typed: str, named: str) -> None:
    assert flow.named_source(typed) == named


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_a_container_that_was_killed_is_known_by_its_exit_code(programs: Path) -> None:
    script = f'if [ "$1" = logs ]; then echo "{ENDED}" >&2; else echo "false {KILLED}"; fi'
    program(programs, "docker", script)
    found = flow.diagnose(flow.named_source("docker logs vllm"))
    assert found.findings[0].fault == "killed"


def test_the_two_streams_of_a_container_are_put_in_order(programs: Path) -> None:
    error = "ValueError: User-specified max_model_len (9) is greater than the derived max_model_len (x=8)"
    program(
        programs,
        "podman",
        f'''if [ "$1" = logs ]; then
echo "2026-11-30T12:00:03.0Z {error}" >&2
echo "{ENDED}"
else echo "true 0"; fi''',
    )
    found = flow.diagnose("podman:vllm")
    assert found.findings[0].fault == "window-over-model"
    assert found.findings[0].evidence[0].line == 2


def test_a_container_that_is_not_there_is_told_in_dockers_words(programs: Path) -> None:
    program(programs, "docker", 'echo "Error response from daemon: No such container: vllm" >&2; exit 1')
    with pytest.raises(UsageError, match="No such container: vllm"):
        flow.diagnose("docker:vllm")


def test_a_unit_is_read_from_the_journal_of_the_system_or_of_the_user(programs: Path) -> None:
    line = "Nov 30 12:00:00 host vllm[1]: OSError: [Errno 98] Address already in use"
    script = f'case "$*" in *--user-unit*) echo "{line}";; *) echo "-- No entries --";; esac'
    program(programs, "journalctl", script)
    assert flow.diagnose("unit:vllm").findings[0].fault == "port-in-use"


def test_without_the_program_one_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="Save the log to a file"):
        flow.diagnose("docker:vllm")


def test_a_symptom_asks_the_server_and_tells_its_cause_first() -> None:
    words = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--rehearsal-fault", "tools-tag")
    with serving(*words) as (root, _standin):
        done = flow.examine_trouble(looking_at("symptom:never-acts", base_url=f"{root}/v1"))
    assert done.diagnosis is not None
    assert done.diagnosis.verdict == "failed"
    assert done.diagnosis.findings[0].fault == "tools-tag"


def test_a_server_that_is_not_there_is_a_finding() -> None:
    url = f"http://127.0.0.1:{flow.free_port()}/v1"
    done = flow.examine_trouble(looking_at("symptom:no-connection", base_url=url))
    assert done.diagnosis is not None
    assert done.diagnosis.findings[0].fault == "server"


def test_an_unknown_symptom_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="slow"):
        flow.examine_trouble(looking_at("symptom:slowly"))


def test_symptoms_name_faults_that_exist() -> None:
    known = {fault.id for fault in faults()}
    assert {fault for symptom in symptoms() for fault in symptom.faults} <= known
