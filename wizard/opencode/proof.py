"""Lets the real opencode do a small job with the written configuration, and looks at what came of it.

opencode's exit code 0 proves nothing: it also ends so when a tool call came as text and nothing was done.
What counts is the file it was asked to write, and what the server itself says it was asked.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from wizard.catalog import leak_markers
from wizard.child import end_group
from wizard.i18n import _
from wizard.opencode.binary import client_environ, opencode_version
from wizard.opencode.locate import home
from wizard.opencode.metrics import Counters, read_counters
from wizard.opencode.overrides import is_read
from wizard.opencode.types import OpencodeChange, Proof
from wizard.serve import Server
from wizard.text import inert, one_line

_LOOPING = 25
"""Requests after which it is a loop: this job takes three, a clumsy model a few more."""

_LOOK_S = 1.0
"""Seconds between two looks at the counters while opencode works."""

_OVERFLOW = ("maximum context length", "context length", "compact", "overflow")
"""Words in opencode's output about a prompt that did not fit; it ends with 1 then even when it recovered."""

_TAIL_BYTES = 16_384


class _Run(msgspec.Struct, frozen=True, kw_only=True):
    """What happened while opencode ran."""

    end: str
    """``exited``, ``late``, ``looping`` or ``cancelled``."""
    code: int | None
    output: str
    written: bool
    requests: int | None
    tool_calls: int | None
    deadline_s: float


def prove_change(
    change: OpencodeChange,
    server: Server,
    binary: str,
    *,
    cancel: threading.Event | None = None,
    environ: Mapping[str, str] | None = None,
    deadline_s: float = 300.0,
) -> Proof:
    """Run ``opencode run`` in a throw-away folder and say whether its tool call was carried out.

    It is killed with everything it started after ``deadline_s`` seconds, when ``cancel`` is set, and when it
    asks the server again and again. Its sessions and logs go into the throw-away folder; the model may write
    files there and run no command. The variables of ``environ`` reach it, keys included.
    """
    variables = client_environ(server.base_url, environ)
    version = opencode_version(binary, environ=variables)
    if version is None:
        return Proof(
            status="skipped",
            detail=_("{path} does not start, so nothing could be proved.").format(path=binary),
            hint=_("Try it in a terminal: opencode --version"),
        )
    with tempfile.TemporaryDirectory(prefix="vllm-opencode-proof-") as scratch:
        folder = Path(scratch)
        variables |= _proof_environ(change, variables, folder)
        run = _carry_out(change.model, server.base_url, binary, folder, variables, cancel, deadline_s)
    return _judged(run, version)


def _proof_environ(change: OpencodeChange, variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What is special about this run: where its traces go, what it may do, which file it must read."""
    data = folder / "data"
    (data / "opencode").mkdir(parents=True)
    base = variables.get("XDG_DATA_HOME") or home(variables) / ".local" / "share"
    logins = Path(base) / "opencode" / "auth.json"
    if logins.is_file():
        (data / "opencode" / "auth.json").symlink_to(logins)
    rules = {"edit": "allow", "bash": "ask", "external_directory": "ask"}
    special = {
        "XDG_DATA_HOME": str(data),
        "XDG_STATE_HOME": str(folder / "state"),
        "OPENCODE_PERMISSION": json.dumps(rules),
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    }
    if not is_read(change.path, environ={**variables, **special}, cwd=folder):
        special["OPENCODE_CONFIG"] = change.path
    return special


def _carry_out(
    model: str,
    base_url: str,
    binary: str,
    folder: Path,
    variables: Mapping[str, str],
    cancel: threading.Event | None,
    deadline_s: float,
) -> _Run:
    project = folder / "project"
    project.mkdir()
    text, file = f"proof {secrets.token_hex(4)}", f"proof-{secrets.token_hex(2)}.txt"
    prompt = f"Write the text '{text}' into the file '{file}' using the write tool."
    before = read_counters(base_url)
    with (folder / "output").open("w+b") as output:
        with _started([binary, "run", "-m", model, prompt], project, variables, output.fileno()) as process:
            end = _watch(process, base_url, before, cancel or threading.Event(), deadline_s)
        after = read_counters(base_url)
        output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL_BYTES))
        said = output.read().decode("utf-8", errors="replace")
    return _Run(
        end=end,
        code=process.returncode if end == "exited" else None,
        output=inert(said).strip(),
        written=_holds(project / file, text),
        requests=after.since(before, "requests"),
        tool_calls=after.since(before, "tool_calls"),
        deadline_s=deadline_s,
    )


@contextlib.contextmanager
def _started(
    command: list[str], project: Path, variables: Mapping[str, str], output: int
) -> Iterator[subprocess.Popen[bytes]]:
    """The process, in a group of its own that is gone afterwards whatever happens."""
    process = subprocess.Popen(
        command,
        cwd=project,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        end_group(process)


def _watch(
    process: subprocess.Popen[bytes],
    base_url: str,
    before: Counters,
    cancel: threading.Event,
    deadline_s: float,
) -> str:
    """Wait until it ends by itself, or there is a reason to end it."""
    limit = time.monotonic() + deadline_s
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=min(_LOOK_S, max(0.01, limit - time.monotonic())))
            return "exited"
        if cancel.is_set():
            return "cancelled"
        if (read_counters(base_url).since(before, "requests") or 0) >= _LOOPING:
            return "looping"
        if time.monotonic() >= limit:
            return "late"


def _holds(file: Path, text: str) -> bool:
    """Whether the file was written as asked. A link could show a file from elsewhere."""
    try:
        return not file.is_symlink() and file.read_text(encoding="utf-8").strip() == text
    except (OSError, UnicodeDecodeError):
        return False


def _judged(run: _Run, version: str) -> Proof:
    status, detail, hint = _verdict(run)
    return Proof(
        status=status,
        detail=detail,
        hint=hint,
        opencode_version=version,
        tool_executed=run.written,
        requests=run.requests,
        evidence="" if status == "passed" and not hint else _evidence(run.output),
        exit_code=run.code,
    )


def _verdict(run: _Run) -> tuple[Literal["passed", "failed", "skipped"], str, str]:
    """Status, what happened, what to do."""
    if run.end == "cancelled":
        return "skipped", _("The proof was stopped."), ""
    if run.end == "looping":
        return (
            "failed",
            _("opencode asked the server {count} times for one small job: it runs in circles.").format(
                count=run.requests
            ),
            _("Its limits do not fit the window: a longer --max-model-len or a lower output limit cures it."),
        )
    if run.end == "late":
        return (
            "failed",
            _("opencode did not finish within {seconds} seconds.").format(seconds=round(run.deadline_s)),
            _("See in vLLM's log whether it reads the prompt. If it is idle, opencode does not reach it."),
        )
    if run.written and run.requests == 0:
        return (
            "failed",
            _("The file was written, but nobody asked this server: another model did it."),
            _("Something else overrides the model: see what overrides the configuration."),
        )
    if run.written and run.code == 0:
        return "passed", _("opencode wrote a file through a tool call of this model."), ""
    if run.written and any(word in run.output.lower() for word in _OVERFLOW):
        return (
            "passed",
            _("opencode wrote the file, but a prompt did not fit the window on the way (exit code 1)."),
            _("It recovered. A longer window or a shorter output limit would avoid it."),
        )
    if run.written:
        return (
            "failed",
            _("opencode wrote the file and then failed (exit code {code}).").format(code=run.code),
            _("The tool's result did not get back to the model: run the smoke test."),
        )
    return "failed", *_why_not_written(run)


def _why_not_written(run: _Run) -> tuple[str, str]:
    leak = next((leak for leak in leak_markers() if leak.kind == "tool" and leak.marker in run.output), None)
    if leak is not None:
        return (
            _("The tool call came as text ({marker}); opencode showed it and did nothing.").format(
                marker=leak.marker
            ),
            _("vLLM runs with the wrong --tool-call-parser for this model: run the smoke test."),
        )
    if run.code != 0:
        return (
            _("opencode failed (exit code {code}) before it did anything.").format(code=run.code),
            _("Its last words are shown; more with: opencode run --print-logs"),
        )
    if run.tool_calls:
        return (
            _("The model called a tool, but not so that the file came out as asked."),
            _("The connection works; this model may be too weak for the work. Try once more."),
        )
    return (
        _("opencode answered without using a tool (exit code 0)."),
        _("Run the smoke test: it tells a wrong parser from a model that does not call tools."),
    )


def _evidence(output: str) -> str:
    """The last lines opencode printed."""
    lines = [one_line(line, 200) for line in output.splitlines() if line.strip()]
    return "\n".join(lines[-6:])
