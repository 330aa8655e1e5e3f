"""Text that came from outside (logs, HTTP bodies, model names, TOML of others) made inert."""

from __future__ import annotations

import re

# CSI and OSC sequences, then single-character escapes.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Everything that steers a terminal, C0 and C1, except tab and newline; and the bidirectional overrides.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def inert(text: str) -> str:
    """The text without escape sequences and control characters; tabs and newlines stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def one_line(text: str, limit: int = 400) -> str:
    """The inert text on one line, at most ``limit`` characters, cut with an ellipsis."""
    line = " ".join(inert(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def shell_join(argv: tuple[str, ...] | list[str]) -> str:
    """A command line a person can paste into a POSIX shell."""
    import shlex

    return shlex.join(argv)
