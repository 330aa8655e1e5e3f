"""Configurations as people have them: any layout the grammar allows, any part of opencode's settings."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

NEWLINES = {"\n": "LF", "\r\n": "CRLF", "\r": "CR"}

PARTS: list[dict[str, Any]] = [
    {"provider": {"anthropic": {"options": {"apiKey": "{env:ANTHROPIC_API_KEY}"}}}},
    {
        "provider": {
            "house": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": "http://h:1/v1"},
                "models": {"m": {}},
            }
        }
    },
    {"mcp": {"search": {"type": "local", "command": ["search", "--all"], "enabled": False}}},
    {"mcp": {"wiki": {"type": "remote", "url": "https://wiki.example/mcp"}}},
    {"permission": {"bash": "ask", "edit": "allow", "webfetch": "deny"}},
    {"agent": {"reviewer": {"description": "Reads é, “quotes”", "mode": "subagent", "prompt": "// read\n"}}},
    {"command": {"test": {"template": "run /* all */ tests", "description": "t"}}},
    {"instructions": ["AGENTS.md", "docs/*.md"], "snapshot": False},
    {"share": "disabled", "autoupdate": False, "username": "Zoë"},
    {"compaction": {"auto": True, "prune": False}, "small_model": "anthropic/claude-haiku-4-5"},
    {"formatter": {"ruff": {"command": ["ruff", "format", "$FILE"], "extensions": [".py"]}}},
    {"watcher": {"ignore": ["**/node_modules/**"]}, "disabled_providers": ["openai"]},
]
STALE = {
    "npm": "@ai-sdk/openai-compatible",
    "name": "My box",
    "options": {"baseURL": "http://127.0.0.1:8000/v1", "headers": {"X-Team": "é"}},
    "models": {
        "qwen3-coder": {"limit": {"context": 4096, "input": 1, "output": 32000}},
        "other": {"limit": {"context": 8, "output": 4}},
    },
}
"""Our provider as an earlier set-up left it, with another model beside."""


def any_document(chance: random.Random) -> dict[str, Any]:
    """Some parts of a person's settings; often our own provider, sometimes something very deep."""
    document: dict[str, Any] = {}
    parts = chance.sample(PARTS, chance.randrange(5))
    if chance.random() < 0.3:
        parts.append({"provider": {"vllm": STALE}})
    if chance.random() < 0.2:
        parts.append({"provider": {"house": {"npm": "x", "options": {"deep": _deep(chance)}}}})
    for part in parts:
        for key, value in part.items():
            document[key] = {**document[key], **value} if key in document else value
    return document


def _deep(chance: random.Random) -> object:
    value: object = chance.choice([1, "end", None, {}])
    for _level in range(chance.randrange(30, 80)):
        value = [value] if chance.random() < 0.5 else {"in": value}
    return value


class Layout:
    """Writes a value as JSONC with comments and spacing where the grammar allows them.

    ``seen`` counts what was written: a comment in each kind of place, keys that stand twice.
    """

    def __init__(self, chance: random.Random, *, twice: float = 0.0) -> None:
        self.chance = chance
        self.twice = twice
        self.newline = chance.choice(list(NEWLINES))
        self.comments: list[str] = []
        self.seen: Counter[str] = Counter()

    def document(self, value: object) -> str:
        """The whole text, now and then with a byte order mark."""
        mark = self.choose("", "\ufeff")
        self.seen[f"{NEWLINES[self.newline]} {'with' if mark else 'without'} mark"] += 1
        return mark + self.blank("before all") + self.render(value) + self.blank("after all")

    def choose(self, *options: str) -> str:
        return self.chance.choice(options)

    def blank(self, place: str) -> str:
        parts = []
        for _number in range(self.chance.choice([0, 0, 1, 2])):
            words = "".join(self.choose(*'ab "{}[]:,\\é/') for _letter in range(self.chance.randrange(6)))
            kind = self.choose(" ", "\t", self.newline, self.newline + "   ", "//", "/*")
            if kind == "//":
                self.comments.append("//" + words)
                parts.append(self.comments[-1] + self.newline)
            elif kind == "/*":
                self.comments.append("/*" + words + self.choose("", self.newline) + "*/")
                parts.append(self.comments[-1])
            else:
                parts.append(kind)
            if kind in ("//", "/*"):
                self.seen[f"{kind} {place}"] += 1
        return "".join(parts)

    def scalar(self, value: object) -> str:
        return json.dumps(value, ensure_ascii=self.chance.random() < 0.5)

    def render(self, value: object) -> str:
        if not isinstance(value, dict | list):
            return self.scalar(value)
        opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
        parts = [opening, self.blank(f"after {opening}")]
        entries = self._entries(value)
        for number, (key, item) in enumerate(entries, start=1):
            if isinstance(value, dict):
                parts += [self.scalar(key), self.blank("after key"), ":", self.blank("after :")]
            parts += [self.render(item), self.blank("after value")]
            if number < len(entries) or self.choose("", ","):
                parts += [",", self.blank("after ,")]
        return "".join([*parts, closing])

    def _entries(self, value: dict[str, object] | list[object]) -> list[tuple[str, object]]:
        """The entries in order; a key that stands twice gets a wrong value first, for the last one counts."""
        if isinstance(value, list):
            return [("", item) for item in value]
        entries = list(value.items())
        if entries and self.chance.random() < self.twice:
            self.seen["a key twice"] += 1
            entries.insert(0, (self.chance.choice(entries)[0], "wrong"))
        return entries
