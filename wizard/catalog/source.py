"""Decodes the TOML tables: strictly, and with errors that name the file, the place in it and the way out."""

from __future__ import annotations

import functools
import re
import tomllib
import typing
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

import msgspec

from wizard import paths
from wizard.catalog.types import GpuModel, Model, Parser, Quantization, Rule
from wizard.errors import CorruptDataError, UsageError, nearest_hint
from wizard.i18n import _
from wizard.text import one_line

_Table = typing.TypeVar("_Table", bound=msgspec.Struct)

_UNKNOWN_KEY = re.compile(r"unknown field `(?P<key>[^`]+)`")
_ENTRY = re.compile(r"at `\$\.(?P<table>\w+)\[(?P<number>\d+)\]")
_PLACE = re.compile(r"^(?P<reason>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)


class Overlay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file of the user may add to the tables, or replace in them."""

    gpu: tuple[GpuModel, ...] = ()
    model: tuple[Model, ...] = ()
    parser: tuple[Parser, ...] = ()
    quantization: tuple[Quantization, ...] = ()
    rule: tuple[Rule, ...] = ()


def bundled(name: str, table: type[_Table]) -> _Table:
    """A file of ``assets/`` as ``table``. Raises CorruptDataError for a damaged installation."""
    return typing.cast(_Table, _bundled(name, table))


@functools.cache
def _bundled(name: str, table: type[msgspec.Struct]) -> msgspec.Struct:
    """Read once: only the user's files change while the wizard runs."""
    content = (resources.files("assets") / name).read_text(encoding="utf-8")
    return decode(content, table, name)


def bundled_folder(name: str, table: type[_Table]) -> tuple[_Table, ...]:
    """Every ``*.toml`` of a folder of ``assets/``, by name. Raises as ``bundled`` does."""
    names = sorted(entry.name for entry in (resources.files("assets") / name).iterdir())
    return tuple(bundled(f"{name}/{file}", table) for file in names if file.endswith(".toml"))


@functools.cache
def overlay() -> Overlay:
    """All ``*.toml`` of the overlay folder in the order of their names; later files win.

    An entry without ``source`` gets its file as source. Raises CorruptDataError for an unusable file.
    """
    whole = Overlay()
    try:
        folder = paths.overlay_dir()
    except UsageError:
        # Who has no home has added nothing.
        return whole
    for file in _overlay_files(folder):
        content = _read(file)
        part = decode(content, Overlay, str(file), default_source=str(file))
        whole = Overlay(
            gpu=whole.gpu + part.gpu,
            model=whole.model + part.model,
            parser=whole.parser + part.parser,
            quantization=whole.quantization + part.quantization,
            rule=whole.rule + part.rule,
        )
    return whole


def decode(content: str, table: type[_Table], file: str, default_source: str | None = None) -> _Table:
    """``content`` as ``table``; ``file`` is what an error calls it. Raises CorruptDataError."""
    try:
        tree = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise CorruptDataError(
            _("{file} is not valid TOML: {reason}.").format(file=file, reason=error),
            _("Correct the file or move it away."),
        ) from error
    _fill_sources(tree, default_source)
    try:
        return msgspec.convert(tree, table)
    except msgspec.ValidationError as error:
        raise _corrupt(str(error), table, _with_entry(file, str(error), tree)) from error


def _with_entry(file: str, message: str, tree: dict[str, object]) -> str:
    """The file, and the id of the entry the error is in, where it has one."""
    found = _ENTRY.search(message)
    if found is None:
        return file
    entries = [*_tables(tree.get(found["table"]))]
    number = int(found["number"])
    name = entries[number].get("id") if number < len(entries) else None
    if not isinstance(name, str):
        return file
    return _("{file}, {table} {name}").format(file=file, table=found["table"], name=one_line(name))


def _read(file: Path) -> str:
    try:
        # A pipe would be waited for without end.
        if file.exists() and not file.is_file():
            raise CorruptDataError(
                _("{path} is not a regular file.").format(path=file), _("Correct the file or move it away.")
            )
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CorruptDataError(
            _("Cannot read {file}: {reason}.").format(file=file, reason=error),
            _("Correct the file or move it away."),
        ) from error


def _overlay_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.toml")) if folder.is_dir() else []


def _fill_sources(tree: dict[str, object], source: str | None) -> None:
    """Give every entry that names none ``source``, if any, and every variant the source of its model."""
    for entries in tree.values():
        for entry in _tables(entries):
            if source is not None:
                entry.setdefault("source", source)
            for variant in _tables(entry.get("variants")) if "source" in entry else ():
                variant.setdefault("source", entry["source"])


def _tables(value: object) -> Iterable[dict[str, object]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _corrupt(message: str, table: type[msgspec.Struct], file: str) -> CorruptDataError:
    """msgspec's message as one of ours: file, key path, reason, and the nearest key that would be valid."""
    found = _PLACE.match(message)
    reason, path = (found["reason"], found["path"] or "") if found else (message, "")
    unknown = _UNKNOWN_KEY.search(reason)
    if unknown:
        place = one_line(f"{path}.{unknown['key']}".lstrip("."))
        return CorruptDataError(
            _("{file}: unknown key {key}.").format(file=file, key=place),
            nearest_hint(unknown["key"], _fields_at(table, path)),
        )
    return CorruptDataError(
        _("{file}: {reason} at {key}.").format(file=file, reason=one_line(reason), key=path or _("the top")),
        _("Correct the file or move it away."),
    )


def _fields_at(table: type[msgspec.Struct], path: str) -> tuple[str, ...]:
    """The keys that are valid in the table found by following ``path`` (``model[0].variants[1]``)."""
    for name in re.findall(r"\w+(?=[\[.]|$)", re.sub(r"\[[^\]]*\]", "", path)):
        table = _struct_in(typing.get_type_hints(table)[name])
    return tuple(field.encode_name for field in msgspec.structs.fields(table))


def _struct_in(hint: object) -> type[msgspec.Struct]:
    """The struct class inside ``tuple[X, ...]`` or ``X | None``."""
    candidates = typing.get_args(hint) or (hint,)
    return next(
        entry for entry in candidates if isinstance(entry, type) and issubclass(entry, msgspec.Struct)
    )
