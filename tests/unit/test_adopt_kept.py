"""Servers that something keeps, be it a container, a unit or a file: read back, and how they are changed."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from wizard.adopt import adopt
from wizard.cli import main
from wizard.errors import RefusedError, UnknownNameError, UsageError
from wizard.plan import PlanEdit, instructions, read_plan

SHORTER = PlanEdit(origin="remedy", title="", set={"--max-model-len": "16384"}, env={"NCCL_P2P_DISABLE": "1"})

# As `docker inspect` of engine 28 writes it, shortened to the members a call is made of.
INSPECTED: dict[str, Any] = {
    "Name": "/coder",
    "Path": "vllm",
    "Args": ["serve", "org/m", "--tensor-parallel-size", "2", "--api-key", "sk-in-the-command"],
    "Config": {
        "Image": "vllm/vllm-openai:v0.31.0",
        "Env": ["PATH=/usr/bin", "HF_TOKEN=hf_in_the_container", "VLLM_LOGGING_LEVEL=DEBUG", "TZ=UTC"],
        "Entrypoint": ["vllm", "serve"],
        "Cmd": ["org/m", "--tensor-parallel-size", "2", "--api-key", "sk-in-the-command"],
        "Labels": {},
        "User": "",
    },
    "HostConfig": {
        "NetworkMode": "bridge",
        "IpcMode": "host",
        "ShmSize": 67108864,
        "RestartPolicy": {"Name": "unless-stopped", "MaximumRetryCount": 0},
        "PortBindings": {"8000/tcp": [{"HostIp": "", "HostPort": "9000"}]},
        "DeviceRequests": [{"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]]}],
        "Devices": [],
        "CapAdd": None,
    },
    "Mounts": [
        {"Type": "bind", "Source": "/srv/models", "Destination": "/models", "RW": False},
        {
            "Type": "volume",
            "Name": "cache",
            "Source": "/var/lib/x",
            "Destination": "/root/.cache",
            "RW": True,
        },
    ],
}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH: programs in it answer in the place of the real ones."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def program(folder: Path, name: str, **answers: str) -> None:
    cases = "".join(
        f"{shlex.quote(asked)}) cat <<'END'\n{text}\nEND\n;;\n" for asked, text in answers.items()
    )
    file = folder / name
    file.write_text(f'#!/bin/sh\ncase "$1 $2" in\n{cases}*) echo "no such thing" >&2; exit 1 ;;\nesac\n')
    file.chmod(0o755)


def docker(folder: Path, container: dict[str, Any]) -> None:
    image_env = json.dumps(["PATH=/usr/bin", "TZ=UTC"])
    inspected = {"container inspect": json.dumps([container]), "image inspect": image_env}
    program(folder, "docker", **inspected)


def test_a_container_is_read_back_into_the_call_that_makes_it(programs: Path) -> None:
    docker(programs, INSPECTED)
    adopted = adopt("container:coder")
    plan = adopted.plan
    assert " ".join(plan.argv) == (
        "docker run --name=coder --detach --restart=unless-stopped --gpus=all --ipc=host --publish=9000:8000 "
        "--volume=/srv/models:/models:ro --volume=cache:/root/.cache --env=HF_TOKEN --env=VLLM_API_KEY "
        "--entrypoint=vllm --env=VLLM_LOGGING_LEVEL vllm/vllm-openai:v0.31.0 serve org/m "
        "--tensor-parallel-size 2"
    )
    assert plan.env == {"VLLM_LOGGING_LEVEL": "DEBUG"}
    assert set(adopted.adopted_from.secrets) == {"HF_TOKEN", "VLLM_API_KEY"}
    assert "_in_the_" not in repr(adopted)
    assert (plan.base_url, plan.vllm_version) == ("http://127.0.0.1:9000/v1", "0.31.0")
    away, anew, kept, moved = instructions(plan, [SHORTER])
    assert away.commands == ("docker stop coder", "docker rm coder")
    assert "--max-model-len 16384" in anew.commands[0]
    assert "--env=NCCL_P2P_DISABLE" in anew.commands[0]
    assert anew.commands[0].startswith("NCCL_P2P_DISABLE=1")
    assert "HF_TOKEN" in kept.text
    assert "VLLM_API_KEY" not in kept.text
    assert "VLLM_API_KEY" in moved.text


def test_a_container_whose_image_tells_nothing_keeps_what_means_something(programs: Path) -> None:
    told = ["NVIDIA_REQUIRE_CUDA=cuda>=13.0", "CUDA_VERSION=13.0.1", "NCCL_DEBUG=INFO", "LANG=C"]
    container = INSPECTED | {"Config": INSPECTED["Config"] | {"Env": told}}
    program(programs, "docker", **{"container inspect": json.dumps([container])})
    assert adopt("container:coder").plan.env == {"NCCL_DEBUG": "INFO"}
    program(
        programs,
        "docker",
        **{"container inspect": json.dumps([container]), "image inspect": json.dumps(["CUDA_VERSION=12"])},
    )
    assert adopt("container:coder").plan.env == {"NCCL_DEBUG": "INFO", "LANG": "C"}


def test_a_container_of_the_old_entrypoint_keeps_it(programs: Path) -> None:
    words = ["-m", "vllm.entrypoints.openai.api_server", "--model", "org/m", "--port", "8001"]
    docker(programs, INSPECTED | {"Path": "python3", "Args": words})
    plan = adopt("container:coder").plan
    assert " ".join(plan.argv).endswith(
        "--entrypoint=python3 --env=VLLM_LOGGING_LEVEL vllm/vllm-openai:v0.31.0 "
        "-m vllm.entrypoints.openai.api_server --model org/m --port 8001"
    )
    assert (plan.checkpoint, plan.port) == ("org/m", 8001)


def test_a_shell_in_a_container_is_looked_through(programs: Path) -> None:
    script = "export NCCL_DEBUG=INFO && exec vllm serve org/m --max-model-len ${WINDOW:-8192}"
    docker(programs, INSPECTED | {"Path": "/bin/bash", "Args": ["-lc", script]})
    plan = adopt("container:coder").plan
    assert plan.flag("--max-model-len") == "8192"
    assert plan.env == {"VLLM_LOGGING_LEVEL": "DEBUG", "NCCL_DEBUG": "INFO"}
    assert plan.checkpoint == "org/m"


def test_a_container_of_compose_is_changed_in_its_file(programs: Path) -> None:
    labels = {
        "com.docker.compose.project.config_files": "/srv/coder/compose.yaml",
        "com.docker.compose.service": "llm",
    }
    docker(programs, INSPECTED | {"Config": INSPECTED["Config"] | {"Labels": labels}})
    plan = adopt("container:coder").plan
    change, variables, up, *_secrets = instructions(plan, [SHORTER])
    assert change.file == "/srv/coder/compose.yaml"
    assert change.content == (
        'entrypoint: ["vllm"]\n'
        'command: ["serve","org/m","--tensor-parallel-size","2","--max-model-len","16384"]\n'
    )
    assert variables.content == 'environment:\n  - "NCCL_P2P_DISABLE=1"\n  - "VLLM_API_KEY"\n'
    assert up.commands == ("docker compose -f /srv/coder/compose.yaml up --detach llm",)


def test_containers_that_are_not_there_or_serve_nothing(programs: Path) -> None:
    docker(programs, INSPECTED | {"Path": "postgres", "Args": [], "Config": {"Image": "postgres:17"}})
    with pytest.raises(RefusedError, match="no vLLM server"):
        adopt("container:coder")
    program(programs, "docker")
    program(programs, "podman")
    with pytest.raises(UsageError, match="no such thing"):
        adopt("container:coder")


UNIT = """\
[Unit]
Description=The coder
[Service]
User=coder
WorkingDirectory=/srv/coder
Environment="VLLM_LOGGING_LEVEL=DEBUG" CUDA_VISIBLE_DEVICES=0,1
Environment=HF_TOKEN=hf_in_the_unit
EnvironmentFile=-/nowhere/at/all
EnvironmentFile={folder}/coder.env
ExecStart=/opt/vllm/bin/vllm serve org/m \\
    --served-model-name %p --max-model-len ${{WINDOW}} \\
    --chat-template "/srv/with blank/t.jinja"
Restart=always
"""


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    (tmp_path / "coder.env").write_text("# ours\nWINDOW=32768\nVLLM_API_KEY='sk-in-the-file'\n")
    file = tmp_path / "coder.service"
    file.write_text(UNIT.format(folder=tmp_path))
    return file


def test_a_unit_file_is_read_back(unit: Path) -> None:
    adopted = adopt(f"unit:{unit}")
    plan = adopted.plan
    assert plan.argv == (
        *("/opt/vllm/bin/vllm", "serve", "org/m", "--served-model-name", "coder"),
        *("--max-model-len", "32768", "--chat-template", "/srv/with blank/t.jinja"),
    )
    assert plan.env == {"VLLM_LOGGING_LEVEL": "DEBUG", "CUDA_VISIBLE_DEVICES": "0,1", "WINDOW": "32768"}
    assert set(adopted.adopted_from.secrets) == {"HF_TOKEN", "VLLM_API_KEY"}
    assert "_in_the_" not in repr(adopted)
    assert adopted.unread == ()
    assert adopted.adopted_from.folder == "/srv/coder"


def test_the_change_of_a_unit_is_a_file_beside_it(unit: Path) -> None:
    plan = adopt(f"unit:{unit}").plan
    kept = PlanEdit(
        origin="remedy",
        title="",
        set={"--hf-overrides": '{"a": "100% $x"}'},
        env={"NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": None},
    )
    write, anew, _secrets = instructions(plan, [kept])
    assert write.file == "/etc/systemd/system/coder.service.d/vllm-opencode.conf"
    lines = write.content.splitlines()
    assert lines[:4] == [
        "[Service]",
        "Environment=NCCL_DEBUG=INFO",
        "UnsetEnvironment=CUDA_VISIBLE_DEVICES",
        "ExecStart=",
    ]
    assert lines[4].endswith('"/srv/with blank/t.jinja" --hf-overrides "{\\"a\\": \\"100%% $$x\\"}"')
    assert anew.commands == ("sudo systemctl daemon-reload", "sudo systemctl restart coder.service")
    # A variable that nobody sets here stays one.
    unit.write_text(unit.read_text().replace("--chat-template", "$MORE --chat-template"))
    open_plan = adopt(f"unit:{unit}").plan
    assert " $MORE " in instructions(open_plan, [kept])[0].content
    # What systemd would read of the two files together is the changed server.
    unit.write_text(unit.read_text() + write.content)
    again = adopt(f"unit:{unit}").plan
    assert again.flag("--hf-overrides") == '{"a": "100% $x"}'
    assert again.env["NCCL_DEBUG"] == "INFO"


def test_a_unit_of_this_user_is_asked_of_systemd(programs: Path, unit: Path) -> None:
    text = f"# {unit}\n{unit.read_text()}\n# drop-in\n[Service]\nExecStart=\n"
    text += "ExecStart=/opt/v/bin/vllm serve org/n\n"
    answers = {
        "show --property=LoadState,MainPID": "LoadState=not-found\nMainPID=0",
        "--user show": "LoadState=loaded\nMainPID=0",
        "--user cat": text,
    }
    program(programs, "systemctl", **answers)
    adopted = adopt("unit:coder")
    assert adopted.plan.argv == ("/opt/v/bin/vllm", "serve", "org/n")
    write, anew, _secrets = instructions(adopted.plan, [SHORTER])
    assert write.file.endswith("/.config/systemd/user/coder.service.d/vllm-opencode.conf")
    assert anew.commands[0] == "systemctl --user daemon-reload"
    program(programs, "systemctl", **{"show --property=LoadState,MainPID": "LoadState=not-found"})
    with pytest.raises(UsageError, match=r"coder\.service"):
        adopt("unit:coder")


COMPOSE = """\
services:
  db:
    image: postgres:17
  llm:
    image: vllm/vllm-openai:v0.32.0
    command: >
      --model ${MODEL:-org/m} --tensor-parallel-size 2
      --tool-call-parser hermes --enable-auto-tool-choice
    ports: ["127.0.0.1:9100:8000"]
    environment:
      - HF_TOKEN=${HF_TOKEN:-hf_in_the_file}
      - VLLM_LOGGING_LEVEL=INFO
"""


def test_a_compose_file_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MODEL", raising=False)
    file = tmp_path / "compose.yaml"
    file.write_text(COMPOSE)
    (tmp_path / ".env").write_text("MODEL=org/from-env\n")
    adopted = adopt(f"compose:{file}")
    plan = adopted.plan
    assert " ".join(plan.inside) == (
        "vllm serve --model org/from-env --tensor-parallel-size 2 --tool-call-parser hermes "
        "--enable-auto-tool-choice"
    )
    assert (plan.checkpoint, plan.parser, plan.base_url) == (
        "org/from-env",
        "hermes",
        "http://127.0.0.1:9100/v1",
    )
    assert adopted.adopted_from.secrets == ("HF_TOKEN",)
    change, *_others = instructions(plan, [SHORTER])
    assert '"--max-model-len","16384"' in change.content
    assert adopt(f"compose:{file}:llm").plan == plan
    with pytest.raises(UnknownNameError):
        adopt(f"compose:{file}:lm")
    with pytest.raises(RefusedError):
        adopt(f"compose:{file}:db")
    os.mkfifo(tmp_path / "pipe")
    for kind in ("compose", "script", "log"):
        with pytest.raises(UsageError, match="regular"):
            adopt(f"{kind}:{tmp_path / 'pipe'}")


SCRIPT = """\
#!/bin/bash
set -e
# vllm serve org/not-this --port 1
export VLLM_LOGGING_LEVEL=DEBUG
MODEL=org/m
PORT="${PORT:-8200}"
cd /srv
CUDA_VISIBLE_DEVICES=0,1 nohup /opt/v/bin/vllm serve "$MODEL" \\
    --port $PORT --served-model-name 'my coder' $EXTRA > /var/log/vllm.log 2>&1 &
echo started
"""


def test_a_script_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "start.sh"
    file.write_text(SCRIPT)
    adopted = adopt(f"script:{file}")
    plan = adopted.plan
    assert plan.command == ("/opt/v/bin/vllm", "serve", "org/m")
    assert plan.flag("--port") == "8200"
    assert plan.flag("--served-model-name") == "my coder"
    assert plan.env == {"VLLM_LOGGING_LEVEL": "DEBUG", "CUDA_VISIBLE_DEVICES": "0,1"}
    assert "$EXTRA" in adopted.unread[0]
    (change,) = instructions(plan, [SHORTER])
    assert change.file == str(file)
    assert "--max-model-len 16384" in change.content
    assert " $EXTRA" in change.content, "the shell still puts its value in"


@pytest.mark.parametrize(
    ("run", "argv"),
    [
        (
            "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.32.0 --model org/m -tp 2",
            "docker run --gpus all -p 8000:8000 --entrypoint=vllm vllm/vllm-openai:v0.32.0 "
            "serve --model org/m --tensor-parallel-size 2",
        ),
        (
            "sudo podman run --rm --entrypoint python3 nvcr.io/nvidia/vllm:26.10-py3 "
            "-m vllm.entrypoints.openai.api_server --model org/m",
            "podman run --rm --entrypoint=python3 nvcr.io/nvidia/vllm:26.10-py3 "
            "-m vllm.entrypoints.openai.api_server --model org/m",
        ),
    ],
)
def test_a_script_that_runs_a_container_is_read_back(tmp_path: Path, run: str, argv: str) -> None:
    file = tmp_path / "start.sh"
    file.write_text(f"#!/bin/sh\n{run}\n")
    plan = adopt(f"script:{file}").plan
    assert " ".join(plan.argv) == argv
    assert (plan.runtime_kind, plan.checkpoint) == ("container", "org/m")
    assert plan.vllm_version in ("0.32.0", "0.31.0")


def test_a_printed_plan_of_a_container_is_read_again(
    programs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    docker(programs, INSPECTED)
    assert main(["plan", "--from", "container:coder", "--json"]) == 0
    file = tmp_path / "plan.json"
    file.write_text(capfd.readouterr().out)
    plan, again = adopt("container:coder").plan, read_plan(file)
    assert (again.options, again.env, again.base_url) == (plan.options, plan.env, plan.base_url)
    assert again.argv == plan.argv
    assert instructions(again, [SHORTER]) == instructions(plan, [SHORTER])


def test_files_may_be_read_on_a_recorded_machine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "start.sh"
    file.write_text(SCRIPT)
    assert main(["--simulate", "gb10", "plan", "--from", f"script:{file}"]) == 0
    assert "/opt/v/bin/vllm serve org/m" in capfd.readouterr().out
    file.write_text("echo hello\n")
    assert main(["plan", "--from", f"script:{file}"]) == 1
    assert main(["plan", "--from", f"script:{tmp_path}"]) == 2
    assert main(["plan", "--from", "container:x", "--model", "qwen3-8b"]) == 2
