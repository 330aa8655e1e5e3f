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


IMAGE = {
    # What docker shows in a container of nvidia/cuda and of vllm/vllm-openai, and a service adds by itself.
    "NVIDIA_REQUIRE_CUDA": "cuda>=13.0 brand=unknown,driver>=470,driver<471 " * 8,
    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_PRODUCT_NAME": "CUDA",
    "CUDA_VERSION": "13.0.1",
    "CUDA_HOME": "/usr/local/cuda",
    "NCCL_VERSION": "2.28.3-1",
    "NV_CUDA_LIB_VERSION": "13.0.1-1",
    "VLLM_BUILD_COMMIT": "0123456",
    "VLLM_USAGE_SOURCE": "production-docker-image",
    "VLLM_IMAGE_TAG": "v0.32.0",
    "PYTORCH_VERSION": "2.9.1",
    "LANG": "C.UTF-8",
    "INVOCATION_ID": "ab12",
}
MEANT = {
    "CUDA_VISIBLE_DEVICES": "0,1",
    "NCCL_DEBUG": "INFO",
    "NVIDIA_TF32_OVERRIDE": "0",
    "VLLM_IMAGE_FETCH_TIMEOUT": "30",
    "VLLM_FLASH_ATTN_VERSION": "2",
    "TOKENIZERS_PARALLELISM": "false",
}


def test_what_an_image_says_of_itself_is_no_part_of_a_plan(vllm: Path, tmp_path: Path) -> None:
    command = [str(vllm), "serve", "org/m"]
    environment = {**IMAGE, **MEANT, "PATH": os.defpath}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert adopt(f"pid:{process.pid}").plan.env == MEANT
        process.communicate(timeout=10)
    unit = tmp_path / "vllm.service"
    lines = [f'Environment="{name}={value}"' for name, value in {**IMAGE, **MEANT}.items()]
    unit.write_text("\n".join(["[Service]", *lines, f"ExecStart={vllm} serve org/m"]))
    kept = adopt(f"unit:{unit}").plan.env
    # What somebody wrote into a unit is meant, unless it is known to mean nothing.
    assert set(kept) - set(MEANT) == {
        *("NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES", "NV_CUDA_LIB_VERSION"),
        *("LANG", "INVOCATION_ID"),
    }
    assert {name: kept[name] for name in MEANT} == MEANT


def test_cuda_in_a_folder_of_its_own_is_part_of_the_plan(vllm: Path) -> None:
    with subprocess.Popen(
        [str(vllm), "serve", "org/m"],
        env={"CUDA_HOME": "/opt/cuda-13", "PATH": os.defpath},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert adopt(f"pid:{process.pid}").plan.env == {"CUDA_HOME": "/opt/cuda-13"}
        process.communicate(timeout=10)


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
