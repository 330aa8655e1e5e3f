"""Text that came from outside (logs, HTTP bodies, model names, TOML of others) made inert."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "***"
"""What stands in the place of a secret."""

_SECRET_NAME = re.compile(
    r"api[-_]?key|token(?!izer|s)|secret|passw|passphrase|pass(?:$|_)|auth|credential|cookie|private[-_]?key|bearer|signature",
    re.IGNORECASE,
)
# Keys of well-known services, bearer headers, passwords in addresses, long mixed runs as keys are made of.
_SECRET_TEXT = re.compile(
    r"""\b(?:(?:sk|pk|hf|gh[oprsu]|github_pat|glpat|xox[a-z]|nvapi|gsk)[-_]|AKIA|AIza|eyJ)[-_.A-Za-z0-9]{8,}
    | (?<=Bearer\ )[^\s"{}]+ | (?<=Basic\ )[^\s"{}]+
    | (?<=://)[^\s/@"]+(?=@)
    | \b[0-9a-fA-F]{32,}\b | \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b
    | \b(?=[A-Za-z]*[0-9])(?=[0-9A-Z]*[a-z])(?=[0-9a-z]*[A-Z])[A-Za-z0-9_]{24,}""",
    re.VERBOSE,
)

# `name: value` and `--name value` in a comment or a command line.
_SECRET_PAIR = re.compile(
    r"""((?:api[-_]?key|token(?!izer|s)|secret|passw[a-z]*|authorization)["']?\s*[:=]\s*["']?
    |--?[\w-]*(?:key|token|secret|passw)[\w-]*[=\ ])
    (?!\{(?:env|file):)([^\s"',}]+)""",
    re.VERBOSE | re.IGNORECASE,
)

# CSI and OSC sequences, then single-character escapes.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Everything that steers a terminal, C0 and C1, except tab and newline; marks that turn the direction of
# writing or show nothing at all; and halves of characters, which no output can encode.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]"
)


def inert(text: str) -> str:
    """The text without escape sequences and control characters; tabs and newlines stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def one_line(text: str, limit: int = 400) -> str:
    """The inert text on one line, at most ``limit`` characters, cut with an ellipsis."""
    line = " ".join(inert(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def shortened(text: str, width: int) -> str:
    """The text in at most ``width`` characters, 1 or more: its middle goes, where only the ends tell."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def two_digits(value: float) -> str:
    """A guess: two digits at most, the rest would be made up."""
    return f"{float(f'{value:.2g}'):g}"


def shell_join(argv: tuple[str, ...] | list[str]) -> str:
    """A command line a person can paste into a POSIX shell."""
    import shlex

    return shlex.join(argv)


def is_secret_name(name: str) -> bool:
    """Whether a variable, a key or a header of this name holds a secret as a rule."""
    return bool(_SECRET_NAME.search(name))


def covered(text: str) -> str:
    """The text with everything that looks like a key, a token or a password replaced."""
    return _SECRET_TEXT.sub(HIDDEN, _SECRET_PAIR.sub(rf"\g<1>{HIDDEN}", text))


def covered_env(env: Mapping[str, str]) -> dict[str, str]:
    """Variables for show: values of secret names, and secrets in other values, are replaced."""
    return {name: HIDDEN if is_secret_name(name) else covered(value) for name, value in env.items()}
