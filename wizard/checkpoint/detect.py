"""Which parsers a checkpoint needs, from the wire format its chat template writes and teaches."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Sequence

import msgspec

from wizard.catalog import (
    CallFormat,
    FormatReader,
    NoTemplate,
    ParserKind,
    Trap,
    checkpoint_facts,
    parsers,
    reached,
)
from wizard.checkpoint.template import Rendering, fill, render
from wizard.checkpoint.types import Checkpoint, ParserGuess, Sureness
from wizard.checkpoint.written import family_of
from wizard.i18n import _


class _Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What readers are chosen by."""

    family: str
    tool_parsers: Collection[str]
    reasoning_parsers: Collection[str]
    rendering: Rendering = Rendering()


def detect_parsers(
    checkpoint: Checkpoint,
    *,
    version: str | None = None,
    tool_parsers: Collection[str] = (),
    reasoning_parsers: Collection[str] = (),
    deadline_s: float = 10.0,
    cancel: threading.Event | None = None,
) -> ParserGuess:
    """The parsers for a checkpoint, among those given or else those the tables know for this vLLM.

    ``sure``: the template writes calls in a form that one parser reads, or the parser of its family does.
    ``likely``: the form fits, the family is not known, or the form is only taught. ``unknown``: no parser is
    named: only the running model can tell. Never raises.
    """
    subject = _Subject(
        family=_family(checkpoint),
        tool_parsers=tool_parsers or _known("tool", version),
        reasoning_parsers=reasoning_parsers or _known("reasoning", version),
    )
    own = _without_template(checkpoint)
    if own is not None:
        return _written_by_vllm(own, subject)
    if not checkpoint.template:
        return _unknown(_("It brings no chat template, so its wire format is not known."))
    rendering = render(checkpoint.template, checkpoint.tokens, deadline_s=deadline_s, cancel=cancel)
    subject = msgspec.structs.replace(subject, rendering=rendering)
    found = _written(rendering)
    taught = found is None or found.bare
    entry = next(iter(_taught(rendering)), found) if taught else found
    if entry is None:
        return _unknown(_no_format(rendering))
    return _guess(entry, subject, written=entry is found)


def _guess(entry: CallFormat, subject: _Subject, written: bool) -> ParserGuess:
    """The guess for a format, unless a trap or a vLLM without its parsers stands in the way."""
    trap = _trap(entry, subject.family)
    if trap is not None:
        return _unknown(_(trap.warning), trap.source)
    reader, sureness = _reader(entry, subject)
    if reader is None:
        names = ", ".join(reader.parser for reader in entry.readers)
        known = any(reader.parser in subject.tool_parsers for reader in entry.readers)
        if known:
            text = _("Its calls could be read by {parsers}, and nothing tells which of them is right.")
        else:
            text = _("Its calls are read by {parsers}, which this vLLM does not have.")
        return _unknown(text.format(parsers=names), entry.source)
    if written:
        text = _("Its chat template writes calls in the form that {parser} reads.")
    else:
        text = _("Its chat template teaches calls in the form that {parser} reads.")
        sureness = "likely"
    return ParserGuess(
        tool_parser=reader.parser,
        reasoning_parser=_thinker(subject),
        sureness=sureness,
        why=text.format(parser=reader.parser),
        source=entry.source,
    )


def _reader(entry: CallFormat, subject: _Subject) -> tuple[FormatReader | None, Sureness]:
    """The reader of the checkpoint's family, else the one its tokens show, the only or the usual one."""
    readers = [reader for reader in entry.readers if reader.parser in subject.tool_parsers]
    for reader in readers:
        if _claims(reader, subject.family):
            return reader, "sure"
    for reader in readers:
        if any(token in subject.rendering.prompt for token in reader.tokens):
            return reader, "likely"
    if len(entry.readers) == 1 and readers:
        return readers[0], "likely" if entry.bare else "sure"
    return next((reader for reader in readers if reader.usual), None), "likely"


def _written(rendering: Rendering) -> CallFormat | None:
    """The format of the first rendered call that any format matches."""
    patterns = [(entry, fill(entry.signature)) for entry in checkpoint_facts().call]
    for call in rendering.calls:
        for entry, pattern in patterns:
            if pattern.match(call.turn.lstrip()) if entry.bare else pattern.search(call.whole):
                return entry
    return None


def _taught(rendering: Rendering) -> Sequence[CallFormat]:
    """Formats that the prompt tells the model to use."""
    return [
        entry
        for entry in checkpoint_facts().call
        if entry.taught and re.search(entry.taught, rendering.prompt) is not None
    ]


def _thinker(subject: _Subject) -> str | None:
    """The reasoning parser of the family, if the template shows that the model thinks at all."""
    rendering = subject.rendering
    for entry in checkpoint_facts().thought:
        pattern = fill(entry.signature)
        opens = bool(entry.opening) and re.search(entry.opening, rendering.prompt) is not None
        if opens or any(pattern.search(text) for text in rendering.thoughts):
            for reader in entry.readers:
                if reader.parser in subject.reasoning_parsers and _claims(reader, subject.family):
                    return reader.parser
    return None


def _without_template(checkpoint: Checkpoint) -> NoTemplate | None:
    """The kind of checkpoint whose conversation vLLM writes itself, whatever template it brings."""
    for entry in checkpoint_facts().no_template:
        if entry.model_type and entry.model_type == checkpoint.model_type:
            return entry
        if entry.file and entry.file in checkpoint.marks and not checkpoint.template:
            return entry
    return None


def _written_by_vllm(entry: NoTemplate, subject: _Subject) -> ParserGuess:
    if entry.tool_parser not in subject.tool_parsers:
        text = _("Its calls are read by {parsers}, which this vLLM does not have.")
        return _unknown(text.format(parsers=entry.tool_parser), entry.source)
    reasoning = entry.reasoning_parser if entry.reasoning_parser in subject.reasoning_parsers else None
    return ParserGuess(
        tool_parser=entry.tool_parser,
        reasoning_parser=reasoning,
        sureness="sure",
        why=_("vLLM writes the conversations of this kind of model itself, and {parser} reads them.").format(
            parser=entry.tool_parser
        ),
        source=entry.source,
        args=entry.args,
    )


def _trap(entry: CallFormat, family: str) -> Trap | None:
    for trap in checkpoint_facts().trap:
        if trap.call == entry.id and any(part in family for part in trap.families):
            return trap
    return None


def _claims(reader: FormatReader, family: str) -> bool:
    return any(part in family for part in reader.families)


def _family(checkpoint: Checkpoint) -> str:
    """Model type, architecture and names, small, without separators inside and with one between them."""
    named = checkpoint.config.get("_name_or_path")
    names = (
        checkpoint.model_type,
        checkpoint.architecture,
        checkpoint.name.rstrip("/").rpartition("/")[2],
        named.rstrip("/").rpartition("/")[2] if isinstance(named, str) else "",
    )
    return family_of(names)


def _known(kind: ParserKind, version: str | None) -> frozenset[str]:
    return frozenset(entry.name for entry in parsers(kind) if reached(version, entry.first_version))


def _no_format(rendering: Rendering) -> str:
    if rendering.problem:
        return rendering.problem
    if rendering.calls:
        return _("Its chat template writes calls in a form that no parser of vLLM is known to read.")
    return _("Its chat template says nothing about tool calls.")


def _unknown(why: str, source: str = "chat template") -> ParserGuess:
    return ParserGuess(tool_parser=None, reasoning_parser=None, sureness="unknown", why=why, source=source)
