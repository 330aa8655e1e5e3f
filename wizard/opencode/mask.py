"""Shows a change of a configuration without the secrets in it."""

from __future__ import annotations

import difflib
import re

from wizard.opencode.jsonc import Document, Node, scan
from wizard.text import HIDDEN, covered, inert, is_secret_name

_SECRET_HOLDERS = frozenset({"headers", "environment", "env", "queryParams"})
"""Objects whose values are keys as often as not."""

_REFERENCE = re.compile(r"\{(?:env|file):[^}]*\}")


def masked_diff(before: str, after: str, name: str) -> str:
    """What changes, as a unified diff of both texts with their secrets covered; empty when nothing does.

    Both texts must be valid JSONC.
    """
    lines = difflib.unified_diff(
        _lines(masked(before)), _lines(masked(after)), fromfile=name, tofile=name, lineterm=""
    )
    return "\n".join(lines)


def masked(text: str) -> str:
    """The text with every value that is or may be a secret replaced. References to a key stay readable."""
    if not text.strip("\ufeff \t\r\n"):
        return text
    document = scan(text)
    spans = _secret_values(document) + [
        (start, end, shown)
        for start, end in document.comments
        if (shown := covered(text[start:end])) != text[start:end]
    ]
    for start, end, replacement in sorted(spans, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def _secret_values(document: Document) -> list[tuple[int, int, str]]:
    """The string values to cover, with what to show instead."""
    spans: list[tuple[int, int, str]] = []
    waiting: list[tuple[Node, bool]] = [(document.root, False)]
    while waiting:
        node, secret = waiting.pop()
        if isinstance(node.value, str):
            shown = document.text[node.start : node.end]
            cover = covered(shown)
            escaped = cover == shown and covered(node.value) != node.value
            if escaped or (secret and not _only_reference(node.value)):
                cover = f'"{HIDDEN}"'
            if cover != shown:
                spans.append((node.start, node.end, cover))
            continue
        previous = ""
        for member in node.members:
            holder = member.key in _SECRET_HOLDERS and isinstance(member.node.value, dict)
            inside = secret or holder or is_secret_name(member.key)
            after_flag = previous.startswith("-") and (is_secret_name(previous) or "key" in previous)
            waiting.append((member.node, inside or after_flag))
            previous = member.node.value if isinstance(member.node.value, str) and not member.key else ""
    return spans


def _only_reference(value: str) -> bool:
    """Whether a value names where the secret is, and holds nothing of it."""
    return not _REFERENCE.sub("", value).replace("Bearer", "").strip() and bool(_REFERENCE.search(value))


def _lines(text: str) -> list[str]:
    content = text.removeprefix("\ufeff").rstrip("\r\n")
    return [inert(line) for line in re.split(r"\r\n|\n|\r", content)] if content else []
