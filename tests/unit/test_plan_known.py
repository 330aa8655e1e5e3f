"""Names in a plan that the vLLM at hand does not know, and what changed about those it knows."""

from __future__ import annotations

import msgspec
import pytest
from launching import plan_for

from wizard.plan import LaunchPlan, Option, PlanEdit
from wizard.plan.known import canonical, judged
from wizard.runtime import Runtime, assumed_runtime

ASKED = Runtime(
    kind="venv",
    path="/opt/vllm",
    command=("/opt/vllm/bin/vllm",),
    version="0.32.0",
    tool_parsers=("hermes", "qwen3_coder", "qwen3_xml"),
    reasoning_parsers=("qwen3",),
    flags=(
        "--compilation-config",
        "--attention-backend",
        "--enforce-eager",
        "--kv-cache-dtype",
        "--kv-cache-dtype-skip-layers",
        "--max-model-len",
        "--max-num-seqs",
        "--no-enforce-eager",
        "--reasoning-parser",
        "--tool-call-parser",
        "--tool-parser-plugin",
    ),
    choices={"--kv-cache-dtype": ("auto", "fp8", "fp8_e4m3")},
    variables=("VLLM_CACHE_ROOT", "VLLM_NO_USAGE_STATS"),
    attention_backends=("FLASH_ATTN", "TRITON_ATTN"),
)


def plan(*words: str, env: dict[str, str] | None = None) -> LaunchPlan:
    options = [word.partition("=") for word in words]
    base = tuple(Option(flag=flag, value=value if equals else None) for flag, equals, value in options)
    return plan_for("vllm", "serve", "org/tiny", port=8000, base_options=base, base_env=env or {})


@pytest.mark.parametrize("runtime", [ASKED, assumed_runtime()])
@pytest.mark.parametrize("word", ["-O0", "-O", "-O3"])
def test_a_level_of_optimization_is_known_to_every_vllm(runtime: Runtime, word: str) -> None:
    found = judged(plan(word), runtime)
    assert not found.refused
    assert not found.warnings


@pytest.mark.parametrize(
    ("written", "flag"),
    [
        ("--max-num-seqs", "--max-num-seqs"),
        ("--max_num_seqs", "--max-num-seqs"),
        ("--max-num", "--max-num-seqs"),
        ("--no-enforce", "--no-enforce-eager"),
        ("--kv-cache-dtype", "--kv-cache-dtype"),
        ("--kv-cache-dt", "--kv-cache-dt"),
        ("--compilation_config.cudagraph_mode", "--compilation-config.cudagraph_mode"),
        ("--unheard_of", "--unheard-of"),
    ],
)
def test_an_option_is_read_as_vllm_reads_it(written: str, flag: str) -> None:
    assert canonical(written, ASKED) == flag


@pytest.mark.parametrize(
    "word",
    [
        "--enforce-eager",
        "--no-enforce-eager",
        "--compilation-config.cudagraph_mode=NONE",
        "--kv-cache-dtype=FP8",
        "--attention-backend=triton_attn",
        "--attention-backend=auto",
        "--max-model-len=auto",
        "--tool-call-parser=qwen3_xml",
    ],
)
def test_what_vllm_knows_is_let_pass(word: str) -> None:
    found = judged(plan(word), ASKED)
    assert (found.refused, found.warnings) == ((), ())


@pytest.mark.parametrize(
    ("word", "code", "near"),
    [
        ("--max-num-seq", "flag-unknown", "--max-num-seqs"),
        ("--kv-cache-dt", "flag-unknown", "--kv-cache-dtype"),
        ("--swap-space=4", "flag-unknown", "--kv-offloading-size"),
        ("--compilation-confg.level=3", "flag-unknown", "--compilation-config"),
        ("--reasoning-effort-map={}", "flag-unknown", "0.33.0"),
        ("--kv-cache-dtype=fp8_e4m2", "value-unknown", "fp8_e4m3"),
        ("--attention-backend=FLASHATTN", "value-unknown", "FLASH_ATTN"),
        ("--tool-call-parser=qwen3-coder", "value-unknown", "qwen3_coder"),
        ("--reasoning-parser=qwen", "value-unknown", "qwen3"),
    ],
)
def test_what_the_installed_vllm_does_not_know_is_refused_with_the_nearest(
    word: str, code: str, near: str
) -> None:
    (reason,) = judged(plan(word), ASKED).refused
    assert (reason.code, reason.refuses) == (code, True)
    assert near in reason.text
    assert reason.source


def test_parsers_that_a_plugin_brings_are_not_judged() -> None:
    assert judged(plan("--tool-parser-plugin=/x.py", "--tool-call-parser=mine"), ASKED).refused == ()


def test_an_edit_is_judged_like_the_rest() -> None:
    edited = msgspec.structs.replace(
        plan(), edits=(PlanEdit(origin="user", title="mine", set={"--enforce-eagerly": None}),)
    )
    assert [reason.code for reason in judged(edited, ASKED).refused] == ["flag-unknown"]


def test_a_variable_vllm_would_overlook_is_warned_of() -> None:
    env = {
        "VLLM_ATTENTION_BACKEND": "X",
        "VLLM_NO_USAGE_STAT": "1",
        "VLLM_CACHE_ROOT": "/x",
        "NCCL_DEBUG": "INFO",
    }
    found = judged(plan(env=env), ASKED)
    assert found.refused == ()
    gone, mistyped = found.warnings
    assert (gone.code, mistyped.code) == ("variable-unknown", "variable-unknown")
    assert "--attention-backend" in gone.text
    assert "VLLM_NO_USAGE_STATS" in mistyped.text


@pytest.mark.parametrize(
    ("version", "word", "refused"),
    [
        ("0.17.1", "--swap-space=4", False),
        ("0.18.0", "--swap-space=4", True),
        ("0.12.0", "--attention-backend=FLASH_ATTN", True),
        ("0.13.0", "--attention-backend=FLASH_ATTN", False),
        ("0.13.0", "--max-model-len=auto", True),
        ("0.14.1", "--max-model-len=auto", False),
        ("0.13.0", "--max-model-len=8192", False),
    ],
)
def test_the_tables_speak_for_a_vllm_that_was_not_asked(version: str, word: str, refused: bool) -> None:
    found = judged(plan(word), assumed_runtime(version))
    assert [reason.code for reason in found.refused] == (["flag-unknown"] if refused else [])
    assert found.warnings == ()


def test_a_name_no_table_holds_is_only_warned_of_where_vllm_was_not_asked() -> None:
    found = judged(
        plan("--max-num-seq=8", "--max-num-seqs=8", "--no-enable-prefix-caching"), assumed_runtime()
    )
    assert found.refused == ()
    (warning,) = found.warnings
    assert warning.code == "flag-unrecorded"
    assert "--max-num-seqs" in warning.text


def test_what_changed_about_the_options_used_is_told_with_its_source() -> None:
    words = ("--gpu-memory-utilization=0.9", "--tool-call-parser=qwen3_coder", "--max-num-seqs=8")
    reasons = judged(plan(*words, env={"VLLM_USE_V1": "0"}), assumed_runtime("0.10.2")).reasons
    told = {reason.subject: reason.why for reason in reasons}
    assert list(told) == ["--gpu-memory-utilization", "--tool-call-parser qwen3_coder", "VLLM_USE_V1"]
    assert "0.20.0" in told["--gpu-memory-utilization"]
    assert "0.24.0" in told["--tool-call-parser qwen3_coder"]
    assert "0.11.0" in told["VLLM_USE_V1"]
    assert all(reason.source for reason in reasons)


def test_a_vllm_newer_than_the_tables_is_told_as_one() -> None:
    assert [reason.subject for reason in judged(plan(), assumed_runtime("0.99.0")).reasons] == ["vLLM"]
    assert judged(plan(), assumed_runtime("0.33.0")).reasons == ()


def test_into_a_container_go_the_names_of_the_variables() -> None:
    inside = msgspec.structs.replace(
        plan("--enforce-eager", env={"VLLM_CACHE_ROOT": "/x"}),
        runtime_kind="container",
        command=("docker", "run", "--rm", "--env=HF_TOKEN", "mine:v1", "serve", "org/tiny"),
    )
    assert inside.argv == (
        *("docker", "run", "--rm", "--env=HF_TOKEN", "--env=VLLM_CACHE_ROOT", "mine:v1", "serve", "org/tiny"),
        "--enforce-eager",
    )
