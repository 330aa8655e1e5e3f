"""A server, read from the shell script that starts it, or from a command line that is one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

import msgspec

from wizard.adopt.assemble import Found, make_adopted, runtime_of
from wizard.adopt.types import Adopted, require_file
from wizard.catalog import runtime_facts
from wizard.errors import RefusedError, UsageError
from wizard.i18n import _
from wizard.plan import AdoptedFrom
from wizard.plan.types import image_place
from wizard.plan.words import ServerCall, read_call
from wizard.runtime.containers import version_of

_SHELLS = ("sh", "bash", "dash", "zsh", "ash")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_VARIABLE = re.compile(
    r"\$(?:(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?:(?P<how>:?[-+?])(?P<other>[^{}]*))?\})"
)
_SKIPPED = ("exec", "export", "command", "nohup", "time", "sudo")
_LARGEST = 1 << 20


class ScriptCall(msgspec.Struct, frozen=True, kw_only=True):
    """The call of vLLM in a script, the variables set for it, and what in it only a shell could tell."""

    call: ServerCall
    env: Mapping[str, str]
    open: tuple[str, ...] = ()
    """Words with variables or commands whose value is not in the script."""


def adopt_script(path: Path) -> Adopted:
    """The server a shell script starts, as far as it can be told without running it.

    Raises UsageError when it cannot be read, RefusedError when it starts no vLLM in a way that is understood.
    """
    found = read_script(text_of(path), {})
    if found is None:
        raise RefusedError(
            _("{path} starts no vLLM in a way that can be read.").format(path=path),
            _("Start it, and name its process or its log instead: pid:N, log:F."),
        )
    path = path.absolute()
    origin = AdoptedFrom(
        kind="script",
        name=str(path),
        file=str(path),
        folder=str(path.parent),
        open=found.open,
        unread=unread_of(found.open),
    )
    kind, place, version = runtime_of(found.call.command, {})
    image = image_place(found.call.command)
    if image < len(found.call.command):
        kind, place = "container", found.call.command[image]
        version = version_of(place)
    return make_adopted(
        Found(call=found.call, origin=origin, env=found.env, kind=kind, path=place, version=version)
    )


def text_of(path: Path) -> str:
    """The text of a small file. Raises UsageError when it cannot be read."""
    try:
        require_file(path)
        with path.open("rb") as file:
            return file.read(_LARGEST).decode("utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            _("Cannot read {path}: {reason}.").format(path=path, reason=error.strerror or error),
            _("Name the file that starts vLLM."),
        ) from error


def call_in(words: Sequence[str], env: Mapping[str, str]) -> ScriptCall | None:
    """The call of vLLM in the words of a command, or in the text it hands to a shell."""
    for place, word in enumerate(words[:-1]):
        after = words[place + 1]
        if PurePath(word).name in _SHELLS and after.startswith("-") and after.endswith("c"):
            return read_script(" ".join(words[place + 2 : place + 3]), env)
    words = with_entrypoint(words)
    call = read_call(words)
    return None if call is None else ScriptCall(call=call, env=env)


def with_entrypoint(words: Sequence[str]) -> tuple[str, ...]:
    """The words of ``docker run`` with an image of vLLM, with what the image starts named in them.

    So they mean the same, and vLLM's own words can be told from those of the engine. Any other words stay.
    """
    facts = runtime_facts()
    run = next((at for at in range(1, len(words)) if words[at] == "run"), 0)
    if not run or PurePath(words[run - 1]).name not in {engine.name for engine in facts.engine}:
        return tuple(words)
    repositories = tuple(image.repository for image in facts.image)
    places = (
        at for at in range(run, len(words)) if words[at].removeprefix("docker.io/").startswith(repositories)
    )
    image = next(places, 0)
    if not image or any(word.startswith("--entrypoint=") for word in words[run:image]):
        return tuple(words)
    options, inner = list(words[:image]), words[image + 1 :]
    entrypoint: tuple[str, ...] = facts.container.entrypoint
    if "--entrypoint" in options:
        place = options.index("--entrypoint")
        entrypoint = (options[place + 1],)
        del options[place : place + 2]
    return (*options, f"--entrypoint={entrypoint[0]}", words[image], *entrypoint[1:], *inner)


def read_script(text: str, env: Mapping[str, str]) -> ScriptCall | None:
    """The first call of vLLM in the text of a shell script; ``env`` is what it finds set."""
    known = dict(env)
    for segment in _segments(text):
        words = list(segment)
        here: dict[str, str] = {}
        while words and (words[0] in _SKIPPED or words[0] == "env" or _ASSIGNMENT.fullmatch(words[0])):
            word = words.pop(0)
            if match := _ASSIGNMENT.fullmatch(word):
                here[match["name"]] = expanded(match["value"], {**known, **here})
        words = [expanded(word, {**known, **here}) for word in words]
        found = call_in(words, {})
        if found is not None:
            unknown = tuple(word for word in words if "$" in word or "`" in word)
            env = {**_exported(text, known), **here, **found.env}
            return msgspec.structs.replace(found, env=env, open=found.open or unknown)
        known |= here
    return None


def expanded(text: str, known: Mapping[str, str]) -> str:
    """A word with the variables that are known put in; the others stay as they are."""

    def value(match: re.Match[str]) -> str:
        name, how = match["name"] or match["braced"], match["how"] or ""
        if how.endswith("+"):
            return match["other"] if known.get(name) else ""
        if name in known and (known[name] or not how.startswith(":")):
            return known[name]
        return match["other"] if how.endswith("-") else match[0]

    return _VARIABLE.sub(value, text)


def unread_of(words: Iterable[str]) -> tuple[str, ...]:
    """A sentence about words whose value only a shell could tell; none where there are none."""
    named = ", ".join(words)
    return (_("Only the shell knows what these stand for: {words}.").format(words=named),) if named else ()


def _exported(text: str, known: Mapping[str, str]) -> dict[str, str]:
    """Of the variables set so far those the script hands on to what it starts."""
    named = set(re.findall(r"^\s*export\s+([A-Za-z_]\w*)", text, re.MULTILINE))
    everything = bool(re.search(r"^\s*set\s+(?:-a|-o\s+allexport)", text, re.MULTILINE))
    return {name: value for name, value in known.items() if everything or name in named}


def _segments(text: str) -> Iterator[list[str]]:
    """The simple commands of a script, as words without their quotation marks."""
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.wordchars += "$:,{}[]%@^+!"
        try:
            words = list(lexer)
        except ValueError:
            continue
        yield from _commands(words)


def _commands(words: list[str]) -> Iterator[list[str]]:
    """The words of a line cut where one command ends; what redirects its output is left out."""
    command: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word and set(word) <= set("<>&") and (">" in word or "<" in word):
            if command and command[-1].isdecimal():
                command.pop()
            skip = True
        elif word and set(word) <= set(";&|()"):
            yield command
            command = []
        else:
            command.append(word)
    yield command
