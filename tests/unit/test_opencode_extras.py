"""What instructions and tool servers of the user add to opencode's first prompt."""

from __future__ import annotations

import json
import os
import stat
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from wizard.errors import RefusedError
from wizard.opencode import extra_prompt, measure_prompt
from wizard.serve import Server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / ".config" / "opencode"
    folder.mkdir(parents=True)
    return folder


def found(home: Path, project: Path | None = None) -> dict[str, int]:
    environ = {"HOME": str(home.parents[1])}
    return {part.name: part.tokens for part in extra_prompt(project=project, environ=environ)}


def test_nothing_there_adds_nothing(home: Path) -> None:
    assert found(home) == {}


def test_the_users_and_the_projects_instructions_count_by_their_size(home: Path, tmp_path: Path) -> None:
    (home / "AGENTS.md").write_text("x" * 3400)
    project = tmp_path / "project"
    project.mkdir()
    (project / "CLAUDE.md").write_text("x" * 6800)
    assert found(home) == {"AGENTS.md": 1000}
    assert found(home, project) == {"AGENTS.md": 1000, "CLAUDE.md": 2000}
    (project / "AGENTS.md").write_text("x" * 340)
    assert found(home, project) == {"AGENTS.md": 100}, "beside AGENTS.md the other one is not read"


def test_listed_instructions_may_be_patterns(home: Path) -> None:
    (home / "rules").mkdir()
    (home / "rules" / "a.md").write_text("x" * 34)
    (home / "rules" / "b.md").write_text("x" * 68)
    (home.parents[1] / "mine.md").write_text("x" * 340)
    listed = ["rules/*.md", "~/mine.md", "https://example.com/rules.md", "missing.md", 7]
    (home / "opencode.json").write_text(json.dumps({"instructions": listed}))
    assert found(home) == {"a.md": 10, "b.md": 20, "mine.md": 100}


def test_servers_of_tools_count_unless_they_are_off(home: Path) -> None:
    (home / "opencode.jsonc").write_text(
        '{"mcp": {"one": {"type": "local"}, "two": {"type": "remote", "enabled": false}}} // mine'
    )
    assert found(home) == {"MCP one": 4000}


@pytest.mark.parametrize("text", ["{", '{"mcp": []}', '{"instructions": "AGENTS.md"}', "[]"])
def test_a_configuration_that_cannot_be_read_adds_nothing(home: Path, text: str) -> None:
    (home / "opencode.json").write_text(text)
    assert found(home) == {}


REQUEST = {
    "messages": [{"role": "system", "content": "x" * 3000}, {"role": "user", "content": "ok"}],
    "tools": [{"type": "function", "function": {"name": f"tool{number}"}} for number in range(3)],
}


@pytest.fixture
def program(tmp_path: Path) -> Callable[[bool], str]:
    """A stand-in for opencode that asks the provider it was given, or says nothing at all."""

    def write(talks: bool) -> str:
        file = tmp_path / "opencode"
        source = f"""\
            #!{sys.executable}
            import json, os, urllib.request
            block = json.loads(os.environ["OPENCODE_CONFIG_CONTENT"])["provider"]
            (provider,) = block.values()
            url = provider["options"]["baseURL"] + "/chat/completions"
            body = json.dumps({REQUEST!r}).encode()
            if {talks}:
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
                answer = opener.open(urllib.request.Request(url, body)).read().decode()
                assert answer.endswith("data: [DONE]\\n\\n")
            """
        file.write_text(textwrap.dedent(source))
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return str(file)

    return write


@contextmanager
def counting(count: object) -> Iterator[Server]:
    """A vLLM that counts the tokens of a request."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            right = self.path == "/tokenize" and body["tools"] == REQUEST["tools"] and body["model"] == "m"
            self.send_response(200 if right else 400)
            self.end_headers()
            self.wfile.write(json.dumps({"count": count}).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield Server(
            base_url=f"http://127.0.0.1:{listener.server_address[1]}/v1",
            served_names=("m",),
            model="m",
            max_model_len=32768,
            version="0.32.0",
            started_by="wizard",
        )
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


ENVIRON = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent"}


def test_what_is_sent_is_measured_by_its_bytes(program: Callable[[bool], str]) -> None:
    size = measure_prompt(program(True), environ=ENVIRON)
    text = json.dumps([REQUEST["messages"], REQUEST["tools"]])
    assert size.tools == 3
    assert size.origin == "computed"
    assert size.tokens == round(len(text) / 3.4)


def test_a_running_server_counts_it(program: Callable[[bool], str]) -> None:
    with counting(7093) as server:
        size = measure_prompt(program(True), server=server, environ=ENVIRON)
    assert (size.tokens, size.origin) == (7093, "measured")


def test_a_server_that_cannot_count_is_no_hindrance(program: Callable[[bool], str]) -> None:
    with counting("many") as server:
        assert measure_prompt(program(True), server=server, environ=ENVIRON).origin == "computed"


def test_an_opencode_that_asks_nothing_is_told(program: Callable[[bool], str]) -> None:
    with pytest.raises(RefusedError, match="no request that could be measured"):
        measure_prompt(program(False), environ=ENVIRON)
