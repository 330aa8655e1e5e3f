"""One check's conversation with the server: what is asked, what comes, and both as evidence."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from wizard.serve import Server
from wizard.smoke.answer import Answer, ToolCall
from wizard.smoke.exchange import Exchange, Line
from wizard.smoke.material import CheckSpec, Tool, material
from wizard.smoke.trouble import Trouble
from wizard.smoke.types import SmokeStatus
from wizard.text import covered, one_line

MADE_UP_ID = "smoke0001"
"""Nine letters and digits: the only form of call id that Mistral's templates accept."""
_ASKED = 400
_EVIDENCE = 1500
"""Characters of evidence: the newest exchanges of a check are kept."""

Message = dict[str, object]


@dataclasses.dataclass
class Learned:
    """What earlier checks found out and later ones use."""

    window: int | None
    answers: dict[str, list[Answer]] = dataclasses.field(default_factory=dict)
    """By the id of the check that got them."""
    statuses: dict[str, SmokeStatus] = dataclasses.field(default_factory=dict)


class Talk:
    """Asks for one check. Its requests share the deadline of the check and raise Trouble, or Cancelled."""

    def __init__(self, spec: CheckSpec, server: Server, line: Line, learned: Learned) -> None:
        self.spec = spec
        self.server = server
        self.line = line
        self.learned = learned
        self.exchange = Exchange(line, spec.deadline_s)
        self.refusals: list[int] = []
        """Statuses after which the same request went well."""
        self._seen: list[str] = []

    @property
    def evidence(self) -> str:
        """The newest requests and answers, two lines each, without keys and of bounded size."""
        kept: list[str] = []
        for entry in reversed(self._seen):
            if kept and sum(map(len, kept)) + len(entry) > _EVIDENCE:
                break
            kept.insert(0, entry)
        return "\n".join(kept)

    def note(self, asked: str, came: str) -> None:
        """Keep something as evidence that is no chat."""
        lines = (one_line(covered(self.line.covered(text)), _EVIDENCE // 2 - 1) for text in (asked, came))
        self._seen.append("\n".join(line for line in lines if line))

    def ask(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        choice: object = "auto",
        stream: bool = False,
    ) -> Answer:
        """One answer; asked again with more room when the limit cut it before anything came of it."""
        for limit in (self.spec.max_tokens or material().max_tokens, material().max_tokens_thinking):
            room = limit if self.learned.window is None else max(1, min(limit, self.learned.window // 2))
            answer = self.send(self.request(messages, room, tools=tools, choice=choice, stream=stream))
            forced = choice not in ("auto", "none")
            said_enough = not answer.silent and (forced or not tools)
            if not answer.cut or said_enough:
                break
        return answer

    def request(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        *,
        tools: Sequence[Tool] = (),
        choice: object = "auto",
        stream: bool = False,
    ) -> dict[str, object]:
        """The body of a chat request. opencode's have neither temperature nor choice but "auto"."""
        body: dict[str, object] = {
            "model": self.server.model,
            "max_tokens": max_tokens,
            "temperature": 0,
            "messages": list(messages),
        }
        if tools:
            body |= {"tools": [_offered(tool) for tool in tools], "tool_choice": choice}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    def send(self, request: dict[str, object]) -> Answer:
        """The answer to a whole request; one that opencode would send again is sent twice."""
        try:
            answer = self._send(request)
        except Trouble as first:
            if first.ends_test or first.status not in material().retried:
                raise
            self.exchange.pause(material().retry_after_s)
            answer = self._send(request)
            self.refusals.append(first.status or 0)
        self.learned.answers.setdefault(self.spec.id, []).append(answer)
        return answer

    def _send(self, request: dict[str, object]) -> Answer:
        try:
            answer = self.exchange.chat(request)
        except Trouble as trouble:
            self.note(described(request), trouble.evidence)
            raise
        self.note(described(request), answer.extract())
        return answer


def user(text: str) -> Message:
    """What a person says."""
    return {"role": "user", "content": text}


def system(text: str) -> Message:
    """What stands before everything."""
    return {"role": "system", "content": text}


def spoke(text: str) -> Message:
    """What the assistant said before."""
    return {"role": "assistant", "content": text}


def called(calls: Sequence[ToolCall]) -> Message:
    """The calls the assistant made before, as opencode sends them back: with an empty text."""
    made = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]
    return {"role": "assistant", "content": "", "tool_calls": made}


def result(call: ToolCall, text: str) -> Message:
    """What a tool answered to a call."""
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def described(request: Mapping[str, object]) -> str:
    """A request on one line: its kind, what is offered, and the last thing that was said."""
    messages = cast("list[Message]", request["messages"])
    tools = cast("list[dict[str, dict[str, object]]]", request.get("tools", []))
    parts = ["POST /v1/chat/completions", "streamed" if request.get("stream") else "plain"]
    parts.append(f"max_tokens={request['max_tokens']}")
    if tools:
        names = ",".join(str(tool["function"]["name"]) for tool in tools)
        parts.append(f"tools={names} tool_choice={msgspec.json.encode(request['tool_choice']).decode()}")
    parts.append("roles=" + ",".join(str(message["role"]) for message in messages))
    last = f"last={messages[-1]['content']!r}"
    return one_line(" ".join((*parts, one_line(last, _ASKED // 2))), _ASKED)


def _offered(tool: Tool) -> dict[str, object]:
    """A tool as the interface wants it, its description filled up to its length."""
    description = material().filling.text(tool.description, tool.characters) if tool.characters else ""
    function = {
        "name": tool.name,
        "description": description or tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def since(began: float) -> int:
    """Milliseconds since the monotonic clock showed ``began``."""
    return round((time.monotonic() - began) * 1000)
