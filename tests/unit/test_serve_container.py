"""vLLM started in a container: what is called, and that no container outlives its run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import pytest
from launching import exists, plan_for, said, wait_for

from wizard.plan import LaunchPlan
from wizard.serve import Run, is_alive, start, stop

# Like docker, it runs the container elsewhere and hands signals on while it lives; killed, it cannot.
DOCKER = """#!/bin/sh
echo "$@" >> {folder}/calls
case "$1" in
run)
    for word in "$@"; do case "$word" in --cidfile=*) echo c0ffee > "${{word#--cidfile=}}" ;; esac; done
    setsid sleep 60 > /dev/null 2>&1 &
    echo $! > {folder}/container
    trap 'kill $(cat {folder}/container); exit 0' TERM
    echo "(APIServer pid=1) INFO: up"
    wait ;;
container) test ! -e {folder}/removed ;;
rm) kill -9 $(cat {folder}/container); touch {folder}/removed ;;
esac
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LaunchPlan:
    program = tmp_path / "docker"
    program.write_text(DOCKER.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    words = ("docker", "run", "--rm", "--gpus=all", "--entrypoint=vllm", "mine:v1", "serve", "org/tiny")
    return plan_for(*words, runtime_kind="container", runtime_path="mine:v1")


def up(plan: LaunchPlan, folder: Path) -> tuple[Run, int]:
    run = start(plan, folder / "runs")
    wait_for(lambda: said(run, "up"))
    return run, int((folder / "container").read_text())


def test_the_engine_is_called_with_the_plan_and_leaves_the_id_with_the_run(
    plan: LaunchPlan, tmp_path: Path
) -> None:
    run, inside = up(plan, tmp_path)
    called = (tmp_path / "calls").read_text().split()
    assert called[0] == "run"
    assert called[1] == f"--cidfile={run.folder}/container.id"
    assert ("docker", *called[:1], *called[2:]) == plan.argv
    assert stop(run, timeout_s=5.0).was_running
    assert not is_alive(run)
    wait_for(lambda: not exists(inside))


def test_a_container_whose_client_was_killed_is_ended_by_stop(plan: LaunchPlan, tmp_path: Path) -> None:
    run, inside = up(plan, tmp_path)
    os.kill(run.pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(run))
    assert exists(inside)
    assert stop(run, timeout_s=1.0).was_running
    wait_for(lambda: not exists(inside))
    assert not stop(run, timeout_s=1.0).was_running


def test_a_container_that_does_not_obey_goes_with_its_client(plan: LaunchPlan, tmp_path: Path) -> None:
    program = tmp_path / "docker"
    program.write_text(program.read_text().replace("kill $(cat", "true $(cat").replace("; exit 0'", "'"))
    run, inside = up(plan, tmp_path)
    assert stop(run, timeout_s=0.2).was_running
    wait_for(lambda: not exists(inside))


def test_only_a_container_of_ours_is_asked_for_its_id(plan: LaunchPlan, tmp_path: Path) -> None:
    theirs = f"--cidfile={tmp_path}/theirs"
    named = msgspec.structs.replace(plan, command=(*plan.command[:2], theirs, *plan.command[2:]))
    run, inside = up(named, tmp_path)
    assert run.argv == named.argv
    stop(run, timeout_s=5.0)
    wait_for(lambda: not exists(inside))
