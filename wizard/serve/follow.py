"""Follows a run: its log as milestones, its readiness, its end. Blocks only for moments between looks."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from wizard.adopt.process import listener_on
from wizard.errors import ServerError, UsageError
from wizard.i18n import _
from wizard.logtext import find_cause, read_line, reports_failure, shorten
from wizard.serve.container import has_one
from wizard.serve.identity import ended, is_of
from wizard.serve.milestones import Milestones
from wizard.serve.port import named
from wizard.serve.probe import answers_health, probe_server
from wizard.serve.process import read_key
from wizard.serve.tail import LogTail
from wizard.serve.types import End, Event, Exited, Finding, LogLine, Ready, Run, Server
from wizard.text import one_line

_POLL_S = 0.1
_ASK_EVERY_S = 1.0
"""How often a server is asked that has not said it is ready: its log may be quieter than usual."""
_KEPT_LINES = 2000
_EVIDENCE_LINES = 12
_TEXT_LIMIT = 600
_PIECES = 4
"""Megabytes of log that are read before the server is asked again."""
_MUCH = 64 << 10
_NEWEST = 100
"""Of more than so many bytes at once only the newest lines are told, so many: a log in a rage is diagnosed
whole and shown in part."""
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)

Listener = Callable[[bytes, float], Iterable[Event]]
"""Is given the log, piece by piece, and the seconds since the start; what it makes of it is told with the
rest. So a diagnosis, which this room does not know, speaks while vLLM still runs."""


def follow(
    run: Run,
    *,
    timeout_s: float,
    cancel: threading.Event,
    read_log: bool = True,
    listener: Listener | None = None,
) -> Iterator[Event]:
    """What happens to a run, as it happens, from the first line of its log on.

    Ends after Exited; after a Finding ``timeout`` when the server does not answer within ``timeout_s`` of
    its start; and silently when ``cancel`` is set. It stops nothing. After Ready it goes on until one of
    these, so a caller that only waits for readiness leaves then. With ``read_log`` false the log is read only
    to explain a failure. Of very many lines at once only the newest are told.
    """
    return _Follower(run, timeout_s, listener).events(cancel, read_log)


class _Follower:
    def __init__(self, run: Run, timeout_s: float, listener: Listener | None) -> None:
        self._run = run
        self._listener = listener
        self._timeout_s = timeout_s
        self._tail = LogTail(Path(run.log))
        self._milestones = Milestones()
        self._kept: deque[tuple[int, str]] = deque(maxlen=_KEPT_LINES)
        self._ready = False
        self._ask_at = 0.0
        self._refusal = ""

    def events(self, cancel: threading.Event, read_log: bool) -> Iterator[Event]:
        while not cancel.is_set():
            # The end is asked for before the log is read, so that no last line is missed.
            end = ended(self._run)
            if read_log:
                yield from self._read(final=end is not None)
            if end is not None:
                yield from self._explain(end, read_log)
                yield Exited(seconds=self._seconds(), code=end.code, asked=end.asked)
                return
            if not self._ready and (server := self._ask()) is not None:
                self._ready = True
                if read_log:
                    yield from self._read(final=False)
                yield Ready(
                    seconds=self._seconds(),
                    base_url=server.base_url,
                    served_names=server.served_names,
                    max_model_len=server.max_model_len,
                )
            if not self._ready and self._seconds() > self._timeout_s:
                yield self._timeout()
                return
            cancel.wait(_POLL_S)

    def _seconds(self) -> float:
        return round(max(0.0, time.time() - self._run.started_at), 3)

    def _read(self, final: bool) -> Iterator[Event]:
        for number in itertools.count():
            piece = b"" if number == _PIECES and not final else self._tail.piece()
            if not piece:
                break
            yield from self._tell(self._tail.lines(piece, _NEWEST if len(piece) > _MUCH else None))
            if self._listener is not None:
                yield from self._listener(piece, self._seconds())
        if final:
            yield from self._tell(self._tail.last())

    def _tell(self, lines: Iterable[tuple[int, str]]) -> Iterator[Event]:
        for number, text in lines:
            self._kept.append((number, text))
            seconds = self._seconds()
            yield LogLine(seconds=seconds, number=number, text=text)
            yield from self._milestones.read(text, seconds)

    def _ask(self) -> Server | None:
        """The server, once it answers. One that is not ours does not count: ours lives and knows its name."""
        now = time.monotonic()
        if now < self._ask_at and not self._milestones.worth_asking:
            return None
        self._ask_at = now + _ASK_EVERY_S
        if not answers_health(self._run.base_url) or ended(self._run) is not None:
            return None
        try:
            key = read_key(self._run.api_key_file) or os.environ.get("VLLM_API_KEY")
            server = probe_server(self._run.base_url, model=self._run.served_model_name, api_key=key)
        except (ServerError, UsageError) as error:
            self._refusal = str(error)
            return None
        return server if ended(self._run) is None and not self._is_foreign() else None

    def _is_foreign(self) -> bool:
        """Whether a program of somebody else answers there. Not where nobody can tell, or in a container."""
        port = urlsplit(self._run.base_url).port
        pid = None if port is None or has_one(self._run) else listener_on(port)
        if pid is None or is_of(self._run, pid):
            return False
        text = _("Port {port} is answered by another program: {owner}.")
        self._refusal = text.format(port=port, owner=named(pid))
        return True

    def _timeout(self) -> Finding:
        text = _("vLLM did not answer within {seconds:.0f} seconds.").format(seconds=self._timeout_s)
        hint = self._refusal or _("If its log still moves, allow more time with [serve] timeout_s.")
        return self._finding("timeout", text, self._last(3), hint)

    def _explain(self, end: End, read_log: bool) -> Iterator[Finding]:
        """Why it ended, unless somebody asked for it."""
        if end.asked:
            return
        if not read_log:
            self._kept.extend(self._tail.read(final=True))
        lines = [read_line(text, number) for number, text in self._kept]
        cause = find_cause(lines)
        dead = next((line.text for line in reversed(lines) if reports_failure(line)), "")
        if cause is not None:
            block = shorten(cause.block, _EVIDENCE_LINES)
            yield self._finding("failed", cause.text, block)
        elif end.code in _KILLED:
            text = _("vLLM was killed (SIGKILL) without a word in its log.")
            yield self._finding("killed", text, self._last(3), _memory_hint())
        elif dead:
            text = _("The engine of vLLM died, and the log does not say why.")
            yield self._finding("died", text, (dead,), _memory_hint())
        else:
            code = _("unknown") if end.code is None else end.code
            text = _("vLLM ended (exit code {code}) and its log names no cause.").format(code=code)
            yield self._finding("ended", text, self._last(_EVIDENCE_LINES))

    def _finding(self, code: str, text: str, evidence: Iterable[str], hint: str = "") -> Finding:
        return Finding(
            seconds=self._seconds(),
            code=code,
            text=one_line(text, _TEXT_LIMIT),
            evidence=tuple(one_line(line, _TEXT_LIMIT) for line in evidence),
            hint=hint,
        )

    def _last(self, count: int) -> list[str]:
        return [text for _number, text in self._kept][-count:]


def _memory_hint() -> str:
    return _('Mostly it is the kernel, for memory: look for "Out of memory" in journalctl -k or dmesg.')
