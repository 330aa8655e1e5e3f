"""A diff with theme colours that repeat what its first characters say."""

from __future__ import annotations

from textual.content import Content

_STYLES = {"+": "$text-success", "-": "$text-error", "@": "$text-accent"}


def coloured(diff: str) -> Content:
    """The diff, inert: nothing in it is markup."""
    return Content("\n").join(Content.styled(line, _style(line)) for line in diff.splitlines())


def _style(line: str) -> str:
    return "bold" if line.startswith(("+++", "---")) else _STYLES.get(line[:1], "")
