"""What the pretended model writes before any parser sees it, and the tokens of its prompts."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from string import Template
from typing import Any

from wizard.rehearsal.answers import CHARS_PER_TOKEN, Answer, Call
from wizard.rehearsal.faults import read_data
from wizard.rehearsal.options import Options


@dataclass(frozen=True)
class Format:
    """One way to write a call. Its fields are explained at the top of formats.toml."""

    id: str
    parsers: tuple[str, ...]
    call: str
    argument: str = ""

    def write(self, call: Call) -> str:
        """The call as text."""
        arguments = "".join(
            Template(self.argument).substitute(key=key, value=_plain(value))
            for key, value in call.arguments.items()
        )
        return Template(self.call).substitute(json=call.as_json(), name=call.name, arguments=arguments)


@functools.cache
def formats() -> dict[str, Format]:
    """Every format by its id."""
    entries = read_data("formats.toml")["format"]
    return {entry["id"]: Format(**{**entry, "parsers": tuple(entry["parsers"])}) for entry in entries}


def spoken(options: Options) -> Format:
    """The format of this start: the fault's, else the one its parser reads, else the first."""
    known = formats()
    if options.fault is not None and options.fault.format:
        return known[options.fault.format]
    fitting = (entry for entry in known.values() if options.tool_parser in entry.parsers)
    return next(fitting, next(iter(known.values())))


def written(answer: Answer, options: Options) -> str:
    """The raw text of an answer."""
    return spoken(options).write(answer.call) if answer.call else answer.text


def tokenized(request: dict[str, Any], options: Options) -> dict[str, Any]:
    """A chat request as the tokens of its prompt: four bytes each, of a template that is plain JSON."""
    kept = {key: request[key] for key in ("messages", "tools") if key in request}
    content = json.dumps(kept).encode()
    content += b" " * (-len(content) % CHARS_PER_TOKEN)
    starts = range(0, len(content), CHARS_PER_TOKEN)
    tokens = [int.from_bytes(content[start : start + CHARS_PER_TOKEN], "big") for start in starts]
    return {"count": len(tokens), "max_model_len": options.window, "tokens": tokens}


def text_of(tokens: list[int]) -> str:
    """The text behind tokens. Raises ValueError for others than ours."""
    try:
        return b"".join(token.to_bytes(CHARS_PER_TOKEN, "big") for token in tokens).decode().rstrip()
    except (OverflowError, AttributeError, TypeError) as error:
        raise ValueError("tokens of another model") from error


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
