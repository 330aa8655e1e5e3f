"""Reads the words of a command line that starts vLLM: which program, which model, which options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

import msgspec

from wizard.catalog import flag_facts
from wizard.plan.types import Option, image_place

_NUMBER = re.compile(r"-\d+(?:\.\d+)?")
_TOKENS = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[kmgKMG]?)")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


class ServerCall(msgspec.Struct, frozen=True, kw_only=True):
    """A command that starts vLLM, taken apart."""

    command: tuple[str, ...]
    """How vLLM is called, with what stands before it; up to and including ``serve`` and a model after it."""
    model: str
    """The checkpoint; empty where the command names none."""
    options: tuple[Option, ...]
    """In their order; as vLLM writes them where it is known which option is meant, else as they stand."""
    secrets: Mapping[str, str] = {}
    """Variables that can take the place of options with a secret, and the values these had."""


def read_call(words: Sequence[str]) -> ServerCall | None:
    """The call of vLLM in a list of words; None when they start something else.

    ``vllm serve``, ``python -m vllm.entrypoints…`` and the script of the API server are known, behind any
    other program that starts them (``env``, ``numactl``, ``nohup``).
    """
    place = _end_of_program(words)
    if place is None:
        return None
    served = words[place - 1] == "serve"
    options = read_options(words[place:])
    model = next((option for option in options if not _is_option(option.flag)), None) if served else None
    secrets = {_secret(option.flag): option.value for option in options if _secret(option.flag)}
    options = tuple(
        option
        for option in options
        if option is not model and (not _secret(option.flag) or option.value is None)
    )
    named = next((option.value for option in reversed(options) if option.flag == "--model"), None)
    return ServerCall(
        command=tuple(words[:place]) if model is None else (*words[:place], model.flag),
        model=(model.flag if model is not None else named) or "",
        options=options,
        secrets={name: value for name, value in secrets.items() if name and value},
    )


def read_options(words: Sequence[str]) -> tuple[Option, ...]:
    """The options as vLLM's own parser would take them apart.

    A word that belongs to none stands in its place as an option of that name: the model, or what a shell puts
    in there.
    """
    lists, switches = flag_facts().spelling.lists, _switches()
    options: list[Option] = []
    place = 0
    while place < len(words):
        word, place = words[place], place + 1
        if not _is_option(word):
            options.append(Option(flag=word))
            continue
        flag, separator, value = word.partition("=")
        flag = canonical_flag(flag)
        name = flag.removeprefix("--")
        if separator or name in switches:
            options.append(Option(flag=flag, value=value if separator else None))
            continue
        end = place
        while end < len(words) and not _is_option(words[end]):
            end += 1
        values = tuple(words[place : end if name in lists else min(end, place + 1)])
        options.append(Option(flag=flag, value=values[0] if values else None, more=values[1:]))
        place += len(values)
    return tuple(options)


def canonical_flag(flag: str, known: Sequence[str] = ()) -> str:
    """A long option as vLLM itself writes it, of ``known`` or recorded ones; one nobody knows as it stands.

    vLLM takes underscores for dashes, short names, an unambiguous beginning for the whole name, and a key of
    a JSON option behind a dot.
    """
    spelling = flag_facts().spelling
    head, dot, key = flag.partition(".")
    if not head.startswith("--"):
        short = spelling.short.get(head)
        return flag if short is None else f"--{short}{dot}{key}"
    names = known or flag_facts().recorded.names
    dashed = head.replace("_", "-")
    if dashed not in names and dashed not in _every_name():
        begun = [name for name in names if name.startswith(dashed)]
        dashed = begun[0] if len(begun) == 1 else dashed
    same = spelling.same.get(dashed.removeprefix("--"))
    return f"--{same}{dot}{key}" if same else f"{dashed}{dot}{key}"


def is_switch(flag: str) -> bool:
    """Whether an option takes no value; ``flag`` is canonical, with its dashes."""
    return flag.removeprefix("--") in _switches()


def tokens(text: str | None) -> int | None:
    """A number of tokens as vLLM's options take it (``32768``, ``32k``, ``32K``); None for any other word."""
    match = _TOKENS.fullmatch(text or "")
    return round(float(match["number"]) * _UNITS[match["unit"]]) if match else None


def _end_of_program(words: Sequence[str]) -> int | None:
    """Where vLLM's own arguments begin; a container is looked into behind its entrypoint and its image."""
    entrypoint = next((word for word in reversed(words) if word.startswith("--entrypoint=")), None)
    if entrypoint is not None:
        image = image_place(words)
        inside = _end_of_program((entrypoint.partition("=")[2], *words[image + 1 :]))
        return None if inside is None else image + inside
    for place, word in enumerate(words):
        after = words[place + 1] if place + 1 < len(words) else ""
        if PurePath(word).name == "vllm" and after == "serve":
            return place + 2
        if word == "-m" and after.split(".")[0] == "vllm":
            serve = place + 2 < len(words) and words[place + 2] == "serve"
            if serve or after.endswith(".api_server"):
                return place + 2 + serve
        if word.endswith("vllm/entrypoints/openai/api_server.py"):
            return place + 1
    return None


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word)


def _secret(flag: str) -> str:
    return flag_facts().spelling.secret.get(flag.removeprefix("--"), "")


def _switches() -> set[str]:
    facts = flag_facts()
    twins = (f"no-{name}" for name in facts.recorded.switches)
    return {*facts.recorded.switches, *twins, *facts.spelling.bare}


def _every_name() -> Iterator[str]:
    """Options of any release, so that one of an older release is not taken for the beginning of another."""
    facts = flag_facts()
    yield from (entry.name for entry in facts.flag)
    yield from (f"--{name}" for name in (*facts.spelling.bare, *facts.spelling.same))
