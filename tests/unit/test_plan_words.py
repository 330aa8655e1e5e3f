"""Taking a command line apart as vLLM's own parser does."""

from __future__ import annotations

import pytest

from wizard.plan.words import canonical_flag, read_call, read_options, tokens


@pytest.mark.parametrize(
    ("words", "command", "model"),
    [
        ("vllm serve M --port 1", "vllm serve M", "M"),
        ("/opt/v/bin/python3 /opt/v/bin/vllm serve M", "/opt/v/bin/python3 /opt/v/bin/vllm serve M", "M"),
        ("vllm serve --port 1 M", "vllm serve M", "M"),
        ("vllm serve --enforce-eager M", "vllm serve M", "M"),
        ("vllm serve --model M", "vllm serve", "M"),
        ("python -m vllm.entrypoints.cli.main serve M", "python -m vllm.entrypoints.cli.main serve M", "M"),
        (
            "python3 -m vllm.entrypoints.openai.api_server --model=M",
            "python3 -m vllm.entrypoints.openai.api_server",
            "M",
        ),
        ("numactl -N 0 vllm serve M -tp 2", "numactl -N 0 vllm serve M", "M"),
    ],
)
def test_the_call_and_the_model_are_found(words: str, command: str, model: str) -> None:
    call = read_call(words.split())
    assert call is not None
    assert (" ".join(call.command), call.model) == (command, model)


@pytest.mark.parametrize(
    "words", ["vllm bench serve", "python -m http.server", "VLLM::EngineCore", "grep vllm serve.log", ""]
)
def test_other_programs_are_no_server(words: str) -> None:
    assert read_call(words.split()) is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        # What `vllm serve` 0.32.0 made of each of these, printed by its own parser.
        ("-tp", "--tensor-parallel-size"),
        ("--tensor_parallel_size", "--tensor-parallel-size"),
        ("--tensor-par", "--tensor-parallel-size"),
        ("-cc.mode", "--compilation-config.mode"),
        ("--compilation_config.cudagraph_mode", "--compilation-config.cudagraph_mode"),
        ("--device-memory-utilization", "--gpu-memory-utilization"),
        ("--no_enable_prefix_caching", "--no-enable-prefix-caching"),
        ("--swap-space", "--swap-space"),
        ("--enable-reasoning", "--enable-reasoning"),
        ("-O3", "-O3"),
        ("--nobody-knows", "--nobody-knows"),
    ],
)
def test_every_spelling_of_an_option_is_one_option(written: str, meant: str) -> None:
    assert canonical_flag(written) == meant


def test_options_keep_their_order_and_several_values() -> None:
    words = "--served-model-name a b --max-model-len -1 --new-thing --middleware x --middleware y --q=1"
    assert [option.words for option in read_options([*words.split(), "stray"])] == [
        ("--served-model-name", "a", "b"),
        ("--max-model-len", "-1"),
        ("--new-thing",),
        ("--middleware", "x"),
        ("--middleware", "y"),
        ("--q", "1"),
        ("stray",),
    ]


def test_a_secret_becomes_a_variable_and_leaves_the_options() -> None:
    call = read_call(["vllm", "serve", "M", "--api-key", "sk-1234", "--hf-token=hf_1234", "--port", "1"])
    assert call is not None
    assert [option.flag for option in call.options] == ["--port"]
    assert call.secrets == {"VLLM_API_KEY": "sk-1234", "HF_TOKEN": "hf_1234"}


@pytest.mark.parametrize(
    ("text", "number"),
    [("32768", 32768), ("65k", 65000), ("64K", 65536), ("25.6k", 25600), ("auto", None), ("-1", None)],
)
def test_numbers_of_tokens_are_read_as_vllm_does(text: str, number: int | None) -> None:
    # vLLM: k, m, g are decimal, K, M, G binary.
    assert tokens(text) == number
