"""vLLM in containers, with a stand-in for docker that answers, refuses or hangs as the real one does."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from pathlib import Path

import pytest
from environments import Environment
from launching import exists, wait_for

from wizard.errors import UsageError
from wizard.flow import answers_from, find_runtime
from wizard.flow.journey import Journey
from wizard.runtime import find_runtimes, probe
from wizard.runtime.containers import find_containers, image_of

DENIED = (
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: "
    'Get "http://%2Fvar%2Frun%2Fdocker.sock/v1.50/images/json": dial unix /var/run/docker.sock: '
    "connect: permission denied"
)
IMAGES = (
    "sha1\tvllm/vllm-openai\tv0.32.0-cu129",
    "sha2\tvllm/vllm-openai\tlatest",
    "sha3\tnvcr.io/nvidia/vllm\t26.10-py3",
    "sha4\tvllm/vllm-openai\t<none>",
    "sha5\tpostgres\t17",
    "not a line of ours",
)
RUNNING = (
    'c1\tvllm/vllm-openai:v0.33.0\tcoder\t0.0.0.0:8000->8000/tcp\t"vllm serve --model x"',
    'c2\tmine:latest\tother\t\t"python3 -m vllm.entrypoints.openai.api_server"',
    'c3\tpostgres:17\tdb\t5432/tcp\t"postgres"',
)


class Engine:
    """A folder on PATH with programs of an engine's name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "calls"

    def program(self, name: str, **answers: str) -> None:
        """Runs the shell words given for a subcommand; any other one fails."""
        cases = "".join(f"{word}) {script} ;;\n" for word, script in answers.items())
        text = f'#!/bin/sh\necho "$@" >> {self.log}\ncase "$1" in\n{cases}*) exit 64 ;;\nesac\n'
        program = self.folder / name
        program.write_text(text)
        program.chmod(0o755)

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


def say(*lines: str) -> str:
    return "; ".join(f"printf '%s\\n' {shlex.quote(line)}" for line in lines) or ":"


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    folder = tmp_path / "engines"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    return Engine(folder)


def test_running_containers_then_images_are_listed_and_none_is_started(engine: Engine) -> None:
    engine.program("docker", images=say(*IMAGES), ps=say(*RUNNING))
    found = find_containers()
    assert [(each.kind, each.path, each.version) for each in found] == [
        ("container", "coder", "0.33.0"),
        ("container", "other", None),
        ("container", "vllm/vllm-openai:v0.32.0-cu129", "0.32.0"),
        ("container", "vllm/vllm-openai:latest", None),
        ("container", "nvcr.io/nvidia/vllm:26.10-py3", "0.31.0"),
    ]
    assert all(each.problem for each in found)
    assert "0.0.0.0:8000->8000/tcp" in found[0].problem
    assert {call.split()[0] for call in engine.calls()} == {"images", "ps"}


def test_podman_and_a_docker_that_is_podman_list_an_image_once(engine: Engine) -> None:
    listed = say("sha1\tdocker.io/vllm/vllm-openai\tv0.33.0")
    engine.program("docker", images=listed, ps=":")
    engine.program("podman", images=listed, ps=":")
    (found,) = find_containers()
    assert (found.path, found.version) == ("docker.io/vllm/vllm-openai:v0.33.0", "0.33.0")
    assert found.command[:2] == ("docker", "run")


def test_no_right_to_ask_is_told(engine: Engine) -> None:
    refused = f"{say(DENIED)} >&2; exit 1"
    engine.program("docker", images=refused, ps=refused)
    (found,) = find_runtimes()
    assert (found.kind, found.path, found.version) == ("container", "docker", None)
    assert "connect: permission denied" in found.problem


def test_an_engine_that_hangs_is_given_up(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wizard.runtime.containers._DEADLINE_S", 0.2)
    engine.program("docker", images=":", ps="exec /bin/sleep 60")
    (found,) = find_containers()
    assert "did not answer" in found.problem


def test_what_an_engine_says_is_made_inert(engine: Engine) -> None:
    engine.program(
        "docker", images=":", ps=say("c\tvllm/vllm-openai:v0.33.0\t\x1b[2Jcoder\x07\t\tvllm serve")
    )
    (found,) = find_containers()
    assert found.path == "coder"


@pytest.fixture
def image(engine: Engine, tmp_path: Path) -> Environment:
    """An image is an environment here; docker runs its Python with what follows the image's name."""
    inside = Environment(tmp_path / "image")
    inside.distribution("vllm", "0.33.0")
    manager = "class {0}:\n    list_registered = staticmethod(lambda: ['hermes'])\n"
    inside.module("vllm.tool_parsers", manager.format("ToolParserManager"))
    inside.module("vllm.reasoning", manager.format("ReasoningParserManager"))
    run = f'while [ "$1" != -c ]; do shift; done; exec {inside.python} "$@"'
    engine.program("docker", image='[ "$5" = mine:v1 ]', run=run, rm=":", images=":", ps=":")
    return inside


def test_an_image_that_is_named_is_asked_inside_a_container(image: Environment, engine: Engine) -> None:
    found = probe(("mine:v1",), {"VLLM_TEST": "1"})
    assert (found.problem, found.version, found.tool_parsers) == ("", "0.33.0", ("hermes",))
    assert (found.kind, found.path) == ("container", "mine:v1")
    run = next(call for call in engine.calls() if call.startswith("run "))
    for word in ("--rm", "--pull=never", "--network=none", "--entrypoint=python3", "--env=VLLM_TEST"):
        assert word in run.split()
    assert image_of(found.command) == "mine:v1"
    assert probe(found.command).version == "0.33.0"


@pytest.mark.parametrize("named", [{"path": "mine:v1"}, {"kind": "container", "image": "mine:v1"}])
def test_an_image_named_in_the_answers_is_the_runtime(image: Environment, named: dict[str, str]) -> None:
    journey = find_runtime(Journey(answers=answers_from({"runtime": named}, "test")))
    assert journey.runtime is not None
    assert (journey.runtime.kind, journey.runtime.version) == ("container", "0.33.0")


def test_a_container_without_an_image_is_asked_for_its_name(engine: Engine) -> None:
    with pytest.raises(UsageError, match="Which image"):
        find_runtime(Journey(answers=answers_from({"runtime": {"kind": "container"}}, "test")))


def test_an_image_that_is_not_here_is_not_fetched(image: Environment, engine: Engine) -> None:
    assert "mine:v2" in probe(("mine:v2",)).problem
    assert not [call for call in engine.calls() if call.startswith(("run ", "pull "))]
    assert image_of((sys.executable, "-m", "vllm")) is None


def test_a_cancel_removes_the_container(image: Environment, engine: Engine, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    image.module(
        "vllm", f"import os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    )
    cancel = threading.Event()

    def stop_once_it_runs() -> None:
        wait_for(lambda: pid_file.exists() and pid_file.read_text() != "")
        cancel.set()

    watcher = threading.Thread(target=stop_once_it_runs)
    watcher.start()
    begun = time.monotonic()
    found = probe(("mine:v1",), cancel=cancel)
    watcher.join()
    assert found.problem
    assert found.version == "0.33.0"
    assert time.monotonic() - begun < 10
    wait_for(lambda: not exists(int(pid_file.read_text())))
    run = next(call for call in engine.calls() if call.startswith("run "))
    name = next(word.partition("=")[2] for word in run.split() if word.startswith("--name="))
    assert f"rm --force {name}" in engine.calls()


def test_the_call_hands_over_gpus_models_and_keys_but_no_secret(
    image: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", "/models")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    command = probe(("mine:v1",)).command
    assert command[:4] == ("docker", "run", "--rm", "--gpus=all")
    assert "--volume=/models:/root/.cache/huggingface" in command
    assert "--env=HF_TOKEN" in command
    assert "hf_secret" not in " ".join(command)
    assert command[-2:] == ("--entrypoint=vllm", "mine:v1")
