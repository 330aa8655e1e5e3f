"""What the user's own instructions and tool servers add to opencode's first prompt, estimated from files.

opencode puts instruction files into every prompt and describes every tool of every MCP server in it. Here
they are only read, nothing is started; ``wizard.opencode.measure`` lets opencode itself say what it sends.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import msgspec

from wizard.catalog import opencode_facts
from wizard.errors import RefusedError
from wizard.opencode.files import read_text
from wizard.opencode.jsonc import JsoncError, parse
from wizard.opencode.locate import GLOBAL_NAMES, global_dir, home
from wizard.text import inert

_LARGEST = 1 << 20
"""Bytes of a file that is still taken for instructions."""
_MOST_FILES = 500
"""Files of one pattern: a folder of sources is no instruction."""


class ExtraPart(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that makes the first prompt longer; ``tokens`` is an estimate."""

    name: str
    tokens: int


def extra_prompt(
    *, path: Path | None = None, project: Path | None = None, environ: Mapping[str, str] | None = None
) -> tuple[ExtraPart, ...]:
    """Instruction files and MCP servers that opencode takes into account in ``project``, or anywhere.

    ``path`` is a configuration file of another place. What cannot be read counts nothing.
    """
    folders = [global_dir(environ), *([project] if project else [])]
    read = [folder / name for folder in folders for name in GLOBAL_NAMES] + ([path] if path else [])
    documents = {file: _document(file) for file in read}
    files = [file for folder in folders if (file := _instructions(folder)) is not None]
    for origin, document in documents.items():
        files += _listed(document, origin.parent, environ)
    found = [_file_part(file) for file in dict.fromkeys(files)]
    return (*(part for part in found if part.tokens), *_servers(documents.values()))


def tokens_of(text_bytes: int) -> int:
    """About how many tokens a text or a list of tools of this size has."""
    return round(text_bytes / opencode_facts().bytes_per_token)


def _document(file: Path) -> Mapping[str, object]:
    try:
        text = read_text(file)
        document = parse(text) if text is not None else {}
    except (JsoncError, RefusedError):
        return {}
    return document if isinstance(document, Mapping) else {}


def _instructions(folder: Path) -> Path | None:
    """The instruction file of a folder: the first of the names opencode looks for."""
    names = opencode_facts().instruction_files
    return next((file for name in names if (file := folder / name).is_file()), None)


def _listed(
    document: Mapping[str, object], folder: Path, environ: Mapping[str, str] | None
) -> Iterator[Path]:
    """Files named under ``instructions``, which may be patterns; addresses are not fetched."""
    listed = document.get("instructions")
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, str) or "://" in entry:
            continue
        pattern = home(environ) / entry[2:] if entry.startswith("~/") else folder / entry
        found = islice(glob.iglob(str(pattern), recursive=True), _MOST_FILES)  # noqa: PTH207 - may be absolute
        yield from map(Path, sorted(found))


def _file_part(file: Path) -> ExtraPart:
    try:
        size = file.stat().st_size if file.is_file() else 0
    except OSError:
        size = 0
    return ExtraPart(name=inert(file.name), tokens=tokens_of(size) if size <= _LARGEST else 0)


def _servers(documents: Iterable[Mapping[str, object]]) -> Iterator[ExtraPart]:
    """MCP servers that are not switched off; a later document lies over an earlier one."""
    servers: dict[str, object] = {}
    for document in documents:
        listed = document.get("mcp")
        servers |= listed if isinstance(listed, Mapping) else {}
    for name, server in servers.items():
        if isinstance(server, Mapping) and server.get("enabled", True) is not False:
            yield ExtraPart(name=inert(f"MCP {name}"), tokens=opencode_facts().server_of_tools_tokens)
