"""The whole chain with real parts: setup starts a real vLLM, writes the file, and the real opencode works.

Nothing is simulated here but the model: a tiny checkpoint whose template decides the answer (see tinymodel).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from realkit import RealKit
from recorder import recorder
from serving import run_opencode
from site_folder import Site

PARSER_CALLS = re.compile(
    r'^vllm:tool_call_parser_invocations_total\{[^}]*outcome="tool_call"[^}]*\} (\S+)', re.M
)


@pytest.fixture
def site(realkit: RealKit, checkpoints: Path, tmp_path: Path) -> Iterator[Site]:
    """With Qwen3-Coder's format; the smoke test of others stands in `test_qualification.py`."""
    made = Site(tmp_path, realkit, checkpoints / "qwen3_coder", "qwen3_coder")
    yield made
    made.wizard("stop")


@pytest.mark.xdist_group("chain")
def test_setup_ends_with_an_opencode_that_really_works(site: Site, realkit: RealKit, tmp_path: Path) -> None:
    code, events, errors = site.setup()
    assert code == 0, errors
    done = events[-1]
    assert done["event"] == "done"
    assert done["receipt"]["results"]["smoke"] == "pass"
    assert done["receipt"]["results"]["proof"] == "passed"
    assert site.listens()

    _figures_are_vllms_own(site, events, Path(done["receipt"]["results"]["log"]))

    config = json.loads(site.config.read_text(encoding="utf-8"))
    provider = config["provider"]["vllm"]
    assert list(provider["models"]) == [site.name]
    assert provider["options"]["baseURL"] == site.base_url
    assert provider["models"][site.name]["limit"] == {"context": 32768, "input": 28672, "output": 4096}

    _opencode_works_again(site, realkit, tmp_path, config)

    stopped = site.wizard("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert not site.listens()


def _figures_are_vllms_own(site: Site, events: list[dict[str, Any]], log: Path) -> None:
    """What was read back is what the log and the metrics of this very server say."""
    told = next(event for event in events if event["event"] == "read-back")
    size = re.search(r"KV cache size: ([\d,]+) tokens", log.read_text(encoding="utf-8", errors="replace"))
    assert size is not None
    assert told["vllm"]["cache_tokens"] == int(size[1].replace(",", ""))
    assert f'num_gpu_blocks="{told["vllm"]["num_blocks"]}"' in _metrics(site)
    assert told["max_model_len"] == 32768


def _opencode_works_again(site: Site, kit: RealKit, tmp_path: Path, config: dict[str, Any]) -> None:
    """Another opencode run, watched from outside: the file, the server's metrics, the second request."""
    project = tmp_path / "project"
    project.mkdir()
    before = _parsed_calls(site)
    with recorder(site.base_url) as watched:
        config["provider"]["vllm"]["options"]["baseURL"] = watched.base_url
        (project / "opencode.json").write_text(json.dumps(config), encoding="utf-8")
        prompt = "Use the write tool to write the text 'hello from the test' into the file 'proof.txt'"
        ran = run_opencode(kit, site.home, project, f"vllm/{site.name}", prompt)
    assert ran.returncode == 0, ran.stderr
    assert (project / "proof.txt").read_text(encoding="utf-8").strip() == "hello from the test"
    assert _parsed_calls(site) > before
    with_result = [
        message
        for request in watched.requests
        for message in request["messages"]
        if message["role"] == "tool" and "proof.txt" not in message.get("name", "")
    ]
    assert with_result, "no request carried the result of the tool"


def _parsed_calls(site: Site) -> float:
    return sum(float(count) for count in PARSER_CALLS.findall(_metrics(site)))


def _metrics(site: Site) -> str:
    url = site.base_url.removesuffix("/v1") + "/metrics"
    return httpx.get(url, trust_env=False, timeout=10).text


@pytest.mark.xdist_group("chain-unreadable")
def test_a_model_that_no_parser_reads_is_found_out_before_anything_is_written(
    realkit: RealKit, checkpoints: Path, tmp_path: Path
) -> None:
    site = Site(tmp_path, realkit, checkpoints / "tools_tag", "hermes")
    code, events, errors = site.setup()
    assert code == 1
    failed = [
        event["check"]
        for event in events
        if event["event"] == "check" and event["check"]["required"] and event["check"]["status"] == "fail"
    ]
    assert {"tool-call", "tool-call-stream"} <= {check["id"] for check in failed}
    assert "<tools>" in failed[0]["detail"] + failed[0]["evidence"]
    assert "Traceback" not in errors
    assert not site.config.exists()
    assert not site.listens()
