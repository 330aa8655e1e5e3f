"""The proof with stand-ins for opencode and the server: what it asks for, what it believes, how it ends."""

from __future__ import annotations

import http.server
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from wizard.errors import UsageError
from wizard.opencode import (
    OpencodeChange,
    Proof,
    find_opencode,
    merged_config,
    opencode_version,
    prove_change,
)
from wizard.opencode.binary import client_environ
from wizard.opencode.metrics import Counters, counters_in, read_counters
from wizard.serve import Server

# A page that vLLM 0.32.0 served, cut to these counters, after opencode 1.18.33 had written one file: a title,
# a call and an answer.
PAGE = Path(__file__).parents[1] / "data" / "vllm_metrics_0.32.0.txt"

PROGRAM = """\
#!{python}
import json, os, re, sys, time, urllib.request
if "--version" in sys.argv:
    print("1.18.33"); sys.exit()
base = {base!r}
def ask(tools=0):
    urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(base + "/ask/" + str(tools)).close()
text, file = re.findall("'([^']*)'", sys.argv[-1])
json.dump({{"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}}, open({record!r}, "w"))
{body}
"""


class Counting(http.server.BaseHTTPRequestHandler):
    """``/ask/N`` counts one request and N tool calls, ``/metrics`` tells."""

    requests = 0
    tool_calls = 0

    def do_GET(self) -> None:
        kind = type(self)
        if self.path.startswith("/ask/"):
            kind.requests += 1
            kind.tool_calls += int(self.path.rpartition("/")[2])
        page = (
            f'vllm:request_success_total{{finished_reason="stop"}} {kind.requests}.0\n'
            f'vllm:tool_call_parser_invocations_total{{outcome="tool_call"}} {kind.tool_calls}.0\n'
        )
        self.send_response(200)
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *_arguments: object) -> None:
        """Quiet."""


@pytest.fixture
def base_url() -> Iterator[str]:
    handler = type("Counted", (Counting,), {"requests": 7, "tool_calls": 3})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


class Stage:
    """A stand-in opencode that does what a test says, and a configuration for it."""

    def __init__(self, folder: Path, base_url: str) -> None:
        self.folder, self.base_url = folder, base_url
        self.record = folder / "record.json"
        self.config = folder / "elsewhere" / "opencode.json"

    def prove(self, body: str, deadline_s: float = 20.0, cancel: threading.Event | None = None) -> Proof:
        program = self.folder / "opencode"
        root = self.base_url.removesuffix("/v1")
        text = PROGRAM.format(python=sys.executable, base=root, record=str(self.record), body=body)
        program.write_text(text)
        program.chmod(0o755)
        change = OpencodeChange(
            path=str(self.config),
            action="created",
            diff="",
            before=None,
            after=b"{}",
            backup=None,
            provider="vllm",
            model="vllm/tiny",
            limit={},
        )
        server = Server(
            base_url=self.base_url,
            served_names=("tiny",),
            model="tiny",
            max_model_len=32768,
            version="0.32.0",
            started_by="wizard",
        )
        environ = {
            "HOME": str(self.folder),
            "PATH": os.defpath,
            "HTTP_PROXY": "http://proxy:3128",
            "MY_KEY": "k",
        }
        return prove_change(
            change, server, str(program), environ=environ, deadline_s=deadline_s, cancel=cancel
        )

    def recorded(self) -> dict[str, object]:
        return dict(json.loads(self.record.read_text()))


@pytest.fixture
def stage(tmp_path: Path, base_url: str) -> Stage:
    return Stage(tmp_path, base_url)


def test_a_file_written_through_a_tool_call_is_proof(stage: Stage) -> None:
    proof = stage.prove("ask(); ask(9); open(file, 'w').write(text + '\\n'); ask()")
    assert (proof.status, proof.tool_executed, proof.requests, proof.exit_code) == ("passed", True, 3, 0)
    assert proof.opencode_version == "1.18.33"
    run = stage.recorded()
    argv, environ = run["argv"], run["env"]
    assert isinstance(argv, list)
    assert isinstance(environ, dict)
    assert argv[:3] == ["run", "-m", "vllm/tiny"]
    assert environ["MY_KEY"] == "k"
    assert environ["NO_PROXY"] == environ["no_proxy"] == "127.0.0.1,localhost"
    assert environ["OPENCODE_CONFIG"] == str(stage.config)
    assert environ["OPENCODE_DISABLE_MODELS_FETCH"] == "1"
    assert json.loads(environ["OPENCODE_PERMISSION"])["bash"] == "ask"
    assert not Path(environ["XDG_DATA_HOME"]).exists()
    assert not Path(str(run["cwd"])).exists()


def test_the_default_file_needs_no_pointer_and_logins_are_seen(stage: Stage) -> None:
    stage.config = stage.folder / ".config" / "opencode" / "opencode.json"
    logins = stage.folder / ".local" / "share" / "opencode" / "auth.json"
    logins.parent.mkdir(parents=True)
    logins.write_text("{}")
    proof = stage.prove(
        "link = os.environ['XDG_DATA_HOME'] + '/opencode/auth.json'\nask(1)\nopen(link).close()\n"
        "open(file, 'w').write(text)"
    )
    assert proof.status == "passed"
    assert "OPENCODE_CONFIG" not in dict(stage.recorded()["env"])  # type: ignore[call-overload]
    assert logins.read_text() == "{}"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ('ask(); print(\'<tools>\\n{"name": "write"}\\n</tools>\')', "came as text (<tools>)"),
        ("ask(); print('Sure, here is the file.')", "without using a tool"),
        ("ask(5)", "not so that the file"),
        ("ask(5); open(file, 'w').write('something else')", "not so that the file"),
        ("print('Error: The model `tiny` does not exist.'); sys.exit(1)", "exit code 1"),
        ("open(file, 'w').write(text)", "another model"),
        ("ask(2); open(file, 'w').write(text); print('400 template'); sys.exit(1)", "then failed"),
        ("open('x', 'w').write(text); os.symlink('x', file)", "without using a tool"),
    ],
)
def test_an_exit_code_proves_nothing(stage: Stage, body: str, detail: str) -> None:
    proof = stage.prove(body)
    assert proof.status == "failed"
    assert detail in proof.detail
    assert proof.hint


def test_an_overflow_that_recovered(stage: Stage) -> None:
    proof = stage.prove(
        "ask(2); open(file, 'w').write(text); print('maximum context length is 16384'); sys.exit(1)"
    )
    assert (proof.status, proof.exit_code) == ("passed", 1)
    assert "did not fit" in proof.detail
    assert "16384" in proof.evidence


def test_what_opencode_prints_is_inert(stage: Stage) -> None:
    proof = stage.prove("print('\\x1b]0;owned\\x07\\x1b[31mred [bold]x[/]'); sys.exit(1)")
    assert proof.evidence == "red [bold]x[/]"


def test_running_in_circles_is_ended(stage: Stage) -> None:
    proof = stage.prove("while True: ask(1)")
    assert proof.status == "failed"
    assert "in circles" in proof.detail
    assert proof.requests is not None
    assert proof.requests >= 25


def test_the_deadline_ends_the_whole_group(stage: Stage) -> None:
    child = stage.folder / "child"
    body = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(child)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)"
    )
    proof = stage.prove(body, deadline_s=2)
    assert "within 2 seconds" in proof.detail
    _wait_gone(int(child.read_text()))


def test_a_tool_call_nobody_counted_is_no_reproach(stage: Stage) -> None:
    """vLLM 0.32 does not count the calls of gpt-oss: its parser goes past the counter."""
    assert stage.prove("ask(); ask(); open(file, 'w').write(text)").status == "passed"


def test_cancelling(stage: Stage) -> None:
    cancel = threading.Event()
    cancel.set()
    proof = stage.prove("time.sleep(600)", cancel=cancel)
    assert proof.status == "skipped"


def test_an_opencode_that_does_not_start(stage: Stage) -> None:
    proof = stage.prove("")
    broken = stage.folder / "opencode"
    broken.write_text("#!/bin/false\n")
    assert proof.status == "failed"
    assert opencode_version(str(broken), environ={"PATH": os.defpath}) is None
    assert opencode_version(str(stage.folder / "none")) is None


def test_counters_of_a_real_page() -> None:
    assert counters_in(PAGE.read_text()) == Counters(requests=3, tool_calls=56)
    assert counters_in("<html>") == Counters()
    assert Counters(requests=5).since(Counters(requests=2), "requests") == 3
    assert Counters(requests=1).since(Counters(requests=2), "requests") == 0
    assert Counters(requests=1).since(Counters(), "requests") is None
    assert read_counters("http://127.0.0.1:9/v1") == Counters()


def test_finding_opencode(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}
    assert find_opencode(environ=environ) is None
    for folder in (tmp_path / ".opencode" / "bin", tmp_path / "bin"):
        folder.mkdir(parents=True)
        (folder / "opencode").write_text("#!/bin/sh\n")
        (folder / "opencode").chmod(0o755)
        assert find_opencode(environ=environ) == str(folder / "opencode")
    assert find_opencode(str(tmp_path / "bin" / "opencode"), environ=environ)
    with pytest.raises(UsageError):
        find_opencode(str(tmp_path / "bin"), environ=environ)


def test_what_opencode_merged_is_asked_of_itself(tmp_path: Path) -> None:
    program = tmp_path / "opencode"
    merged = {"model": "a/b", "provider": {"vllm": {"options": {"apiKey": "***", "baseURL": "u"}}}}
    broken = "[ -n \"$BROKEN\" ] && { echo 'apiKey: hunter2'; exit 1; }"
    program.write_text(f"#!/bin/sh\n{broken}\necho '{json.dumps(merged)}'\n")
    program.chmod(0o755)
    assert merged_config(str(program), environ={"PATH": os.defpath}) == merged
    assert merged_config(str(program), environ={"PATH": os.defpath, "BROKEN": "1"}) is None


def test_proxies_stay_for_servers_elsewhere() -> None:
    assert "NO_PROXY" not in client_environ("http://gpu.example:8000/v1", {"HTTP_PROXY": "p"})
    local = client_environ("http://127.0.0.2:8000/v1", {"NO_PROXY": "corp,localhost"})
    assert local["NO_PROXY"] == "corp,localhost,127.0.0.2,127.0.0.1"


def _wait_gone(pid: int) -> None:
    """Wait until a process is dead; one that nobody has buried yet counts."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return
        except psutil.NoSuchProcess:
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"process {pid} is still alive")
