"""The command line as a stranger calls it: names, fields, exit codes, one document on stdout."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wizard import __version__
from wizard.cli import main

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    """Runs a command line: (exit code, stdout, stderr)."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


def loaded(call: Call, *words: str) -> tuple[int, Any]:
    code, out, _err = call(*words)
    return code, json.loads(out)


def test_version(call: Call) -> None:
    assert call("--version") == (0, f"vllm-opencode {__version__}\n", "")


def test_common_options_stand_anywhere(call: Call) -> None:
    first = loaded(call, "--simulate", "gb10", "--json", "detect")
    last = loaded(call, "detect", "--json", "--simulate", "gb10")
    assert first == last


def test_detect_has_the_fields_of_the_contract(call: Call) -> None:
    code, document = loaded(call, "--simulate", "v100x10", "--json", "detect")
    assert code == 0
    machine = document["machine"]
    assert {
        "arch",
        "os",
        "product",
        "driver",
        "cuda",
        "gpus",
        "nvlink_groups",
        "memory",
        "disks",
        "shm",
    } <= set(machine)
    wanted = {"index", "name", "uuid", "compute_capability", "memory_mib", "memory_free_mib", "unified"}
    assert wanted | {"bandwidth_gbs", "links", "problems"} <= set(machine["gpus"][0])
    assert machine["nvlink_groups"] == [[0, 1, 2, 3], [4, 5, 8, 9], [6, 7]]
    assert {"id", "status", "detail", "hint"} <= set(document["checks"][0])


def test_a_machine_without_a_gpu_is_a_failed_check(call: Call) -> None:
    code, document = loaded(call, "--simulate", "no-gpu", "--json", "detect")
    assert code == 1
    assert [check["id"] for check in document["checks"] if check["status"] == "fail"] == ["gpu"]


def test_models_has_the_fields_of_the_contract(call: Call) -> None:
    code, document = loaded(call, "--simulate", "gb10", "--json", "models")
    assert code == 0
    row = document["rows"][0]
    wanted = {
        "model",
        "variant",
        "quantization",
        "weights_gib",
        "fits",
        "max_context",
        "parser",
        "reasoning_parser",
    }
    assert wanted | {"verdict", "reasons"} <= set(row)
    assert row["model"] == "qwen3-coder-next"
    assert {"code", "text", "source"} <= set(row["reasons"][0])
    assert all(reason["source"] for row in document["rows"] for reason in row["reasons"])


def test_models_of_a_machine_where_nothing_works(call: Call) -> None:
    code, document = loaded(call, "--simulate", "no-gpu", "--json", "models")
    assert code == 1
    assert {row["verdict"] for row in document["rows"]} == {"no"}


def test_plan_json_and_its_format_are_the_same(call: Call) -> None:
    flagged = loaded(call, "--simulate", "gb10", "plan", "--json")
    formatted = loaded(call, "--simulate", "gb10", "plan", "--format", "json")
    assert flagged == formatted
    assert flagged[0] == 0
    assert flagged[1]["plan"]["argv"][:2] == ["vllm", "serve"]


def test_a_refused_plan_is_shown_and_is_exit_code_1(call: Call) -> None:
    code, document = loaded(call, "--simulate", "h200", "--json", "plan", "--model", "Qwen2.5-Coder-32B")
    assert code == 1
    assert "model-cannot-call-tools" in [reason["code"] for reason in document["refused"]]
    assert document["plan"]["argv"]


def test_budget_has_the_fields_of_the_contract(call: Call) -> None:
    code, document = loaded(call, "--simulate", "h200", "--json", "budget", "--model", "qwen3-coder-30b-a3b")
    assert code == 0
    memory = {"total_gib", "requested_gib", "weights_gib", "activation_gib", "graphs_gib", "available_kv_gib"}
    assert memory <= set(document["memory"])
    kv = {"bytes_per_token", "block_size", "bytes_per_block", "blocks_per_request", "cache_tokens"}
    assert kv | {"max_concurrency", "needed_gib", "max_model_len_fit"} <= set(document["kv"])
    limits = {"context", "input", "output", "reserved", "tool_output", "base_prompt_tokens", "warnings"}
    assert limits <= set(document["opencode"])


def test_budget_of_a_recorded_start_agrees_with_what_vllm_said(call: Call, tmp_path: Path) -> None:
    # vLLM 0.26.0 on an H200, Qwen3-Coder-30B-A3B, window 65,536: 46,955 blocks, 751,280 tokens.
    config = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "vocab_size": 151936,
        "max_position_embeddings": 262144,
        "torch_dtype": "bfloat16",
    }
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    words = ["budget", "--config", str(file), "--vllm-version", "0.26.0", "--max-model-len", "65536"]
    # Half a block more than those blocks, so that rounding the figure cannot lose one.
    available = 46955.5 * 48 * 4 * 256 * 2 * 16 / 2**30
    code, document = loaded(
        call,
        "--simulate",
        "h200",
        "--json",
        *words,
        "--enforce-eager",
        "--available-kv-gib",
        f"{available:.6f}",
    )
    assert code == 0
    assert document["kv"]["cache_tokens"] == 751280
    assert document["kv"]["max_concurrency"] == pytest.approx(11.463623046875)
    assert document["memory"]["weights_gib"] == pytest.approx(56.93, abs=0.5)


def test_a_window_that_loops_is_exit_code_1(call: Call) -> None:
    code, document = loaded(
        call, "--simulate", "h200", "--json", "budget", "--max-model-len", "32768", "--output", "32000"
    )
    assert code == 1
    assert any(warning["refuses"] for warning in document["opencode"]["warnings"])


def test_with_json_an_error_is_a_document_too(call: Call) -> None:
    code, out, err = call("--simulate", "gb11", "detect", "--json")
    assert code == 2
    told = json.loads(out)
    assert told["event"] == "error"
    assert "gb11" in told["error"]["message"]
    assert "gb10" in told["error"]["hint"]
    assert "gb10" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--simulate", "gb11", "detect"], "gb10"),
        (["--simulate", "gb10", "plan", "--model", "qwen3-coder-nxt"], "qwen3-coder-next"),
        (["--simulate", "gb10", "plan", "--format", "compse"], "shell"),
        (["--simulate", "gb10", "plan", "--answers", "/nonexistent/a.toml"], "/nonexistent/a.toml"),
        (["--simulate", "gb10", "budget", "--max-model-len", "many"], "--max-model-len"),
        (["--simulate", "gb10", "budget", "--max-model-len", "0"], "--max-model-len"),
        (["--simulate", "gb10", "budget", "--gpu-memory-utilization", "1.5"], "--gpu-memory-utilization"),
        (
            ["--simulate", "gb10", "budget", "--config", "/nonexistent/config.json"],
            "/nonexistent/config.json",
        ),
        (["--simulate", "gb10", "budget", "--kv-cache-dtype", "fp7"], "fp8"),
        (["detect", "--frobnicate"], "--frobnicate"),
        (["detekt"], "detekt"),
        (["detect", "--lang", "de"], "--lang"),
        (["--simulate"], "--simulate"),
        (["rehearse", "--fault", "tools-tga"], "tools-tag"),
        (["smoke", "--base-url", "ftp://nowhere"], "ftp://nowhere"),
        (["diagnose", "/nonexistent.log"], "/nonexistent.log"),
        (["undo"], "receipt"),
        (["stop"], "launch"),
        (["logs"], "launch"),
        (["report"], "receipt"),
        (["setup", "--resume"], "resume"),
        ([], "terminal"),
        (["configure", "--path", "a", "--project", "b"], "--project"),
        (["configure", "--globals", "maybe"], "--globals"),
        (["configure", "--output", "0"], "budget.output"),
        (["configure", "--context", "-1"], "opencode.context"),
        (["configure", "--model", ""], "model.served_name"),
        (["--simulate", "x" * 5000, "detect"], "xxx"),
        (["--simulate", "gb10", "budget", "--available-kv-gib", "nan"], "--available-kv-gib"),
        (["--simulate", "gb10", "budget", "--available-kv-gib", "1e400"], "--available-kv-gib"),
        (["smoke", "--base-url", "http://user:hunter2@h/v1?key=hunter2"], "h/v1"),
    ],
)
def test_a_wrong_call_is_one_clear_line_and_exit_code_2(call: Call, words: list[str], said: str) -> None:
    code, out, err = call(*words)
    assert code == 2
    assert out == ""
    assert said in err
    assert "Traceback" not in err
    assert "hunter2" not in err
    assert len(err.strip().splitlines()) == 1


def test_an_unreadable_answers_key_is_named_with_the_nearest(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "answers.toml"
    file.write_text("[serve]\nprot = 8001\n", encoding="utf-8")
    code, _out, err = call("setup", "--answers", str(file), "--yes")
    assert code == 2
    assert "prot" in err
    assert "port" in err


def test_nothing_is_written_for_a_look(call: Call, own_home: Path) -> None:
    for words in (["detect"], ["models"], ["plan"], ["budget"], ["doctor"]):
        call("--simulate", "gb10", *words)
    assert list(own_home.rglob("*")) == []


def test_a_server_that_is_not_there_is_exit_code_1(call: Call) -> None:
    code, out, err = call("smoke", "--base-url", "http://127.0.0.1:9/v1", "--json")
    assert code == 1
    assert json.loads(out)["error"]["exit_code"] == 1
    assert "127.0.0.1:9" in err


def test_diagnose_exit_codes(call: Call, tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("(APIServer pid=1) INFO:     Application startup complete.\n", encoding="utf-8")
    assert call("diagnose", str(log))[0] == 0
    log.write_text(
        "KeyError: 'invalid tool call parser: qwen9 (chose from { hermes,xlam })'\n", encoding="utf-8"
    )
    code, document = loaded(call, "diagnose", str(log), "--json")
    assert code == 1
    assert {"fault", "severity", "title", "cause", "evidence", "remedies", "sources"} <= set(
        document["findings"][0]
    )
    log.write_text("INFO 11-30 10:00:00 [x.py:1] Loading\n", encoding="utf-8")
    assert call("diagnose", str(log))[0] == 3


def test_texts_from_outside_are_inert(call: Call, tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_bytes(
        b"\x1b]0;owned\x07\x1b[31mKeyError: 'invalid tool call parser: \x1b[2Jx (chose from { hermes })'\n"
    )
    _code, out, err = call("diagnose", str(log))
    assert "\x1b" not in out + err


def test_a_reader_that_goes_away_is_no_failure() -> None:
    program = f"{sys.executable} -m wizard --simulate v100x10 models --json | head -c 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", program], capture_output=True, timeout=60, check=False
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0


def test_the_wizard_without_a_terminal_says_so_and_does_not_hang() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wizard"], input=b"", capture_output=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert b"setup --answers" in done.stderr


PROGRAM = f"{sys.executable} -m wizard"


@pytest.mark.parametrize(
    "line",
    [
        f"{PROGRAM} --version >/dev/full",
        f"{PROGRAM} --simulate gb10 models >/dev/full",
        f"{PROGRAM} --simulate gb10 models --json >&-",
        f"{PROGRAM} --version >&-",
        f"{PROGRAM} --version | true",
        f"PYTHONIOENCODING=ascii {PROGRAM} --simulate gb10 detect",
        f"FORCE_COLOR=1 {PROGRAM} --simulate gb10 budget",
        f"{PROGRAM} --simulate gb10 detect <&-",
    ],
)
def test_odd_streams_are_borne(line: str) -> None:
    done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=60, check=False)
    assert b"Traceback" not in done.stderr
    assert b"bug" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    assert done.returncode in (0, 3)
    assert b"\x1b" not in done.stdout


def test_an_answers_file_nested_without_end_is_refused(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "answers.toml"
    file.write_text("x = " + "[" * 100_000, encoding="utf-8")
    code, _out, err = call("plan", "--answers", str(file))
    assert code == 2
    assert "answers.toml" in err


def test_secrets_of_the_runtimes_environment_are_never_shown(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "answers.toml"
    env = '{ HF_TOKEN = "hf_AbCdEfGhIjKlMnOp", MYPASS = "hunter2", TOKENIZERS_PARALLELISM = "false" }'
    file.write_text(f"[machine]\nsimulate = 'gb10'\n[runtime]\nenv = {env}\n", encoding="utf-8")
    shown = call("plan", "--answers", str(file))[1]
    document = call("plan", "--answers", str(file), "--json")[1]
    assert "AbCdEfGh" not in shown + document
    assert "hunter2" not in shown + document
    assert 'HF_TOKEN="$HF_TOKEN"' in shown
    assert "TOKENIZERS_PARALLELISM=false" in shown
