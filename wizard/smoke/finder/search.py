"""The search: every parser over the text, judged and ranked, and what to do where none fits."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence

import msgspec

from wizard.catalog import CallFormat, Model, ParserKind, ThoughtFormat, WireFormat, find_model
from wizard.checkpoint import family_of, readers_of, split_thought, written_in
from wizard.i18n import _
from wizard.runtime import Runtime
from wizard.smoke.finder.advice import advise
from wizard.smoke.finder.candidates import Setting, try_parsers
from wizard.smoke.finder.judge import judge, judge_thought, only_exact, ranked
from wizard.smoke.finder.table import by_table, too_new
from wizard.smoke.finder.types import Advice, Asked, Candidate, ParserSearch, RawText, Trials
from wizard.smoke.material import Tool, material
from wizard.text import inert

_ANYTHING: dict[str, object] = {"type": "object", "properties": {}}
_MARKUP = re.compile(r"[{\[<(]")


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The model behind the texts: ``names`` it is known by, ``guess`` the parsers its template asks for.

    ``version`` is that of the server, which may be another than the installed one.
    """

    names: tuple[str, ...] = ()
    version: str | None = None
    guess: tuple[str, ...] = ()
    reasoning_guess: tuple[str, ...] = ()

    @property
    def entry(self) -> Model | None:
        """What the catalogue knows of it."""
        return next((found for name in self.names if (found := find_model(name))), None)


def asked_call() -> Asked:
    """The call that ``raw_texts`` asks a model for."""
    task = material().find_task("tool-call")
    arguments = msgspec.json.decode(task.expect, type=dict[str, object])
    return Asked(wanted=task.wanted, arguments=arguments, tools=task.tools)


def search_parsers(
    call: RawText,
    words: RawText,
    asked: Asked | None,
    *,
    runtime: Runtime | None,
    subject: Subject,
    setting: Setting,
    deadline_s: float = 180.0,
    cancel: threading.Event | None = None,
) -> ParserSearch:
    """Which parsers read ``call`` and which reasoning parsers leave the answer in ``words`` whole.

    With a ``runtime`` its own parsers are tried; without one, or where that fails, the tables decide and a
    note says so. Never raises for what a model wrote or a parser did.
    """
    written = written_in(call.text, asked.wanted if asked else None)
    found = written.format if written else None
    # Without tools on offer a server looks for no call at all.
    named = Tool(name=(written.tool if written else "") or "tool", description="", parameters=_ANYTHING)
    family = family_of((*subject.names, subject.entry.name if subject.entry else ""))
    tried = Trials()
    if runtime is not None:
        tried = try_parsers(
            runtime,
            _texts(call, words),
            asked.tools if asked else (named,),
            setting,
            deadline_s=deadline_s,
            cancel=cancel,
        )
    notes = [tried.problem] if tried.problem else []
    tools = [judge(trial, call, asked) for trial in tried.trials if trial.kind == "tool"]
    thoughts = [judge_thought(trial, words) for trial in tried.trials if trial.kind == "reasoning"]
    if tools:
        candidates = ranked(only_exact(tools), _preferred("tool", subject, found, family))
        if not tried.tokenizer:
            notes.append(
                _("The model's tokenizer was not at hand: one made up from the text took its place.")
            )
    else:
        names = runtime.tool_parsers if runtime is not None else ()
        candidates = by_table(found, family, subject.version, names)
        notes.append(_("No installed vLLM could be asked: the wire-format table decides."))
    installed = runtime.version if runtime is not None and tools else None
    if installed and subject.version and _release(installed) != _release(subject.version):
        text = _("The server is vLLM {server}, the parsers tried are those of {installed}.")
        notes.append(text.format(server=subject.version, installed=installed))
    best = _best(candidates)
    thought = split_thought(words.text) or split_thought(call.text)
    thought_format = thought.format if thought else None
    reasoning = ranked(thoughts, _preferred("reasoning", subject, thought_format, family))
    return ParserSearch(
        raw=inert(call.text),
        way=call.way,
        decided_by="installed vLLM" if tools else "wire-format table",
        candidates=candidates,
        best=best,
        reasoning=reasoning,
        reasoning_best=_best(reasoning) if thought is not None else None,
        thinks=thought is not None,
        format=found.id if found else "",
        advice=() if best else _advice(call, asked, found, family, subject, candidates),
        notes=tuple(notes),
    )


def _texts(call: RawText, words: RawText) -> dict[ParserKind, RawText]:
    texts: dict[ParserKind, RawText] = {"tool": call, "reasoning": words}
    return {kind: raw for kind, raw in texts.items() if raw.text.strip()}


def _preferred(
    kind: ParserKind,
    subject: Subject,
    found: CallFormat | WireFormat | ThoughtFormat | None,
    family: str,
) -> Sequence[str]:
    """The order among parsers that do equally well: the catalogue's, the template's, the table's."""
    entry = subject.entry
    known = entry.parser(kind, subject.version) if entry is not None else None
    guessed = subject.guess if kind == "tool" else subject.reasoning_guess
    reading = () if found is None or isinstance(found, WireFormat) else readers_of(found, family)
    return [name for name in (known, *guessed, *reading) if name]


def _release(version: str) -> str:
    """The version without what a build adds to it, as ``+cpu``."""
    return version.partition("+")[0]


def _best(candidates: Sequence[Candidate]) -> str | None:
    return candidates[0].parser if candidates and candidates[0].ok else None


def _advice(
    call: RawText,
    asked: Asked | None,
    found: CallFormat | WireFormat | None,
    family: str,
    subject: Subject,
    candidates: Sequence[Candidate],
) -> tuple[Advice, ...]:
    thought = split_thought(call.text)
    text = thought.rest if thought else call.text
    named = asked is None or asked.wanted in text
    return advise(
        found,
        called=found is not None or (named and _MARKUP.search(text) is not None),
        entry=subject.entry,
        missing=too_new(found, family, [candidate.parser for candidate in candidates]),
    )
