"""A real vLLM that nobody of the wizard started: its process and its log give the same command back."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import psutil
from realkit import RealKit
from serving import vllm_server

from wizard.adopt import Adopted, adopt
from wizard.catalog import flag_facts
from wizard.flow.serverchecks import look_for, server_checks

RELEASE = tomllib.loads((Path(__file__).parent / "versions.toml").read_text())["vllm"]["version"]
KEY = "sk-of-this-test"
FLAGS = (
    "--enable-auto-tool-choice --tool-call-parser=hermes --max_num_seqs 4 "
    f"--api-key {KEY} "
    "--no-enable-prefix-caching --middleware starlette.middleware.gzip.GZipMiddleware "
    "--generation-config vllm --override-generation-config.temperature 0"
)
# Asked in vLLM's own Python: what its parser makes of commands, and how it takes its options.
ASK = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
parsed = [vars(parser.parse_args(words)) for words in json.loads(sys.argv[1])]
told = {"meant": [{name: repr(value) for name, value in each.items()} for each in parsed]}
told["options"] = [
    {
        "names": each.option_strings,
        "several": each.nargs == "+",
        "bare": each.nargs == 0,
        "repeated": "Append" in type(each).__name__,
    }
    for each in parser._actions
]
print("TOLD" + json.dumps(told))
"""


def asked(kit: RealKit, *adopted: Adopted) -> dict[str, Any]:
    """What vLLM's own parser makes of the commands that were read back, and its options."""
    words = [list(each.plan.argv[each.plan.argv.index("serve") + 1 :]) for each in adopted]
    run = subprocess.run(
        [str(kit.vllm_python), "-c", ASK, json.dumps(words)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    answer: dict[str, Any] = json.loads(run.stdout.partition("TOLD")[2])
    return answer


def test_process_and_log_give_the_command_back(realkit: RealKit, checkpoints: Path, tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    with vllm_server(realkit, checkpoints / "hermes", "tiny-hermes", FLAGS.split(), log) as server:
        port = int(server.base_url.rsplit(":", 1)[1].removesuffix("/v1"))
        by_port = adopt(f"port:{port}")
        leader = psutil.Process(int(by_port.adopted_from.name))
        workers = leader.children(recursive=True)
        by_worker = adopt(f"pid:{workers[-1].pid}")
        by_log = adopt(f"log:{log}")
        told = {check.id: check.status for check in server_checks(look_for(server.base_url, KEY))}
    assert told == {"server": "ok", "server-command": "ok", "tool-choice": "ok", "tool-parser": "ok"}
    assert by_worker.plan == by_port.plan
    assert by_port.plan.env["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert by_port.plan.base_url == server.base_url
    assert (by_port.plan.vllm_version or "").partition("+")[0] == by_log.plan.vllm_version == RELEASE
    for adopted in (by_port, by_log):
        assert KEY not in repr(adopted)
        assert "VLLM_API_KEY" in adopted.adopted_from.secrets
        assert adopted.plan.served_model_name == "tiny-hermes"
    told = asked(realkit, by_port, by_log)
    assert told["meant"][0] == told["meant"][1]
    assert_spelled(told["options"])


def assert_spelled(options: list[dict[str, Any]]) -> None:
    """The tables take options as this release does."""
    spelling = flag_facts().spelling
    named = [each for each in options if each["names"] and "--help" not in each["names"]]
    short = {name: each["names"][0] for each in named for name in each["names"] if not name.startswith("--")}
    assert {name: f"--{long}" for name, long in spelling.short.items()} == short
    assert {each["names"][0][2:] for each in named if each["several"]} == set(spelling.lists)
    assert {each["names"][0][2:] for each in named if each["repeated"]} == set(spelling.repeated)
    bare = {each["names"][0][2:] for each in named if each["bare"]}
    assert bare <= {*spelling.bare, *flag_facts().recorded.switches}
