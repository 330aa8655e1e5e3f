"""A process that somebody else started is read back: its words, its variables, what may not be seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wizard.adopt import adopt
from wizard.cli import main
from wizard.errors import RefusedError, UsageError
from wizard.plan import PlanEdit, instructions

WAITS = f"#!{sys.executable}\nimport sys; print('up', flush=True); sys.stdin.read()\n"


@pytest.fixture
def vllm(tmp_path: Path) -> Path:
    """A program of vLLM's name in an environment; it only waits."""
    environment = tmp_path / "env"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").touch()
    (environment / "bin" / "python3").symlink_to(sys.executable)
    (environment / "lib" / "python3.11" / "site-packages" / "vllm-0.31.0.dist-info").mkdir(parents=True)
    program = environment / "bin" / "vllm"
    program.write_text(WAITS.replace(sys.executable, str(environment / "bin" / "python3")))
    program.chmod(0o755)
    return program


@pytest.fixture
def started(vllm: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = "serve org/m -tp=2 --max_model_len 32K --served-model-name a b --api-key sk-secret-key --odd x"
    process = subprocess.Popen(
        [str(vllm), *words.split()],
        cwd=tmp_path,
        env={"VLLM_LOGGING_LEVEL": "DEBUG", "HF_TOKEN": "hf_secret", "EDITOR": "vi", "PATH": os.defpath},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.communicate(timeout=10)


def test_the_words_and_the_variables_of_a_process_make_its_plan(
    started: subprocess.Popen[bytes], vllm: Path, tmp_path: Path
) -> None:
    adopted = adopt(f"pid:{started.pid}")
    plan = adopted.plan
    assert plan.argv == (
        *(str(vllm.with_name("python3")), str(vllm), "serve", "org/m"),
        *("--tensor-parallel-size", "2", "--max-model-len", "32K"),
        *("--served-model-name", "a", "b", "--odd", "x"),
    )
    assert plan.env == {"VLLM_LOGGING_LEVEL": "DEBUG"}
    assert set(adopted.adopted_from.secrets) == {"VLLM_API_KEY", "HF_TOKEN"}
    assert "secret" not in repr(adopted).replace("secrets", "")
    assert (plan.runtime_kind, plan.runtime_path) == ("venv", str(vllm.parent.parent))
    assert plan.vllm_version == "0.31.0"
    assert plan.limits is not None
    assert plan.limits.context == 32768
    assert adopted.unread == ()


def test_a_changed_process_is_ended_and_started_where_it_was(
    started: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    plan = adopt(f"pid:{started.pid}").plan
    edit = PlanEdit(origin="remedy", title="", set={"--tensor-parallel-size": "1"}, unset=("--odd",))
    stop, start, kept, moved = instructions(plan, [edit])
    assert stop.commands == (f"kill {started.pid}",)
    assert start.commands[0] == f"cd {tmp_path}"
    words = start.commands[1].replace(" \\\n  ", " ").split()
    assert words[:3] == ["VLLM_LOGGING_LEVEL=DEBUG", 'VLLM_API_KEY="$VLLM_API_KEY"', 'HF_TOKEN="$HF_TOKEN"']
    assert words[-7:] == [
        "--tensor-parallel-size",
        "1",
        "--max-model-len",
        "32K",
        "--served-model-name",
        "a",
        "b",
    ]
    assert ("HF_TOKEN" in kept.text, "VLLM_API_KEY" in moved.text) == (True, True)


def test_the_command_prints_the_plan_that_diagnose_takes(
    started: subprocess.Popen[bytes], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--from", f"pid:{started.pid}", "--json"]) == 0
    printed = capfd.readouterr().out
    assert json.loads(printed)["adopted_from"]["kind"] == "pid"
    assert "sk-secret" not in printed
    plan = tmp_path / "plan.json"
    plan.write_text(printed)
    log = tmp_path / "vllm.log"
    log.write_text(
        "ERROR ValueError: Free memory on device (13.58/15.99 GiB) on startup is less than desired GPU "
        "memory utilization (0.92, 14.71 GiB). Decrease GPU memory utilization or reduce GPU memory used by "
        "other processes.\n"
    )
    assert main(["diagnose", str(log), "--plan", str(plan), "--json"]) == 1
    remedy = next(
        each for each in json.loads(capfd.readouterr().out)["findings"][0]["remedies"] if each["set"]
    )
    assert remedy["instructions"][0]["commands"] == [f"kill {started.pid}"]
    assert "--odd x" in remedy["instructions"][1]["commands"][1]


def test_a_worker_leads_to_its_server(vllm: Path) -> None:
    shell = subprocess.Popen(
        ["sh", "-c", f"{vllm} serve org/m --port 8123; true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert shell.stdout is not None
    shell.stdout.readline()
    try:
        plan = adopt(f"pid:{shell.pid}").plan
        assert (plan.checkpoint, plan.port) == ("org/m", 8123)
        assert plan.argv[2:4] == ("serve", "org/m")
    finally:
        shell.communicate(timeout=10)


def test_the_file_of_options_is_read_in_before_the_options(vllm: Path, tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text(
        "model: org/from-file\nport: 8300\nmax_model_len: 8192\nenforce-eager: true\n"
        "enable-prefix-caching: false\nserved-model-name: [x, y]\ncompilation-config:\n  mode: 3\n"
    )
    with subprocess.Popen(
        [str(vllm), "serve", "--config", "serve.yaml", "--port", "8400"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        plan = adopt(f"pid:{process.pid}").plan
        process.communicate(timeout=10)
    # As vLLM 0.32.0 puts the file's options in: before those of the command line, which win.
    assert plan.argv[2:] == (
        *("serve", "--model", "org/from-file", "--max-model-len", "8192", "--enforce-eager"),
        *("--no-enable-prefix-caching", "--served-model-name", "x", "y"),
        *("--compilation-config", '{"mode":3}', "--port", "8400"),
    )
    assert (plan.checkpoint, plan.port) == ("org/from-file", 8400)


def test_what_is_no_server_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RefusedError):
        adopt(f"pid:{os.getpid()}")
    with pytest.raises(UsageError):
        adopt("pid:999999999")
    assert main(["--simulate", "gb10", "plan", "--from", f"pid:{os.getpid()}"]) == 2
    assert "--simulate" in capfd.readouterr().err
