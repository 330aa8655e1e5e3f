"""Renders conversations with a chat template nobody has looked at. A program of its own, sent with ``-c``.

Called with a file that holds the template, its variables and the conversations, and the seconds of processor
time it may take. Says on standard output, as one line of JSON behind ``MARK``, the text or the error of each.
The template sees what Hugging Face transformers gives it: jinja2's sandbox, its ``tojson``,
``raise_exception``, ``strftime_now`` and the ``generation`` tag.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

MARK = "WIZARD-RENDERED "

_MEMORY = 2**30
_LONGEST = 60_000


def main(job_file: str, seconds: int) -> None:
    """Render all, or tell why the template is not one."""
    _limit(seconds)
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    answers: list[dict[str, str]] = []
    try:
        template = _environment().from_string(job["template"])
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a template is the answer
        answers = [_failure(error)] * len(job["conversations"])
    else:
        answers = [_render(template, {**job["variables"], **one}) for one in job["conversations"]]
    sys.stdout.write(f"\n{MARK}{json.dumps(answers)}\n")


def _limit(seconds: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows; the deadline of the process holds there
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def _render(template: Any, variables: dict[str, Any]) -> dict[str, str]:
    try:
        text = ""
        for part in template.generate(**variables):
            text += part
            if len(text) > _LONGEST:
                return {"error": "too long"}
    except Exception as error:  # noqa: BLE001 - as above
        return _failure(error)
    return {"text": text}


def _failure(error: Exception) -> dict[str, str]:
    return {"error": f"{type(error).__name__}: {error}".removesuffix(": ")[:400]}


def _environment() -> Any:
    from jinja2 import nodes
    from jinja2.exceptions import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Marks what the model wrote, for training; the text inside is all that matters here."""

        tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = datetime.datetime.now().strftime
    return environment


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
