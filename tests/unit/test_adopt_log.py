"""The server a log tells of: the argument line of every version, whoever carried it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wizard.adopt import adopt, adopt_line
from wizard.cli import main
from wizard.errors import RefusedError, UsageError

# Argument lines as releases of vLLM wrote them; the names of models are changed.
LINES = {
    "0.9.2": "INFO 07-21 19:36:39 [cli_args.py:325] non-default args: {'host': '0.0.0.0', 'model': 'org/m', "
    "'dtype': 'bfloat16', 'max_model_len': 16384, 'tensor_parallel_size': 4}",
    "0.25.1": "(APIServer pid=6787) INFO 08-03 21:02:48 [api_utils.py:273] non-default args: {'model_tag': "
    "'org/m', 'enable_auto_tool_choice': True, 'tool_call_parser': 'poolside_v1', 'model': 'org/m', "
    "'served_model_name': ['a', 'b'], 'speculative_config': {'model': 'org/d', 'num_speculative_tokens': 3}, "
    "'enable_prefix_caching': False, 'max_model_len': 262144}",
    "0.8.5": "INFO 05-26 18:53:37 [api_server.py:1044] args: Namespace(subparser='serve', model_tag='org/m', "
    "config='', host='0.0.0.0', port=8001, uvicorn_log_level='info', allow_credentials=False, "
    "allowed_origins=['*'], api_key='***', chat_template_content_format='auto', "
    "enable_auto_tool_choice=True, "
    "tool_call_parser='hermes', model='org/m', config_format=<ConfigFormat.AUTO: 'auto'>, swap_space=4, "
    "gpu_memory_utilization=0.95, max_model_len=None, use_tqdm_on_load=True, "
    "dispatch_function=<function ServeSubcommand.cmd at 0x7f6f>)",
}
ARGV = {
    "0.9.2": "vllm serve org/m --host 0.0.0.0 --dtype bfloat16 --max-model-len 16384 "
    "--tensor-parallel-size 4",
    "0.25.1": "vllm serve org/m --enable-auto-tool-choice --tool-call-parser poolside_v1 "
    '--served-model-name a b --speculative-config {"model":"org/d","num_speculative_tokens":3} '
    "--no-enable-prefix-caching --max-model-len 262144",
    "0.8.5": "vllm serve org/m --host 0.0.0.0 --port 8001 --enable-auto-tool-choice "
    "--tool-call-parser hermes --gpu-memory-utilization 0.95",
}
CARRIERS = {
    "plain": "{line}",
    "journald": "Nov 03 10:00:01 gpu01 vllm[812]: {line}",
    "compose": "vllm-1  | {line}",
    "docker": "2026-11-03T10:00:01.123456789Z {line}",
    "colours": "\x1b[36m{line}\x1b[0m",
}


@pytest.mark.parametrize("release", LINES)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_the_command_is_read_from_the_argument_line(release: str, carrier: str, tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    banner = CARRIERS[carrier].format(line=f"INFO 01-01 00:00:00 vLLM API server version {release}")
    log.write_text(
        f"{banner}\n{CARRIERS[carrier].format(line=LINES[release])}\nINFO more\n", encoding="utf-8"
    )
    adopted = adopt(f"log:{log}")
    assert " ".join(adopted.plan.argv) == ARGV[release]
    assert adopted.plan.vllm_version == release
    assert (adopted.adopted_from.kind, adopted.adopted_from.name) == ("log", str(log))


def test_json_records_of_vllm_are_read(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    record = {"levelname": "INFO", "message": LINES["0.25.1"].partition("] ")[2], "process": 1}
    log.write_text(json.dumps(record) + "\n")
    assert " ".join(adopt(f"log:{log}").plan.argv) == ARGV["0.25.1"]


def test_the_last_start_of_an_appended_log_counts(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(f"{LINES['0.9.2']}\nINFO x\n{LINES['0.25.1']}\nINFO Using max model len 4096\n")
    assert " ".join(adopt(f"log:{log}").plan.argv) == ARGV["0.25.1"]


def test_the_window_is_what_vllm_says_where_no_option_does(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("INFO non-default args: {'model': 'org/m'}\nINFO [model.py:1] Using max model len 40960\n")
    limits = adopt(f"log:{log}").plan.limits
    assert limits is not None
    assert limits.context == 40960


def test_a_key_in_an_old_log_is_never_taken_along() -> None:
    adopted = adopt_line("INFO non-default args: {'model': 'm', 'api_key': ['sk-very-secret'], 'port': 9}")
    assert adopted is not None
    assert "very-secret" not in repr(adopted)
    assert adopted.adopted_from.secrets == ("VLLM_API_KEY",)
    assert adopted.plan.port == 9


def test_an_object_becomes_its_fields_and_a_cut_line_is_said_to_be_cut() -> None:
    line = (
        "non-default args: {'model': 'm', 'pooler_config': PoolerConfig(pooling_type='LAST', normalize=True, "
    )
    whole = adopt_line(line + "dimensions=None), 'seed': 7}")
    assert whole is not None
    assert whole.plan.argv[3:] == (
        "--pooler-config",
        '{"pooling_type":"LAST","normalize":true}',
        "--seed",
        "7",
    )
    cut = adopt_line(line + "dimens [...]")
    assert cut is not None
    assert cut.plan.argv == ("vllm", "serve", "m")
    assert any("--pooler-config" in text for text in cut.unread)


def test_what_is_no_start_of_vllm_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.write_bytes(b"")
    with pytest.raises(RefusedError):
        adopt(f"log:{empty}")
    with pytest.raises(UsageError):
        adopt(f"log:{tmp_path / 'none.log'}")
    for source in ("log:", "vllm.log", "box:1", "pid:x"):
        with pytest.raises(UsageError):
            adopt(source)


def test_diagnose_gives_the_command_of_the_log_itself_with_the_remedy(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(
        "(APIServer pid=1) INFO 09-30 18:28:54 [utils.py:328] non-default args: {'model': 'org/m', "
        "'port': 24001, 'max_model_len': 4096, 'gpu_memory_utilization': 0.85, 'made_up_option': 'kept'}\n"
        "(EngineCore_DP0 pid=9) ERROR 09-30 18:29:10 [core.py:708] EngineCore failed to start.\n"
        "(EngineCore_DP0 pid=9) ERROR 09-30 18:29:10 [core.py:708] ValueError: Free memory on device "
        "(13.58/15.99 GiB) on startup is less than desired GPU memory utilization (0.85, 13.59 GiB). "
        "Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    )
    assert main(["diagnose", str(log), "--json"]) == 1
    told = json.loads(capfd.readouterr().out)
    assert told["adopted_from"]["kind"] == "log"
    assert told["plan"]["argv"][:3] == ["vllm", "serve", "org/m"]
    remedy = next(each for each in told["findings"][0]["remedies"] if each["set"])
    (command,) = remedy["instructions"][0]["commands"]
    # 13.58 of 15.99 GiB are free: 0.849, so 0.84.
    assert command.replace(" \\\n  ", " ") == (
        "vllm serve org/m --port 24001 --max-model-len 4096 --gpu-memory-utilization 0.84 "
        "--made-up-option kept"
    )
    assert main(["diagnose", str(log)]) == 1
    assert "--gpu-memory-utilization 0.84" in capfd.readouterr().out.partition("To apply it")[2]
