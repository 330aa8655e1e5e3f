"""What the parser finder looks at, what each parser made of it, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from wizard.catalog import ParserKind
from wizard.smoke.material import Tool

DecidedBy = Literal["installed vLLM", "wire-format table"]
RawWay = Literal["completions", "token ids", "tool_choice none", "text"]
"""How the raw text was had: the rendered prompt through the completions endpoint, the ids of a chat answer, a
request most parsers leave alone, or a text that was given."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The call a raw text is expected to hold. Without one, only the text itself can tell what is right."""

    wanted: str
    arguments: Mapping[str, object]
    tools: tuple[Tool, ...]


class RawText(msgspec.Struct, frozen=True, kw_only=True):
    """What a model wrote, special tokens kept, its end token left out. Not inert."""

    text: str
    way: RawWay
    prompt_ids: tuple[int, ...] = ()
    """The rendered prompt; empty where it is not known."""
    checkpoint: str = ""
    """What the server says it loaded: a folder of its own machine or a hub id."""


class FoundCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call as a parser read it; ``arguments`` is its JSON text, untouched."""

    name: str
    arguments: str


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What one parser made of a text, given whole or in small pieces."""

    calls: tuple[FoundCall, ...] = ()
    content: str = ""
    reasoning: str = ""
    problem: str = ""
    """The error it raised; empty when it came to its end."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One parser tried both ways. ``problem``: why it could not be, ``hung``: it was cut off."""

    parser: str
    kind: ParserKind
    whole: Reading = Reading()
    streamed: Reading = Reading()
    problem: str = ""
    hung: bool = False


class Trials(msgspec.Struct, frozen=True, kw_only=True):
    """Every parser of one installed vLLM, tried. ``problem``: why there is nothing, or not everything."""

    trials: tuple[Trial, ...] = ()
    tokenizer: str = ""
    """Where it came from; empty: made up from the text, for the model's own was not at hand."""
    problem: str = ""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A parser, judged. All texts are inert.

    ``extracted``: it took a call (or a thought) out of the text, right or wrong. ``ok``: it may be used.
    """

    parser: str
    extracted: bool
    ok: bool
    detail: str
    calls: tuple[FoundCall, ...] = ()
    """As a client that streams would get them."""
    exact: bool = False
    """The arguments are those that were asked for."""
    clean: bool = False
    """Nothing of the call is left in the text."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """A way on where no parser fits. ``set`` are options of ``vllm serve`` that belong to it."""

    id: Literal["swap-model", "parser-plugin", "chat-template", "newer-vllm", "no-call"]
    title: str
    detail: str
    set: Mapping[str, str] = {}
    models: tuple[str, ...] = ()
    source: str = ""


class ParserSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The whole search: candidates best first; ``best`` is None where no parser fits."""

    raw: str
    way: RawWay
    decided_by: DecidedBy
    candidates: tuple[Candidate, ...]
    best: str | None
    reasoning: tuple[Candidate, ...] = ()
    reasoning_best: str | None = None
    """None: the text holds no thought, or no parser takes it out."""
    thinks: bool = False
    """The text holds a thought."""
    format: str = ""
    """The wire format as the tables know it; empty when none of them matches."""
    advice: tuple[Advice, ...] = ()
    notes: tuple[str, ...] = ()
    """What is worth knowing about how it was decided; whole sentences."""
