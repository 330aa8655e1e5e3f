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

RELEASE = tomllib.loads((Path(__file__).parent / "versions.toml").read_text())["vllm"]["version"]
FLAGS = (
    "--enable-auto-tool-choice --tool-call-parser=hermes --max_num_seqs 4 --api-key sk-of-this-test "
    "--no-enable-prefix-caching --middleware starlette.middleware.gzip.GZipMiddleware "
    "--generation-config vllm --override-generation-config.temperature 0"
)
OWN = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[1:])
print("TOLD" + json.dumps({name: repr(value) for name, value in vars(parsed).items()}))
"""


def meaning(kit: RealKit, adopted: Adopted) -> dict[str, Any]:
    """What vLLM's own parser makes of the command that was read back."""
    words = adopted.plan.argv[adopted.plan.argv.index("serve") + 1 :]
    told = subprocess.run(
        [str(kit.vllm_python), "-c", OWN, *words], capture_output=True, text=True, check=True, timeout=120
    )
    answer: dict[str, Any] = json.loads(told.stdout.partition("TOLD")[2])
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
    assert by_worker.plan == by_port.plan
    assert by_port.plan.env["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert by_port.plan.base_url == server.base_url
    assert (by_port.plan.vllm_version or "").partition("+")[0] == by_log.plan.vllm_version == RELEASE
    for adopted in (by_port, by_log):
        assert "sk-of-this-test" not in repr(adopted)
        assert "VLLM_API_KEY" in adopted.adopted_from.secrets
        assert adopted.plan.served_model_name == "tiny-hermes"
    assert meaning(realkit, by_log) == meaning(realkit, by_port)
