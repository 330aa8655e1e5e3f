"""Whatever a server says of itself, the file that is written says the same."""

from __future__ import annotations

import json
import string
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wizard.flow import (
    Answers,
    Journey,
    OpencodeAnswers,
    ServeAnswers,
    StartAnswers,
    connect,
    plan_configuration,
    write_configuration,
)

HOSTS = st.sampled_from(["127.0.0.1", "localhost", "127.0.0.2"])
NAMES = st.text(string.ascii_letters + string.digits + "-._/:é #", min_size=1, max_size=30).filter(
    lambda name: name == name.strip() and name.strip("/# ")
)
WINDOWS = st.integers(16384, 1_200_000)
KEYS = st.none() | st.text(string.ascii_letters + string.digits, min_size=8, max_size=40)


class Vllm:
    """A server that says what it is told to say, to whoever has the key."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.window = 0
        self.key: str | None = None
        self.port = 0

    def answer(self, path: str, authorization: str | None) -> tuple[int, object]:
        if path == "/version":
            return 200, {"version": "0.32.0"}
        if self.key is not None and authorization != f"Bearer {self.key}":
            return 401, {"error": "Unauthorized"}
        entries = [{"id": name, "owned_by": "vllm", "max_model_len": self.window} for name in self.names]
        return 200, {"object": "list", "data": entries}


@contextmanager
def listening() -> Iterator[Vllm]:
    served = Vllm()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, document = served.answer(self.path, self.headers.get("Authorization"))
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    listener = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    served.port = listener.server_address[1]
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    """The server, for a person with an empty home and no opencode."""
    with listening() as served, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("PATH", "")
        yield served


def configured(vllm: Vllm, host: str, folder: Path, **wishes: Any) -> tuple[dict[str, Any], Journey]:
    """The file that is written for the server, and the journey to it."""
    key_file = None
    if vllm.key is not None:
        key_file = str(folder / "key")
        Path(key_file).write_text(vllm.key + "\n")
        Path(key_file).chmod(0o600)
    file = folder / "opencode.json"
    file.unlink(missing_ok=True)
    answers = Answers(
        start=StartAnswers(mode="connect", base_url=f"http://{host}:{vllm.port}"),
        serve=ServeAnswers(api_key_file=key_file),
        opencode=OpencodeAnswers(path=str(file), globals="yes"),
    )
    for section, values in wishes.items():
        changed = msgspec.structs.replace(getattr(answers, section), **values)
        answers = msgspec.structs.replace(answers, **{section: changed})
    done = write_configuration(plan_configuration(connect(Journey(answers=answers))))
    return json.loads(file.read_text()), done


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(NAMES, min_size=1, max_size=3, unique=True), HOSTS, WINDOWS, KEYS)
def test_the_file_agrees_with_the_server(
    vllm: Vllm, names: list[str], host: str, window: int, key: str | None
) -> None:
    vllm.names, vllm.window, vllm.key = names, window, key
    with tempfile.TemporaryDirectory() as folder:
        written, done = configured(vllm, host, Path(folder))
        text = (Path(folder) / "opencode.json").read_text()
    (block,) = written["provider"].values()
    assert block["options"]["baseURL"] == f"http://{host}:{vllm.port}/v1"
    ((name, model),) = block["models"].items()
    assert model.get("id", name) == names[0]
    assert "#" not in name
    assert done.change is not None
    assert done.change.model == f"vllm/{name}" == written["model"]
    limit = model["limit"]
    assert limit["context"] == window
    # Prompt and answer fit the window together, at the size at which opencode tidies up.
    assert limit["input"] - written["compaction"]["reserved"] + limit["output"] <= window
    assert limit["output"] <= limit["input"] <= window
    assert ("apiKey" in block["options"]) == (key is not None)
    if key is not None:
        assert block["options"]["apiKey"] == f"{{file:{folder}/key}}"
        assert key not in text or key in "".join(names)


def test_developers_may_keep_the_key_elsewhere(vllm: Vllm, tmp_path: Path) -> None:
    vllm.names, vllm.window, vllm.key = ["coder"], 65536, "house-key-0001"
    written, _done = configured(vllm, "127.0.0.1", tmp_path, opencode={"api_key_env": "TEAM_KEY"})
    assert written["provider"]["vllm"]["options"]["apiKey"] == "{env:TEAM_KEY}"


# The file at the end of the first installation's report, for the inputs it was written for.
SEED = {
    "$schema": "https://opencode.ai/config.json",
    "provider": {
        "vllm": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Local vLLM",
            "models": {"qwen3-coder-next-fp8": {"limit": {"context": 32768, "output": 4096}}},
        }
    },
}


def test_the_first_installations_file_comes_out(vllm: Vllm, tmp_path: Path) -> None:
    vllm.names, vllm.window, vllm.key = ["qwen3-coder-next-fp8"], 65536, None
    written, done = configured(
        vllm, "127.0.0.1", tmp_path, opencode={"context": 32768}, budget={"output": 4096}
    )
    assert_within(SEED, written)
    assert done.change is not None
    assert done.change.model == "vllm/qwen3-coder-next-fp8"
    explained = ", ".join(reason.key for reason in done.change.reasons).split(", ")
    added = set(leaves_of(written)) - set(leaves_of(SEED))
    known = {"provider.vllm.models.qwen3-coder-next-fp8.name"}
    for key in added - known:
        assert any(key == reason or key.startswith(f"{reason}.") for reason in explained), key
    # Without the key of the report's "not-required-yet": a server without a key needs none.
    assert added - known == {
        "compaction.reserved",
        "model",
        "small_model",
        "tool_output.max_bytes",
        "tool_output.max_lines",
        "provider.vllm.options.baseURL",
        "provider.vllm.options.chunkTimeout",
        "provider.vllm.options.headerTimeout",
        "provider.vllm.models.qwen3-coder-next-fp8.limit.input",
        "provider.vllm.models.qwen3-coder-next-fp8.tool_call",
    }


def assert_within(part: Any, whole: Any) -> None:
    if isinstance(part, dict):
        for key, value in part.items():
            assert_within(value, whole[key])
    else:
        assert part == whole


def leaves_of(document: Any, above: str = "") -> list[str]:
    if not isinstance(document, dict):
        return [above]
    return [
        leaf for key, value in document.items() for leaf in leaves_of(value, f"{above}.{key}".lstrip("."))
    ]
