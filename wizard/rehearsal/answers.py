"""What the stand-in answers: a tool call that fits the schema, or a sentence. No model is involved."""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass, field
from typing import Any

CHARS_PER_TOKEN = 4
_SHELL_ARGUMENTS = frozenset({"command", "cmd", "script", "code"})
_HARMLESS_COMMAND = "echo rehearsal"
_FILE_NAME = re.compile(r"(?<![\w/.\\-])[\w-]+\.[A-Za-z]\w{1,4}(?![\w/\\])")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])")
_QUOTED = re.compile(r"\"([^\"]+)\"|(?<!\w)'([^']+)'(?!\w)|`([^`]+)`")
_AFFIRMED = re.compile(r"\b(?:true|yes)\b", re.IGNORECASE)
_SUM = re.compile(r"\d+(?:\.\d+)?(?:\s*[-+*/]\s*\d+(?:\.\d+)?)+")


@dataclass(frozen=True)
class Call:
    """A tool call: the tool's name and its arguments."""

    name: str
    arguments: dict[str, Any]

    def as_json(self) -> str:
        """The call as models write it between their tags."""
        return json.dumps({"name": self.name, "arguments": self.arguments}, ensure_ascii=False)


@dataclass(frozen=True)
class Answer:
    """Either text or a call."""

    text: str = ""
    call: Call | None = None

    @property
    def tokens(self) -> int:
        """How many tokens it would be, by the same estimate as for prompts."""
        return tokens(self.call.as_json() if self.call else self.text)


def tokens(text: str) -> int:
    """A rough count: four characters a token."""
    return max(1, len(text) // CHARS_PER_TOKEN)


def prompt_tokens(request: dict[str, Any]) -> int:
    """The estimated prompt of a chat request, its messages and its tools; no word is less than a token."""
    parts = json.dumps([request.get("messages", []), request.get("tools", [])], ensure_ascii=False)
    return max(tokens(parts), len(parts.split()))


def answer(request: dict[str, Any]) -> Answer:
    """A call when tools are offered and a person spoke last, else a sentence."""
    messages = request["messages"]
    last = messages[-1]
    if last.get("role") == "tool":
        return Answer(text=f"The tool answered: {_text(last)[:200].strip()}")
    said = _spoken(messages)
    tool = _chosen_tool(request, said)
    if tool is None:
        return Answer(text="This is a rehearsal: a stand-in answers, not a model.")
    schema = tool.get("parameters") or {}
    return Answer(call=Call(tool["name"], _Material.from_message(said).fill(schema)))


def _spoken(messages: list[dict[str, Any]]) -> str:
    """The last message of a person. opencode wraps a whole prompt in quotes and escapes those inside."""
    said = next(
        (_text(message) for message in reversed(messages) if message.get("role") == "user"), ""
    ).strip()
    if len(said) > 1 and said[0] == said[-1] == '"' and (said.count('"') == 2 or '\\"' in said):
        return said[1:-1].replace('\\"', '"')
    return said


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))


def _chosen_tool(request: dict[str, Any], said: str) -> dict[str, Any] | None:
    """The tool that is forced, or named in the message, or whose arguments are; else the first offered."""
    tools: list[dict[str, Any]] = [tool["function"] for tool in request.get("tools") or []]
    choice = request.get("tool_choice")
    if choice == "none" or not tools:
        return None
    if isinstance(choice, dict):
        forced = choice.get("function", {}).get("name")
        return next((tool for tool in tools if tool["name"] == forced), None)
    words = set(re.findall(r"[a-z0-9]+", said.lower()))

    def likeness(tool: dict[str, Any]) -> tuple[bool, int]:
        arguments = (tool.get("parameters") or {}).get("properties", {})
        return tool["name"].lower() in said.lower(), len(words & _words(" ".join((tool["name"], *arguments))))

    return max(tools, key=likeness)


def _words(names: str) -> set[str]:
    """The words in identifiers: ``filePath`` is file and path."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", names)
    return set(re.findall(r"[a-z0-9]+", spaced.lower()))


@dataclass
class _Material:
    """What a message offers to fill arguments with, each piece used once."""

    numbers: deque[float] = field(default_factory=deque)
    quotes: deque[str] = field(default_factory=deque)
    file: str = "rehearsal.txt"
    expression: str = "2 + 2"
    affirmed: bool = False

    @classmethod
    def from_message(cls, said: str) -> _Material:
        files = _FILE_NAME.findall(said)
        quotes = ["".join(groups) for groups in _QUOTED.findall(said)]
        sums = _SUM.findall(said)
        return cls(
            numbers=deque(float(number) for number in _NUMBER.findall(said)),
            quotes=deque(quote for quote in quotes if quote not in files),
            file=files[0] if files else cls.file,
            expression=sums[0] if sums else cls.expression,
            affirmed=bool(_AFFIRMED.search(said)),
        )

    def fill(self, schema: dict[str, Any]) -> dict[str, Any]:
        """An object that fits: the required properties, or all when none is required."""
        properties = schema.get("properties", {})
        names = schema.get("required") or list(properties)
        return {name: self._value(name, properties.get(name, {})) for name in names}

    def _value(self, name: str, schema: dict[str, Any]) -> Any:
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][0]
        for options in (schema.get("anyOf"), schema.get("oneOf")):
            if options:
                return self._value(name, options[0])
        kinds = schema.get("type", "string")
        kind = kinds if isinstance(kinds, str) else kinds[0]
        match kind:
            case "integer":
                return int(self._number(schema))
            case "number":
                return self._number(schema)
            case "boolean":
                return self.affirmed
            case "null":
                return None
            case "object":
                return self.fill(schema)
            case "array":
                return [self._value(name, schema.get("items", {}))]
        return self._string(name.lower())

    def _number(self, schema: dict[str, Any]) -> float:
        value = self.numbers.popleft() if self.numbers else 1.0
        value = max(value, float(schema.get("minimum", value)))
        return min(value, float(schema.get("maximum", value)))

    def _string(self, name: str) -> str:
        if name in _SHELL_ARGUMENTS:
            # A real client would run it: what somebody typed must never become a command here.
            return _HARMLESS_COMMAND
        if "path" in name or "file" in name:
            return self.file
        if name == "expression":
            return self.expression
        return self.quotes.popleft() if self.quotes else "rehearsal"
