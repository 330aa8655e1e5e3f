"""Runs the checks in order, from "is it there" to "does it work the way opencode uses it"."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import msgspec

from wizard.i18n import N_, _
from wizard.serve import Server
from wizard.smoke.answer import Answer, ToolCall
from wizard.smoke.exchange import Exchange
from wizard.smoke.judge import Judgement, judge_call, judge_text
from wizard.smoke.material import CallTask, material
from wizard.smoke.trouble import Cancelled, Trouble
from wizard.smoke.types import SmokeCheck, SmokeReport, SmokeVerdict, Speed
from wizard.text import one_line

_EVIDENCE = 500
_DETAIL = 200
_MADE_UP_ID = "smoke0001"
"""Nine letters and digits: the only form of call id that Mistral's templates accept."""


class _Outcome(msgspec.Struct, frozen=True, kw_only=True):
    judgement: Judgement
    evidence: str = ""


class _Spec(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    required: bool


_SPECS = (
    _Spec(id="models", title=N_("served name"), required=True),
    _Spec(id="window", title=N_("window"), required=False),
    _Spec(id="chat", title=N_("chat"), required=True),
    _Spec(id="tool-call", title=N_("tool call"), required=True),
    _Spec(id="tool-call-stream", title=N_("tool call, streaming"), required=True),
    _Spec(id="stream-equals-plain", title=N_("streaming agrees with plain"), required=False),
    _Spec(id="tool-result", title=N_("tool result comes back"), required=True),
    _Spec(id="many-tools", title=N_("ten tools"), required=False),
)


def run_smoke(
    server: Server,
    *,
    api_key: str | None = None,
    on_check: Callable[[SmokeCheck], object] | None = None,
    cancel: threading.Event | None = None,
) -> SmokeReport:
    """Ask ``server`` everything opencode will rely on, and judge the answers.

    ``on_check`` hears of every check as it ends. ``cancel`` ends the test within a moment; what was not asked
    is skipped then. Each check has its own deadline. Raises nothing for what a server does: a dead one is a
    failed test.
    """
    return _Test(server, api_key, cancel).run(on_check or (lambda _check: None))


def verdict_of(checks: tuple[SmokeCheck, ...]) -> SmokeVerdict:
    """Fail when a required check failed, pass when all passed, else inconclusive."""
    statuses = {check.status for check in checks if check.required}
    if "fail" in statuses:
        return "fail"
    return "pass" if statuses == {"ok"} else "inconclusive"


class _Test:
    """One run: what earlier checks learned is used by later ones."""

    def __init__(self, server: Server, api_key: str | None, cancel: threading.Event | None) -> None:
        self._server = server
        self._api_key = api_key
        self._exchange = Exchange(server.base_url, api_key, cancel)
        self._window = server.max_model_len
        self._plain: Answer | None = None
        self._streamed: Answer | None = None
        self._spoken: Answer | None = None

    def run(self, on_check: Callable[[SmokeCheck], object]) -> SmokeReport:
        asks: dict[str, Callable[[], _Outcome]] = {
            "models": self._models,
            "window": self._check_window,
            "chat": self._chat,
            "tool-call": self._tool_call,
            "tool-call-stream": self._tool_call_stream,
            "stream-equals-plain": self._compare,
            "tool-result": self._tool_result,
            "many-tools": self._many_tools,
        }
        checks: list[SmokeCheck] = []
        over = ""
        with contextlib.closing(self._exchange):
            for spec in _SPECS:
                if over:
                    check = self._check(spec, _skipped(over), 0)
                else:
                    check, over = self._run_one(spec, asks[spec.id])
                checks.append(check)
                on_check(check)
        done = tuple(checks)
        server = msgspec.structs.replace(self._server, max_model_len=self._window)
        return SmokeReport(server=server, checks=done, verdict=verdict_of(done), speed=speed_of(self._spoken))

    def _run_one(self, spec: _Spec, ask: Callable[[], _Outcome]) -> tuple[SmokeCheck, str]:
        """The check, and why the test must end after it, or nothing."""
        self._exchange.restart_clock(material().deadlines_s.get(spec.id, 0.0))
        began = time.monotonic()
        over = ""
        try:
            outcome = ask()
        except Cancelled:
            over = _("The test was stopped.")
            outcome = _skipped(over)
        except Trouble as trouble:
            judgement = Judgement(status="fail", detail=trouble.message, hint=trouble.hint)
            outcome = _Outcome(judgement=judgement, evidence=trouble.evidence)
            if trouble.ends_test:
                over = _("Not asked: the server did not answer the check before.")
        return self._check(spec, outcome, round((time.monotonic() - began) * 1000)), over

    def _check(self, spec: _Spec, outcome: _Outcome, ms: int) -> SmokeCheck:
        judgement = outcome.judgement
        return SmokeCheck(
            id=spec.id,
            title=_(spec.title),
            required=spec.required,
            status=judgement.status,
            detail=self._safe(judgement.detail, _DETAIL),
            hint=self._safe(judgement.hint, _EVIDENCE),
            evidence=self._safe(outcome.evidence, _EVIDENCE),
            ms=ms,
        )

    def _safe(self, text: str, limit: int) -> str:
        """One inert line without the key, should a server have repeated it."""
        return one_line(text.replace(self._api_key, "***") if self._api_key else text, limit)

    def _models(self) -> _Outcome:
        listed = self._exchange.models()
        names = ", ".join(listed.names)
        evidence = f"GET /v1/models -> {names}"
        if self._server.model not in listed.names:
            judgement = Judgement(
                status="fail",
                detail=_("The name {name} is not served.").format(name=self._server.model),
                hint=_("Served here: {names}. Use one of them.").format(names=names or _("nothing")),
            )
            return _Outcome(judgement=judgement, evidence=evidence)
        self._window = listed.window(self._server.model) or self._window
        return _Outcome(judgement=Judgement(status="ok", detail=self._server.model), evidence=evidence)

    def _check_window(self) -> _Outcome:
        least = material().minimum_window
        if self._window is None:
            judgement = Judgement(
                status="warn",
                detail=_("The server does not say how long its window is."),
                hint=_("Set the limits in opencode by hand, from the server's --max-model-len."),
            )
        elif self._window < least:
            judgement = Judgement(
                status="fail",
                detail=_("The window holds {window} tokens; opencode needs at least {least}.").format(
                    window=f"{self._window:,}", least=f"{least:,}"
                ),
                hint=_(
                    "Start vLLM with a larger --max-model-len: opencode's own prompt fills most of this one."
                ),
            )
        else:
            judgement = Judgement(status="ok", detail=_("{window} tokens").format(window=f"{self._window:,}"))
        return _Outcome(judgement=judgement)

    def _chat(self) -> _Outcome:
        messages = [_user(material().chat.prompt)]
        answer = self._ask({"messages": messages})
        return _Outcome(judgement=judge_text(answer, material().call.wanted), evidence=answer.extract())

    def _tool_call(self) -> _Outcome:
        outcome, self._plain = self._call(material().call, stream=False)
        return outcome

    def _tool_call_stream(self) -> _Outcome:
        outcome, self._streamed = self._call(material().call, stream=True)
        return outcome

    def _many_tools(self) -> _Outcome:
        return self._call(material().many, stream=True)[0]

    def _call(self, task: CallTask, *, stream: bool) -> tuple[_Outcome, Answer]:
        """Ask for a call, and once more in plainer words when the first answer was only weak."""
        answer = self._ask({"messages": [_user(task.prompt)], **_with_tools(task)}, stream=stream)
        judgement = judge_call(answer, task)
        if judgement.again:
            answer = self._ask({"messages": [_user(task.again)], **_with_tools(task)}, stream=stream)
            judgement = judge_call(answer, task)
        return _Outcome(judgement=judgement, evidence=answer.extract()), answer

    def _compare(self) -> _Outcome:
        """The same request must give the same call both ways; asks nothing by itself."""
        plain, streamed = _first_call(self._plain), _first_call(self._streamed)
        if plain is None and streamed is None:
            return _skipped(_("No call came either way."))
        if plain is None or streamed is None:
            judgement = Judgement(
                status="fail",
                detail=_("A call came one way only."),
                hint=_(
                    "opencode always streams: a parser that works only without streaming is of no use to it."
                ),
            )
        elif _same(plain, streamed):
            judgement = Judgement(status="ok", detail=_("The same call both ways."))
        else:
            detail = _("Plain {plain}, streamed {streamed}.").format(
                plain=_shown(plain), streamed=_shown(streamed)
            )
            judgement = Judgement(status="warn", detail=detail)
        return _Outcome(judgement=judgement)

    def _tool_result(self) -> _Outcome:
        """The second half of the round trip, as opencode sends it: streamed, the tool still offered.

        Without a call to answer a made-up one is sent: the chat template must cope with it either way.
        """
        task = material().call
        call = _first_call(self._streamed) or _first_call(self._plain)
        call = call or ToolCall(id=_MADE_UP_ID, name=task.wanted, arguments=task.arguments)
        function = {"name": call.name, "arguments": call.arguments}
        call_id = call.id or _MADE_UP_ID
        messages: list[dict[str, object]] = [
            _user(task.prompt),
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call_id, "content": task.result},
        ]
        answer = self._ask({"messages": messages, **_with_tools(task)}, stream=True)
        self._spoken = answer
        return _Outcome(judgement=judge_text(answer, task.wanted), evidence=answer.extract())

    def _ask(self, request: dict[str, object], *, stream: bool = False) -> Answer:
        """One answer; asked again with more room when the limit cut it before anything came of it."""
        limits = (material().max_tokens, material().max_tokens_thinking)
        for limit in limits:
            room = limit if self._window is None else max(1, min(limit, self._window // 2))
            answer = self._exchange.chat(self._request(request, room, stream))
            said_enough = bool(answer.content.strip()) and "tools" not in request
            if not answer.cut or said_enough:
                break
        return answer

    def _request(self, request: dict[str, object], max_tokens: int, stream: bool) -> dict[str, object]:
        full = {"model": self._server.model, "max_tokens": max_tokens, "temperature": 0, **request}
        if stream:
            full |= {"stream": True, "stream_options": {"include_usage": True}}
        return full


def speed_of(answer: Answer | None) -> Speed:
    """The speed seen in a streamed answer in words; calls tell nothing, for parsers hold them back."""
    if answer is None or answer.calls or answer.first_piece_ms is None:
        return Speed(ttft_ms=None, decode_tps=None)
    after_first = (answer.completion_tokens or 1) - 1
    tps = after_first / answer.streamed_ms * 1000 if after_first and answer.streamed_ms else None
    return Speed(
        ttft_ms=round(answer.first_piece_ms, 1),
        decode_tps=None if tps is None else round(tps, 1),
    )


def _user(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def _with_tools(task: CallTask) -> dict[str, object]:
    tools = [{"type": "function", "function": msgspec.to_builtins(tool)} for tool in task.tools]
    return {"tools": tools, "tool_choice": "auto"}


def _skipped(why: str) -> _Outcome:
    return _Outcome(judgement=Judgement(status="skip", detail=why))


def _first_call(answer: Answer | None) -> ToolCall | None:
    return answer.calls[0] if answer is not None and answer.calls else None


def _same(one: ToolCall, other: ToolCall) -> bool:
    """Equal name and equal arguments, however the JSON is spaced."""
    try:
        arguments = [msgspec.json.decode(call.arguments) for call in (one, other)]
    except msgspec.DecodeError:
        return (one.name, one.arguments) == (other.name, other.arguments)
    return one.name == other.name and arguments[0] == arguments[1]


def _shown(call: ToolCall) -> str:
    return f"{call.name} {call.arguments}"
