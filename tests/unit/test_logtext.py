"""Lines of vLLM's log out of their wrappings, and the cause of a failure among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from wizard.logtext import Cause, find_cause, read_line, shorten

LOGS = Path(__file__).parents[1] / "data" / "logs"
ERROR = "ERROR 08-03 21:49:23 [core.py:1231] "
SENTENCE = "ValueError: it does not fit"


@pytest.mark.parametrize(
    "raw",
    [
        f"(EngineCore pid=12) {ERROR}{SENTENCE}",
        f"\x1b[1;36m(EngineCore pid=12)\x1b[0;0m {ERROR}{SENTENCE}\r",
        f"Nov 30 20:15:01 gpu-box vllm[812]: (EngineCore pid=12) {ERROR}{SENTENCE}",
        f"déc. 01 06:54:30 gpu-box vllm[812]: (EngineCore pid=12) {ERROR}{SENTENCE}",
        f"12月 01 06:54:30 gpu-box vllm[812]: (EngineCore pid=12) {ERROR}{SENTENCE}",
        f"2026-12-01T06:54:30+0100 gpu-box docker[812]: (EngineCore pid=12) {ERROR}{SENTENCE}",
        f"[pod/vllm-0/vllm] (EngineCore pid=12) {ERROR}{SENTENCE}",
        f"vllm-1  | (EngineCore pid=12) {ERROR}{SENTENCE}",
        f"2026-11-30T20:15:01.123456789Z (EngineCore pid=12) {ERROR}{SENTENCE}",
        f"2026-11-30T20:15:01.123456789+01:00 stderr F (EngineCore pid=12) {ERROR}{SENTENCE}",
        f'{{"log":"(EngineCore pid=12) {ERROR}{SENTENCE}\\n","stream":"stdout","time":"2026-11-30"}}',
        f'{{"severity":"ERROR","message":"(EngineCore pid=12) {ERROR}{SENTENCE}"}}',
        f'{{"MESSAGE":{list(f"(EngineCore pid=12) {ERROR}{SENTENCE}".encode())},"_PID":"12"}}',
        f'{{"asctime":"x","levelname":"ERROR","name":"vllm","processName":"MainProcess","process":12,'
        f'"message":"{SENTENCE}","vllm_process_name":"EngineCore"}}',
    ],
)
def test_whoever_carried_a_line_it_says_the_same(raw: str) -> None:
    line = read_line(raw, 7)
    assert (line.number, line.process, line.level, line.text) == (7, "EngineCore", "ERROR", SENTENCE)


@pytest.mark.parametrize(
    "raw",
    [
        'INFO:     127.0.0.1:5678 - "GET /health HTTP/1.1" 200 OK',
        '{"error":{"message":"The model `x` does not exist.","code":404}}',
        "{not json",
        '{"object":"error","message":"no such model","code":404}',
        "2026-12-01T06:54:30Z",
        "Error 12 of 30: nothing",
        "",
        "Traceback (most recent call last):",
    ],
)
def test_a_line_of_nobodys_logger_is_left_as_it_is(raw: str) -> None:
    line = read_line(raw)
    assert (line.process, line.level, line.text) == ("", "", raw)


def cause_in(lines: list[str]) -> Cause | None:
    return find_cause(read_line(line, number) for number, line in enumerate(lines, 1))


def root_cause(lines: list[str]) -> str | None:
    """The sentence that names the cause, as a person reads it."""
    cause = cause_in(lines)
    return cause.text if cause else None


def last_error_block(lines: list[str], limit: int = 24) -> tuple[str, ...]:
    """What a failed start shows: the lines that lead to the cause, the cause the last."""
    cause = cause_in(lines)
    return shorten(cause.block, limit) if cause else ()


def engine_block(*texts: str) -> list[str]:
    return [f"(EngineCore pid=12) {ERROR}{text}" for text in ("EngineCore failed to start.", *texts)]


WRAPPER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


def test_the_engines_last_error_is_the_cause_and_the_wrapper_never() -> None:
    lines = [
        *engine_block("Traceback (most recent call last):", "    raise ValueError(", SENTENCE),
        "(EngineCore pid=12) Process EngineCore:",
        "(EngineCore pid=12) AttributeError: 'NoneType' object has no attribute 'shutdown'",
        f"(APIServer pid=9) {WRAPPER}",
    ]
    assert root_cause(lines) == SENTENCE
    assert last_error_block(lines)[0] == "EngineCore failed to start."
    assert last_error_block(lines)[-1] == SENTENCE


def test_a_workers_error_is_the_cause_of_the_engines() -> None:
    worker = "(Worker_TP1 pid=14) ERROR 08-03 21:49:20 [multiproc_executor.py:1057] "
    lines = [
        f"{worker}WorkerProc failed to start.",
        "(Worker_TP0 pid=13) INFO 08-03 21:49:20 [gpu_worker.py:1] still at work",
        f"{worker}safetensors._safetensors_rust.SafetensorError: incomplete metadata",
        *engine_block(
            "Exception: WorkerProc initialization failed due to an exception in a background process."
        ),
        WRAPPER,
    ]
    assert root_cause(lines) == "safetensors._safetensors_rust.SafetensorError: incomplete metadata"


def test_without_an_engine_the_last_error_named_is_the_cause() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "cli_args.py", line 1, in validate',
        "    ^^^^^^^",
        "KeyError: 'invalid tool call parser: qwen9 (chose from { hermes,qwen3_coder })'",
    ]
    assert root_cause(lines) == lines[-1]
    assert last_error_block(lines) == (lines[0], lines[1], lines[3])


def test_what_pydantic_says_on_the_following_lines_belongs_to_it() -> None:
    lines = [
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for CacheConfig",
        "gpu_memory_utilization",
        "  Input should be less than or equal to 1 [type=less_than_equal, input_value=1.5, input_type=float]",
    ]
    cause = root_cause(lines)
    assert cause is not None
    assert cause.startswith(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for CacheConfig"
    )
    assert "gpu_memory_utilization Input should be less than or equal to 1" in cause


def test_only_the_last_start_of_a_log_counts() -> None:
    banner = "INFO 09-30 18:28:54 [api_server.py:1896] vLLM API server version 0.10.2"
    assert (
        root_cause([banner, *engine_block(SENTENCE), banner, *engine_block("OSError: other")])
        == "OSError: other"
    )


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("vllm: error: unrecognized arguments: --max-model-lenn 2048", True),
        ("Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.", True),
        ("Worker proc VllmWorker-0 died unexpectedly (exit code: 0), shutting down executor.", False),
        (
            "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
            False,
        ),
        ("WARNING 11-30 18:26:37 [x.py:1] NotImplementedError: SM90 kernel is unavailable", False),
        ("INFO:     Application startup complete.", False),
    ],
)
def test_what_names_a_cause_and_what_does_not(line: str, cause: bool) -> None:
    assert (root_cause([line]) is not None) is cause


def test_a_long_block_keeps_its_head_and_its_end() -> None:
    lines = engine_block(*(f'  File "{number}.py"' for number in range(100)), SENTENCE)
    block = last_error_block(lines, limit=5)
    assert len(block) == 5
    assert (block[0], block[-1]) == ("EngineCore failed to start.", SENTENCE)


@pytest.mark.parametrize(
    ("file", "start"),
    [
        (
            "window-too-long.txt",
            "ValueError: To serve at least one request with the model's max seq len (131072)",
        ),
        ("no-cache-memory.txt", "ValueError: No available memory for the cache blocks."),
    ],
)
def test_recorded_failures_of_a_real_vllm(file: str, start: str) -> None:
    lines = (LOGS / file).read_text().splitlines()
    cause = find_cause(read_line(line, number) for number, line in enumerate(lines, 1))
    assert cause is not None
    assert cause.text.startswith(start)
    assert start in lines[cause.record.number - 1]


def test_warnings_with_tracebacks_are_no_cause() -> None:
    assert root_cause((LOGS / "healthy-with-tracebacks.txt").read_text().splitlines()) is None
