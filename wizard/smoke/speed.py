"""Measures how fast a server answers: to the first token, through a long prompt, and token by token."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from wizard.catalog import Origin, speed_facts
from wizard.http import TooLateError, bounded, client, server_root
from wizard.i18n import _
from wizard.serve import Server
from wizard.smoke.pace import Trace, UnmeasuredError, decode_rate, follow_stream
from wizard.smoke.rates import Speed, StreamRate
from wizard.text import one_line

if TYPE_CHECKING:
    import httpx

_SHORTER = 3
"""How often a prompt the server finds too long is halved."""


class SpeedReading(msgspec.Struct, frozen=True, kw_only=True):
    """The figures, and how many tokens the cache held on average while a stream was written."""

    speed: Speed
    single_context: int = 0
    streams_context: int = 0


def measure_speed(
    server: Server,
    *,
    api_key: str | None = None,
    streams: int | None = None,
    cancel: threading.Event | None = None,
) -> SpeedReading:
    """Ask for long answers and look at the clock; takes less than 20 seconds, however slow the server is.

    Every prompt begins with something new, so that no cache of prefixes answers for the model. ``streams``:
    how many requests at once; None: a few. What cannot be measured is None, with a note. Raises GivenUpError
    when ``cancel`` is set.
    """
    return _Measurement(server, api_key, cancel).run(streams)


class _Measurement:
    """One run; what the server does not take is left out of later requests."""

    def __init__(self, server: Server, api_key: str | None, cancel: threading.Event | None) -> None:
        self._server = server
        self._api_key = api_key
        self._cancel = cancel
        facts = speed_facts()
        self._wanted = facts.rehearsal if server.started_by == "rehearsal" else facts.measure
        self._extras = True
        self._notes: list[str] = []

    def run(self, streams: int | None) -> SpeedReading:
        wanted = self._wanted
        many = min(streams or wanted.streams, wanted.most_streams)
        with client(server_root(self._server.base_url), self._api_key) as http:
            one = self._streams(http, 1, wanted.decode_tokens, wanted.decode_s)
            long = self._long_prompt(http) if one else None
            several = self._streams(http, many, wanted.stream_tokens, wanted.streams_s) if one else ()
        single = decode_rate(one, wanted.least_tokens) if one else None
        together = decode_rate(several, wanted.least_tokens) if several else None
        if any(trace.held_back for trace in (*one, *several)):
            self._notes.append(
                _("An answer came all at once: something on the way, or a busy machine, held it back.")
            )
        elif one and single is None:
            self._notes.append(_("Too few tokens came to tell how fast they are written."))
        rates = [(1, single), *([(many, together)] if many > 1 else [])]
        speed = Speed(
            ttft_ms=None if long is None else _rounded(long.ttft_ms),
            decode_tps=_rounded(single),
            prefill_tps=None if long is None else _rounded(_prefill_rate(long)),
            prompt_tokens=None if long is None else long.prompt_tokens,
            short_ttft_ms=_rounded(one[0].ttft_ms) if one else None,
            streams=tuple(StreamRate(streams=count, decode_tps=_rounded(rate)) for count, rate in rates),
            note=" ".join(dict.fromkeys(self._notes)),
        )
        return SpeedReading(
            speed=msgspec.structs.replace(speed, origins=_origins(speed)),
            single_context=_context(one),
            streams_context=_context(several),
        )

    def _streams(self, http: httpx.Client, count: int, tokens: int, time_s: float) -> tuple[Trace, ...]:
        """So many answers at once; nothing, with a note, when one of them failed."""
        texts = [_prompt(self._wanted.short_words) for _number in range(count)]
        try:
            if count == 1:
                return (self._ask(http, texts[0], tokens, time_s),)
            with ThreadPoolExecutor(max_workers=count) as pool:
                return tuple(pool.map(lambda text: self._ask(http, text, tokens, time_s), texts))
        except UnmeasuredError as error:
            self._notes.append(str(error))
            return ()

    def _long_prompt(self, http: httpx.Client) -> Trace | None:
        wanted = self._wanted
        target = min(wanted.prompt_tokens, (self._server.max_model_len or wanted.prompt_tokens) // 2)
        words = max(1, int(target / speed_facts().prompt.tokens_a_word))
        for attempt in range(_SHORTER + 1):
            try:
                text = _prompt(words >> attempt)
                return self._ask(http, text, wanted.least_tokens, wanted.prompt_s)
            except UnmeasuredError as error:
                if not error.refused or attempt == _SHORTER:
                    self._notes.append(_("A long prompt: {why}").format(why=error))
                    return None
        return None

    def _ask(self, http: httpx.Client, text: str, tokens: int, time_s: float) -> Trace:
        """One answer, cut after ``time_s``; asked more plainly when the server refuses vLLM's extras."""
        try:
            return self._bounded(http, self._request(text, tokens, extras=self._extras), time_s)
        except UnmeasuredError as error:
            if not (error.refused and self._extras):
                raise
            trace = self._bounded(http, self._request(text, tokens, extras=False), time_s)
            self._extras = False
            return trace

    def _bounded(self, http: httpx.Client, request: dict[str, object], time_s: float) -> Trace:
        import httpx

        ends = time.monotonic() + time_s
        try:
            return bounded(
                lambda: follow_stream(http, request, ends), ends + self._wanted.patience_s, self._cancel
            )
        except (TooLateError, httpx.TimeoutException):
            raise UnmeasuredError(
                _("No token came within {seconds:.0f} seconds.").format(seconds=time_s)
            ) from None
        except httpx.HTTPError as error:
            raise UnmeasuredError(
                _("The connection broke: {reason}").format(reason=one_line(str(error), 100))
            ) from error

    def _request(self, text: str, tokens: int, *, extras: bool) -> dict[str, object]:
        room = tokens if self._server.max_model_len is None else min(tokens, self._server.max_model_len // 4)
        request: dict[str, object] = {
            "model": self._server.model,
            "messages": [{"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": max(1, room),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if extras:
            request |= {"min_tokens": max(1, room), "ignore_eos": True}
            request["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        return request


def _prompt(words: int) -> str:
    """So many words behind a beginning that no cache can know."""
    given = speed_facts().prompt
    listed = itertools.islice(itertools.cycle(given.words), max(1, words))
    return f"{secrets.token_hex(8)} {given.task} {' '.join(listed)}"


def _prefill_rate(trace: Trace) -> float | None:
    if trace.prompt_tokens is None or trace.ttft_ms <= 0:
        return None
    return (trace.prompt_tokens - trace.cached_tokens) / trace.ttft_ms * 1000


def _context(traces: Sequence[Trace]) -> int:
    """Tokens in the cache half way through the answers."""
    sizes = [(trace.prompt_tokens or 0) + trace.marks[-1][1] // 2 for trace in traces if trace.marks]
    return sum(sizes) // len(sizes) if sizes else 0


def _origins(speed: Speed) -> dict[str, Origin]:
    names = ("ttft_ms", "decode_tps", "prefill_tps", "prompt_tokens", "short_ttft_ms")
    return {name: "measured" for name in names if getattr(speed, name) is not None}


def _rounded(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 1)
