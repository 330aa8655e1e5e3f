"""What to do where no parser fits: another model, a plugin, a template, another vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wizard.catalog import CallFormat, Model, WireFormat, models, parsers
from wizard.i18n import _
from wizard.smoke.finder.types import Advice


def advise(
    found: CallFormat | WireFormat | None,
    *,
    called: bool,
    entry: Model | None,
    missing: Sequence[str] = (),
) -> tuple[Advice, ...]:
    """Ways on, the surest first.

    ``called``: the text holds a call at all; ``entry`` is what the catalogue knows of the model; ``missing``
    are parsers that read the format and that this vLLM does not have.
    """
    return tuple(_ways(found, called, entry, missing))


def _ways(
    found: CallFormat | WireFormat | None, called: bool, entry: Model | None, missing: Sequence[str]
) -> Iterator[Advice]:
    if isinstance(found, WireFormat):
        yield from _unread(found)
    if missing:
        yield _newer(missing)
    if entry is not None and entry.chat_template:
        yield _template(entry)
    if entry is not None and entry.tool_parser_plugin:
        yield Advice(
            id="parser-plugin",
            title=_("The parser in its own checkpoint"),
            detail=_("{name} brings its parser as a file: {file}.").format(
                name=entry.name, file=entry.tool_parser_plugin
            ),
            set={"--tool-parser-plugin": entry.tool_parser_plugin},
            source=entry.source,
        )
    if not called:
        yield Advice(
            id="no-call",
            title=_("A model that calls tools"),
            detail=_("The model answered in words: no parser finds a call where there is none."),
        )
    elif found is None:
        yield Advice(
            id="swap-model",
            title=_("Another model"),
            detail=_("No table knows this way to write a call. Choose a model whose parser is known."),
        )


def _unread(found: WireFormat) -> Iterator[Advice]:
    known = {entry.id: entry for entry in models()}
    successors = [known[id] for id in found.successors if id in known]
    names = ", ".join(entry.name for entry in successors)
    detail = _("No parser of vLLM reads its calls.")
    if names:
        detail = _("No parser of vLLM reads its calls. Read and made for the same work: {names}.")
    yield Advice(
        id="swap-model",
        title=_("Another model"),
        detail=detail.format(names=names),
        models=tuple(entry.id for entry in successors),
        source=found.source,
    )
    if found.plugin is None:
        return
    plugin = found.plugin
    options = {"--tool-parser-plugin": plugin.file, "--tool-call-parser": plugin.parser}
    yield Advice(
        id="parser-plugin",
        title=_("A parser of the community"),
        detail=_(
            "{address} adds the parser {parser} to vLLM (its authors tried it with {tested}). "
            "Read the file before you use it: it runs inside the server."
        ).format(address=plugin.address, parser=plugin.parser, tested=plugin.tested),
        set=options,
        source=plugin.source,
    )
    if plugin.chat_template:
        yield Advice(
            id="chat-template",
            title=_("The template that belongs to it"),
            detail=_("With {file} from the same place the model keeps to this form more often.").format(
                file=plugin.chat_template
            ),
            set={**options, "--chat-template": plugin.chat_template},
            source=plugin.source,
        )


def _newer(missing: Sequence[str]) -> Advice:
    first = next((entry for entry in parsers("tool") if entry.name == missing[0]), None)
    return Advice(
        id="newer-vllm",
        title=_("A newer vLLM"),
        detail=_("Its calls are read by {parser}, which vLLM has from {version} on.").format(
            parser=missing[0], version=first.first_version if first else "?"
        ),
        source=first.source if first else "",
    )


def _template(entry: Model) -> Advice:
    return Advice(
        id="chat-template",
        title=_("The chat template that fits"),
        detail=_("The calls of {name} are only read with {file} from the examples folder of vLLM.").format(
            name=entry.name, file=entry.chat_template
        ),
        set={"--chat-template": entry.chat_template},
        source=entry.source,
    )
