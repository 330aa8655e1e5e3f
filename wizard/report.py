"""The hand-over sheet: what was set up here, redacted, for the customer's file or for somebody who helps."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import msgspec

from wizard import paths, receipt
from wizard.errors import UsageError
from wizard.i18n import _
from wizard.receipt import Receipt
from wizard.text import covered, inert

_ADDRESS = re.compile(r"\b(?!127\.0\.0\.1\b)(?:\d{1,3}\.){3}\d{1,3}\b")


def write_report(file: Path | None = None) -> Path:
    """Write the sheet about the last receipt and return where it is.

    Raises UsageError when nothing was set up from here, or the file cannot be written.
    """
    last = receipt.load_last(paths.receipt_path())
    target = file or Path("vllm-opencode-report.txt")
    paths.write_atomic(target, render(last).encode())
    return target.absolute()


def render(last: Receipt) -> str:
    """The sheet as text: results, then answers; home, addresses and tokens are replaced."""
    lines = [
        _("vllm-opencode {version}: hand-over sheet of {created}").format(
            version=last.wizard_version, created=last.created
        ),
        "",
    ]
    if last.simulated:
        lines += [_("Rehearsal on the recorded machine {name}.").format(name=last.simulated), ""]
    lines += [_("Results"), *listed(last.results), "", _("Answers"), *listed(last.answers), ""]
    lines += [
        _("Changed files; `vllm-opencode undo` takes them back"),
        *(f"  {entry.path}" for entry in last.undo),
    ]
    return redact("\n".join(lines)) + "\n"


def redact(text: str) -> str:
    """The text without what identifies a person or opens a door: home folder, addresses, tokens."""
    text = inert(text)
    with contextlib.suppress(UsageError):
        text = text.replace(str(paths.home()), "~")
    return covered(_ADDRESS.sub("<address>", text))


def listed(values: object, indent: str = "  ") -> list[str]:
    """Nested tables as indented lines, a key a line."""
    built = msgspec.to_builtins(values)
    lines: list[str] = []
    for key, value in built.items() if isinstance(built, dict) else ():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:", *listed(value, indent + "  ")]
        else:
            shown = " ".join(map(str, value)) if isinstance(value, list) else value
            lines.append(f"{indent}{key}: {shown}")
    return lines
