"""What the test asks and how it reads refusals: ``assets/smoke.toml``, typed."""

from __future__ import annotations

import functools
from importlib import resources

import msgspec


class CheckSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One check: ``required`` ones decide the verdict; it is pointless when the one it ``needs`` failed.

    Those that are ``together`` and stand in a row are made at the same time. What comes in answer to an
    ``odd`` one says nothing of model and parser: the server forced it, or the question was wrong on purpose.
    """

    id: str
    title: str
    required: bool = False
    deadline_s: float = 0.0
    needs: str = ""
    together: bool = False
    odd: bool = False
    max_tokens: int = 0
    """The room of a first answer, tokens; 0: that of all."""


class Tool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool offered to the model; ``parameters`` is its JSON schema.

    ``characters``: how long its description is made, with the filling; 0 leaves it as it is.
    """

    name: str
    description: str
    parameters: dict[str, object]
    characters: int = 0


class CallTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request that wants a call of ``wanted``; ``again`` is the plainer wording of the second try."""

    id: str
    wanted: str
    prompt: str
    again: str
    expect: str = ""
    """JSON of the arguments that are right; empty where the model may choose."""
    result: str = ""
    """What the tool answers in a round trip."""
    tools: tuple[Tool, ...] = ()
    """What is offered; none: the tools of the first task."""


class Words(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The questions that want words."""

    chat: str
    title_system: str
    title_user: tuple[str, ...]
    count: str
    """A question with a long answer, to cut or to leave."""
    between: str
    """What the assistant said in an earlier turn, for a history."""


class Filling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sentences that make a text as long as opencode's; ``characters``: the length of its system message."""

    characters: int
    sentences: tuple[str, ...]
    tokens: int
    """What the whole request takes at most, with the answer."""

    def text(self, opening: str, characters: int) -> str:
        """``opening`` and the sentences, numbered so that no two are alike, up to exactly ``characters``."""
        lines = [opening]
        length = len(opening)
        while length < characters:
            number = len(lines)
            lines.append(f"{number}. {self.sentences[(number - 1) % len(self.sentences)]}")
            length += len(lines[-1]) + 1
        return "\n".join(lines)[:characters]


class CallShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way to write a call, with ``tagged`` or without tags: a regular expression with ``$tool`` in it."""

    id: str
    pattern: str
    tagged: bool = False
    parsers: tuple[str, ...]
    source: str


class KnownError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a refusal is recognised: by status, by text, or both. ``ends``: further checks are pointless."""

    code: str
    status: tuple[int, ...] = ()
    pattern: str = ""
    ends: bool = False
    source: str


class Overflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How opencode reads a refusal: as too long a prompt (it then compacts), or as worth trying again."""

    recognised: tuple[str, ...]
    """Regular expressions, case ignored."""
    transient: str
    """A regular expression that makes opencode send the same request again and again."""
    source: str


class Material(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. Lengths are tokens."""

    source: str
    max_tokens: int
    max_tokens_thinking: int
    minimum_window: int
    swallowed_tokens: int
    repeated: int
    """So many times the same character, or the same words, one after the other, are no language."""
    finish_reasons: tuple[str, ...]
    retried: tuple[int, ...]
    """Statuses after which opencode asks again."""
    retry_after_s: float
    running: str
    """A regular expression for the counters of running requests."""
    check: tuple[CheckSpec, ...]
    words: Words
    filling: Filling
    task: tuple[CallTask, ...]
    shape: tuple[CallShape, ...]
    overflow: Overflow
    error: tuple[KnownError, ...]

    def find_check(self, id: str) -> CheckSpec:
        """The check with this id."""
        return next(check for check in self.check if check.id == id)

    def find_task(self, id: str) -> CallTask:
        """The task with this id, with the tools it offers."""
        found = next(task for task in self.task if task.id == id)
        return found if found.tools else msgspec.structs.replace(found, tools=self.task[0].tools)


@functools.cache
def material() -> Material:
    """The bundled material."""
    content = (resources.files("assets") / "smoke.toml").read_bytes()
    return msgspec.toml.decode(content, type=Material)
