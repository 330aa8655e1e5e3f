"""The parser finder: which parsers of the installed vLLM read what a model really writes."""

from wizard.smoke.finder.candidates import Setting
from wizard.smoke.finder.raw import raw_texts
from wizard.smoke.finder.search import Subject, asked_call, search_parsers
from wizard.smoke.finder.types import Advice, Asked, Candidate, FoundCall, ParserSearch, RawText

__all__ = [
    "Advice",
    "Asked",
    "Candidate",
    "FoundCall",
    "ParserSearch",
    "RawText",
    "Setting",
    "Subject",
    "asked_call",
    "raw_texts",
    "search_parsers",
]
