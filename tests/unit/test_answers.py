"""The answers file: strict, with errors that help."""

from __future__ import annotations

from pathlib import Path

import pytest

from wizard.errors import CorruptDataError, UsageError
from wizard.flow import load_answers


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "answers.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_every_key_is_optional(tmp_path: Path) -> None:
    answers = load_answers(write(tmp_path, ""))
    assert answers.serve.port == 8000
    assert answers.serve.host == "127.0.0.1"
    assert answers.opencode.provider == "vllm"
    assert answers.model.parser == "auto"


def test_a_complete_file_is_read(tmp_path: Path) -> None:
    answers = load_answers(
        write(
            tmp_path,
            """
[start]
mode = "install"
lang = "fr"
[machine]
gpus = [0, 1]
[runtime]
kind = "command"
command = ["vllm"]
env = { VLLM_CPU_KVCACHE_SPACE = "1" }
[model]
id = "qwen3-coder-next"
served_name = "mine"
[budget]
max_model_len = 65536
gpu_memory_utilization = 0.8
[serve]
port = 8123
extra_args = ["--enforce-eager"]
detach = false
[smoke]
skip = true
[opencode]
globals = "yes"
proof = false
""",
        )
    )
    assert answers.machine.gpus == (0, 1)
    assert answers.runtime.env == {"VLLM_CPU_KVCACHE_SPACE": "1"}
    assert answers.budget.max_model_len == 65536
    assert answers.serve.extra_args == ("--enforce-eager",)
    assert answers.smoke.skip


@pytest.mark.parametrize(
    ("text", "named", "offered"),
    [
        ("[serve]\nprot = 1", "prot", "port"),
        ("[modell]\nid = 'x'", "modell", "model"),
        ("[model]\nparsers = 'x'", "parsers", "parser"),
        ("[serve]\nport = 'http'", "serve.port", ""),
        ("[serve]\nport = 99999", "serve.port", ""),
        ("[budget]\nconcurrency = 0", "budget.concurrency", ""),
        ("[budget]\ngpu_memory_utilization = 1.5", "budget.gpu_memory_utilization", ""),
        ("[start]\nmode = 'installl'", "start.mode", ""),
        ("serve = 3", "serve", ""),
        ("[serve\nport = 1", "line 1", ""),
    ],
)
def test_a_wrong_key_is_named_and_the_nearest_offered(
    tmp_path: Path, text: str, named: str, offered: str
) -> None:
    with pytest.raises(CorruptDataError) as caught:
        load_answers(write(tmp_path, text))
    assert named in caught.value.message
    assert offered in caught.value.hint
    assert "answers.toml" in caught.value.message
    assert caught.value.exit_code == 2


def test_a_missing_file_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="missing"):
        load_answers(tmp_path / "missing.toml")


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "answers.toml"
    file.write_bytes(b"\xff\xfe\x00garbage")
    with pytest.raises(CorruptDataError, match=r"answers\.toml"):
        load_answers(file)
