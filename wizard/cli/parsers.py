"""The command parsers: what a model really writes, and which parsers of the installed vLLM read it."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from wizard.cli import output
from wizard.cli.journeys import journey, with_runtime
from wizard.cli.options import current
from wizard.cli.serving import default_url
from wizard.errors import UsageError
from wizard.flow import connect, find_parsers, read_with_parsers
from wizard.i18n import _, ngettext
from wizard.smoke.finder import Candidate, ParserSearch
from wizard.text import inert, one_line

_LONGEST_TEXT = 20_000
"""Bytes of a text that is tried: the answer of a model, not a log."""
_SHOWN = 12
"""Lines of the raw text that a person is shown."""


def parsers(
    base_url: Annotated[
        str | None, typer.Option("--base-url", help=_("Address of a running vLLM, with /v1."))
    ] = None,
    runtime: Annotated[
        str | None, typer.Option("--runtime", help=_("The vLLM whose parsers are tried: venv or program."))
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="FILE", help=_("Raw model output; - reads it from stdin."))
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help=_("Served name; with --text the model, for its tokenizer."))
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option("--api-key-env", help=_("Variable that holds the key."))
    ] = None,
    api_key_file: Annotated[
        str | None, typer.Option("--api-key-file", help=_("File that holds the key."))
    ] = None,
) -> int:
    """Every parser over what the model writes. 0: one fits; 1: none does."""
    if text is not None and base_url is not None:
        raise UsageError(_("--text and --base-url exclude each other: one text is tried."))
    search = _of_text(_read(text), runtime, model) if text is not None else None
    if search is None:
        start = journey(
            start={
                "mode": "connect",
                "base_url": default_url(None) if base_url is None else base_url,
                "api_key_env": api_key_env,
            },
            runtime={"path": runtime},
            model={"served_name": model},
            serve={"api_key_file": api_key_file},
        )
        connected = connect(start)
        search = find_parsers(with_runtime(connected) if runtime else connected, threading.Event())
    if current().json:
        output.document(search)
    else:
        _show(search)
    return 0 if search.best is not None else 1


def _of_text(raw: str, runtime: str | None, model: str | None) -> ParserSearch:
    start = journey(runtime={"path": runtime}, model={"id": model})
    return read_with_parsers(with_runtime(start) if runtime else start, raw, threading.Event())


def _read(name: str) -> str:
    """The text, whatever is in it. Raises UsageError."""
    shown = one_line(name, 200)
    try:
        with sys.stdin.buffer if name == "-" else Path(name).open("rb") as file:
            content = file.read(_LONGEST_TEXT + 1)
    except OSError as error:
        raise UsageError(
            _("Cannot read {path}: {reason}.").format(path=shown, reason=error.strerror),
            _("Give a file with what the model wrote, or - for standard input."),
        ) from error
    if len(content) > _LONGEST_TEXT:
        raise UsageError(
            _("{path} is longer than {limit} bytes.").format(path=shown, limit=f"{_LONGEST_TEXT:,}"),
            _("Cut out one answer of the model, its tool call included."),
        )
    text = content.decode("utf-8", errors="replace").removeprefix("\ufeff").rstrip("\r\n")
    if not text.strip():
        raise UsageError(_("There is no text in {path}.").format(path=shown))
    return text


def _show(search: ParserSearch) -> None:
    output.say(_("What the model wrote:"))
    lines = inert(search.raw).splitlines()
    for line in lines[:_SHOWN]:
        output.say(f"  {line}")
    if len(lines) > _SHOWN:
        output.say("  …")
    for note in search.notes:
        output.say(_("Note: {text}").format(text=note))
    output.say()
    _show_candidates(search.candidates)
    if search.best is not None:
        output.say(_("The parser that fits: --tool-call-parser {parser}").format(parser=search.best))
    else:
        output.say(_("No tool-call parser fits."))
    if search.reasoning_best is not None:
        output.say(_("For its thoughts: --reasoning-parser {parser}").format(parser=search.reasoning_best))
    elif search.reasoning and not search.thinks:
        output.say(_("It does not think aloud here: it needs no reasoning parser."))
    for advice in search.advice:
        output.say(f"- {advice.title}: {advice.detail}")
        for flag, value in advice.set.items():
            output.say(f"    {flag} {value}")


def _show_candidates(candidates: tuple[Candidate, ...]) -> None:
    """Those that found something, right or wrong; all of them with -v."""
    words = {True: _("OK"), False: _("FAIL")}
    shown = [one for one in candidates if one.ok or one.extracted or current().verbose]
    for candidate in shown:
        output.say(f"{words[candidate.ok]:<5} {candidate.parser:<18} {candidate.detail}")
    left = len(candidates) - len(shown)
    if left:
        text = ngettext(
            "{count} more finds no call in it; -v lists it.",
            "{count} more find no call in it; -v lists them.",
            left,
        )
        output.say(text.format(count=left))
