"""The answers file: what a person wants, as TOML. Every key is optional; an unknown key is an error."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from wizard.errors import CorruptDataError, UsageError, nearest_hint
from wizard.i18n import _

_LARGEST_FILE = 1 << 20

Mode = Literal["install", "connect", "troubleshoot", "rehearse"]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the answers file."""


class StartAnswers(_Section, frozen=True, kw_only=True):
    """``[start]``: which road is taken, in which language.

    ``base_url`` and ``api_key_env`` (the variable that holds its key) are for "connect": a running server.
    ``log`` is for "troubleshoot"; ``fault`` (an id of ``vllm-opencode rehearse --list``) for a rehearsal.
    """

    mode: Mode = "install"
    lang: Literal["en", "fr"] | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    log: str | None = None
    fault: str | None = None


class MachineAnswers(_Section, frozen=True, kw_only=True):
    """``[machine]``: a recorded machine instead of this host; the GPUs that may be used."""

    simulate: str | None = None
    gpus: tuple[int, ...] | None = None


class RuntimeAnswers(_Section, frozen=True, kw_only=True):
    """``[runtime]``: which vLLM.

    ``path`` is a venv, an executable or an image, ``image`` an image that docker or podman has here,
    ``command`` a complete call.
    """

    kind: Literal["auto", "venv", "command", "container"] = "auto"
    path: str | None = None
    image: str | None = None
    command: tuple[str, ...] | None = None
    env: Mapping[str, str] = {}


class ModelAnswers(_Section, frozen=True, kw_only=True):
    """``[model]``: a catalogue model, a hub id or a local folder; parsers are derived unless named."""

    id: str | None = None
    variant: str | None = None
    path: str | None = None
    served_name: str | None = None
    parser: str = "auto"
    reasoning_parser: str = "auto"


class BudgetAnswers(_Section, frozen=True, kw_only=True):
    """``[budget]``: tokens and the share of memory.

    ``extra_prompt_tokens`` is what the user's own instructions and MCP servers add to opencode's first
    prompt; ``auto``: estimated from the files that are found. ``trim_tools`` agrees that opencode's lesser
    tools are denied, in whatever project and with whatever model: a small window works then.
    """

    max_model_len: int | Literal["auto"] = "auto"
    output: int | None = None
    concurrency: int = 1
    gpu_memory_utilization: float | None = None
    kv_cache_dtype: str = "auto"
    extra_prompt_tokens: int | Literal["auto"] = "auto"
    trim_tools: bool = False


class ServeAnswers(_Section, frozen=True, kw_only=True):
    """``[serve]``: address, key and process. ``offline`` forbids downloads.

    ``timeout_s`` bounds a start; unset, it follows from what is still to be downloaded. ``cure``: where a
    start or the smoke test fails, remedies that only change the plan are applied by themselves, three at most
    (``safe``), offered (``ask``), or only told (``never``).
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_key_file: str | None = None
    extra_args: tuple[str, ...] = ()
    detach: bool = True
    timeout_s: float | None = None
    offline: bool = False
    cure: Literal["ask", "safe", "never"] = "ask"


class SmokeAnswers(_Section, frozen=True, kw_only=True):
    """``[smoke]``: ``tune`` leaves conservative options out after a passed test, and keeps what is faster."""

    skip: bool = False
    tune: bool = False


class OpencodeAnswers(_Section, frozen=True, kw_only=True):
    """``[opencode]``: where and how much is written.

    ``context`` tells opencode less than vLLM's window, tokens; ``binary`` names an opencode not on PATH.
    ``api_key_file`` or ``api_key_env`` is where opencode finds the key, if not where the wizard does.
    """

    path: str | None = None
    project: str | None = None
    provider: str = "vllm"
    default_model: bool = True
    globals: Literal["ask", "yes", "no"] = "ask"
    private: bool = False
    proof: bool = True
    context: int | None = None
    binary: str | None = None
    api_key_file: str | None = None
    api_key_env: str | None = None


class Answers(_Section, frozen=True, kw_only=True):
    """All answers. The TUI, the commands and the file fill the same structure."""

    start: StartAnswers = StartAnswers()
    machine: MachineAnswers = MachineAnswers()
    runtime: RuntimeAnswers = RuntimeAnswers()
    model: ModelAnswers = ModelAnswers()
    budget: BudgetAnswers = BudgetAnswers()
    serve: ServeAnswers = ServeAnswers()
    smoke: SmokeAnswers = SmokeAnswers()
    opencode: OpencodeAnswers = OpencodeAnswers()


def key_variable(answers: Answers) -> str | None:
    """The environment variable that holds the server's API key, or None.

    A vLLM started here takes VLLM_API_KEY over from the environment by itself, unless a file names the key.
    A server elsewhere is only ever sent a key that was named for it.
    """
    if answers.start.mode == "connect" or answers.serve.api_key_file is not None:
        return answers.start.api_key_env
    return "VLLM_API_KEY" if os.environ.get("VLLM_API_KEY") else None


def load_answers(path: Path) -> Answers:
    """Read an answers file.

    Raises UsageError when it cannot be read, CorruptDataError naming the line or the key when it is not
    valid; an unknown key is answered with the nearest valid one.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(
            _("Cannot read the answers file {path}: {reason}.").format(path=path, reason=error.strerror),
            _("Check the name, or leave --answers out."),
        ) from error
    if len(data) > _LARGEST_FILE:
        raise CorruptDataError(_("{path} is too large for an answers file.").format(path=path))
    try:
        raw = msgspec.toml.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise CorruptDataError(
            _("{path} is not valid TOML: {reason}.").format(path=path, reason=error),
            _("Correct that line."),
        ) from error
    return answers_from(raw, str(path))


def answers_from(raw: Mapping[str, Any], origin: str) -> Answers:
    """Answers from decoded tables; ``origin`` names them in errors."""
    _refuse_unknown_keys(raw, origin)
    try:
        answers = msgspec.convert(raw, Answers)
    except msgspec.ValidationError as error:
        raise CorruptDataError(
            _("{origin}: {reason}.").format(origin=origin, reason=_readable(str(error))),
            _("See the example in the README for what each key takes."),
        ) from error
    check_answers(answers, origin)
    return answers


def _refuse_unknown_keys(raw: Mapping[str, Any], origin: str) -> None:
    sections = {field.name: field.type for field in msgspec.structs.fields(Answers)}
    for section, table in raw.items():
        if section not in sections:
            raise CorruptDataError(
                _("{origin}: unknown section [{key}].").format(origin=origin, key=section),
                nearest_hint(section, sections),
            )
        if not isinstance(table, Mapping):
            raise CorruptDataError(
                _("{origin}: {key} must be a table, written as [{key}].").format(origin=origin, key=section)
            )
        known = {field.name for field in msgspec.structs.fields(sections[section])}
        for key in table:
            if key not in known:
                raise CorruptDataError(
                    _("{origin}: unknown key {key} in [{section}].").format(
                        origin=origin, key=key, section=section
                    ),
                    nearest_hint(key, known),
                )


_RANGES = {
    "serve.port": "1…65535",
    "budget.gpu_memory_utilization": "0…1",
    "budget.extra_prompt_tokens": "0…",
}


def check_answers(answers: Answers, origin: str) -> None:
    """Bounds a type cannot state. Raises CorruptDataError with the key and ``origin``, where it stands."""
    positive = {
        "serve.timeout_s": answers.serve.timeout_s,
        "budget.concurrency": answers.budget.concurrency,
        "budget.output": answers.budget.output,
        "budget.max_model_len": answers.budget.max_model_len,
        "opencode.context": answers.opencode.context,
    }
    problems = {key: isinstance(value, int | float) and not value > 0 for key, value in positive.items()}
    extra = answers.budget.extra_prompt_tokens
    problems["budget.extra_prompt_tokens"] = isinstance(extra, int) and extra < 0
    problems["serve.port"] = not 1 <= answers.serve.port <= 65535
    share = answers.budget.gpu_memory_utilization
    problems["budget.gpu_memory_utilization"] = share is not None and not 0 < share <= 1
    for key, wrong in problems.items():
        if wrong:
            raise CorruptDataError(
                _("{origin}: {key} is out of range.").format(origin=origin, key=key),
                _("It must be {range}.").format(range=_RANGES.get(key, _("more than 0"))),
            )
    for key, text in _texts(msgspec.to_builtins(answers)):
        if not text or not text.isprintable():
            raise CorruptDataError(
                _("{origin}: {key} is empty or holds characters that cannot be seen.").format(
                    origin=origin, key=key
                ),
                _("Leave the key out, or write the value on one line."),
            )


def _texts(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text in the answers with its key, but for the values of environment variables."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key != "env":
                yield from _texts(item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, path)


def _readable(message: str) -> str:
    """msgspec's ``… - at `$.serve.port``` with the key first, as a person would say it."""
    reason, separator, path = message.partition(" - at `$.")
    return f"{path.rstrip('`')}: {reason}" if separator else re.sub(r"\s+", " ", message)
