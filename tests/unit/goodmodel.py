"""What vLLM answers to the whole smoke test with a good model behind it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from wizard.smoke.material import material

WINDOW = 32768
FREE = {
    "arguments-optional": [{}],
    "many-tools": [{"query": "launch plan"}],
    "parallel": [{"a": 1, "b": 2}, {"a": 3, "b": 4}],
    "choice": [{"a": 2, "b": 3}],
    "opencode-prompt": [{"content": "hello from the test", "filePath": "first.txt"}],
}
"""What a good model calls where the task leaves it free."""


@dataclass
class Draft:
    """An answer before it is sent: a document, or the chunks of a stream."""

    document: Any = None
    chunks: list[Any] | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    done: str = "data: [DONE]\n\n"
    body: bytes | None = None
    """In the place of what document or chunks would give."""
    piece: int = 0
    """Bytes of one write; 0: everything at once."""
    then: str = ""
    """``hold``, ``reset``, ``repeat`` after the body; ``raw``: the body holds the head too."""
    promised: int | None = None
    """A length in the head that is not that of the body."""

    def encoded(self) -> bytes:
        if self.body is not None:
            return self.body
        if self.chunks is None:
            return json.dumps(self.document, ensure_ascii=False).encode()
        events = "".join(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in self.chunks)
        return (events + self.done).encode()


def good(request: dict[str, Any]) -> Draft:
    """What vLLM answers with a model that does as it is told."""
    if request["model"] != "tiny":
        return refusal(404, f"The model `{request['model']}` does not exist.", "NotFoundError")
    last = request["messages"][-1]
    words = len(last["content"].split())
    if words > WINDOW:
        return refusal(
            400,
            f"This model's maximum context length is {WINDOW} tokens. However, your prompt contains at least "
            f"{WINDOW + 1} input tokens, which exceeds this limit even without any output tokens.",
        )
    calls = calls_for(request)
    finish = "tool_calls" if calls else "stop"
    content = None if calls else "The sum is 42."
    if request["max_tokens"] <= 3:
        content, finish = "1\n2", "length"
    return drafted(request, content, calls, finish)


def drafted(request: dict[str, Any], content: str | None, calls: list[Any], finish: str) -> Draft:
    """An answer in vLLM's shape, plain or streamed as the request wants it."""
    usage = {"prompt_tokens": 600, "completion_tokens": 40, "total_tokens": 640}
    if not request.get("stream"):
        message: dict[str, Any] = {"role": "assistant", "content": content, "reasoning": None}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return Draft(document={"object": "chat.completion", "choices": [choice], "usage": usage})
    deltas: list[Any] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": part} for part in re.findall(r"(?s).{1,5}", content or "")]
    for index, call in enumerate(calls):
        function = {"name": call["function"]["name"]}
        deltas.append({"content": None, "tool_calls": [{**call, "index": index, "function": function}]})
        for part in re.findall(r"(?s).{1,9}", call["function"]["arguments"]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    chunks.append({"choices": [], "usage": usage})
    return Draft(chunks=chunks)


def refusal(status: int, message: str, kind: str = "BadRequestError") -> Draft:
    return Draft(status=status, document={"error": {"message": message, "type": kind, "code": status}})


def calls_for(request: dict[str, Any]) -> list[Any]:
    """The calls a good model makes."""
    choice = request.get("tool_choice")
    last = request["messages"][-1]
    if "tools" not in request or choice == "none" or last["role"] != "user":
        return []
    task = next(task for task in material().task if last["content"] in (task.prompt, task.again))
    name = choice["function"]["name"] if isinstance(choice, dict) else task.wanted
    wanted = [json.loads(task.expect)] if task.expect else FREE[task.id]
    return [
        {
            "id": f"chatcmpl-tool-{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
        }
        for number, arguments in enumerate(wanted)
    ]
