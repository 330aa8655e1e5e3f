"""Reads the bundled tables once, lays the user's own over them, and finds entries in them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from wizard.catalog.opencode import OpencodeFacts
from wizard.catalog.source import bundled, bundled_folder, overlay
from wizard.catalog.types import (
    GpuModel,
    LeakMarker,
    Model,
    Parser,
    ParserKind,
    Quantization,
    VllmFacts,
    WireFormat,
)
from wizard.errors import CorruptDataError, UnknownNameError, nearest_hint
from wizard.i18n import _
from wizard.paths import overlay_dir
from wizard.text import one_line

_Entry = TypeVar("_Entry")


class _Gpus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    gpu: tuple[GpuModel, ...]


class _Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: tuple[Model, ...]


class _Parsers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    parser: tuple[Parser, ...]
    format: tuple[WireFormat, ...]


class _Quantizations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    quantization: tuple[Quantization, ...]


@functools.cache
def gpus() -> tuple[GpuModel, ...]:
    """Every GPU the tables know. Raises CorruptDataError for a bad overlay, as do all loaders here."""
    return _merge(bundled("gpus.toml", _Gpus).gpu, overlay().gpu, lambda gpu: gpu.id)


@functools.cache
def models() -> tuple[Model, ...]:
    """Every model, best for agentic coding first."""
    for added in overlay().model:
        _check_formats(added)
    own = [entry for part in bundled_folder("models", _Models) for entry in part.model]
    known = {entry.id: entry for entry in (*own, *overlay().model)}
    merged = [_with_config(entry, known) for entry in known.values()]
    return tuple(sorted(merged, key=lambda model: model.rank))


@functools.cache
def parsers(kind: ParserKind) -> tuple[Parser, ...]:
    """Every tool-call or reasoning parser that vLLM registers."""
    merged = _merge(_parser_file().parser, overlay().parser, lambda parser: (parser.kind, parser.name))
    return tuple(parser for parser in merged if parser.kind == kind)


@functools.cache
def wire_formats() -> tuple[WireFormat, ...]:
    """Formats of tool calls that no registered parser reads."""
    return _parser_file().format


@functools.cache
def quantizations() -> tuple[Quantization, ...]:
    """Every weight format."""
    own = bundled("quantization.toml", _Quantizations).quantization
    return _merge(own, overlay().quantization, lambda quantization: quantization.id)


@functools.cache
def vllm_facts() -> VllmFacts:
    """Defaults, options and log lines of vLLM by version."""
    return bundled("vllm.toml", VllmFacts)


@functools.cache
def opencode_facts() -> OpencodeFacts:
    """Caps, base prompts and proven limits of opencode."""
    return bundled("opencode.toml", OpencodeFacts)


def forget() -> None:
    """Forget every table of this module."""
    for cached in (
        gpus,
        models,
        parsers,
        wire_formats,
        quantizations,
        vllm_facts,
        opencode_facts,
        leak_markers,
        _parser_file,
        _gpus_by_name,
        _models_by_name,
    ):
        cached.cache_clear()


def find_model(name: str) -> Model | None:
    """The model with this id, name, alias or checkpoint (hub id or its last part), ignoring case; or None."""
    return _models_by_name().get(name.strip().lower())


def model(name: str) -> Model:
    """As ``find_model``; raises UnknownNameError with the nearest known names."""
    found = find_model(name)
    if found is None:
        known = [known for entry in models() for known in (entry.id, entry.name, *entry.aliases)]
        raise UnknownNameError(_("model"), name, known)
    return found


@functools.cache
def _models_by_name() -> dict[str, Model]:
    names: dict[str, Model] = {}
    for entry in models():
        checkpoints = [variant.checkpoint for variant in entry.variants]
        tails = [checkpoint.rpartition("/")[2] for checkpoint in checkpoints]
        for known in (entry.id, entry.name, *entry.aliases, *checkpoints, *tails):
            names.setdefault(known.lower(), entry)
    return names


def quantization(name: str) -> Quantization:
    """The weight format with this id. Raises UnknownNameError."""
    found = next((entry for entry in quantizations() if entry.id == name.lower()), None)
    if found is None:
        raise UnknownNameError(_("weight format"), name, (entry.id for entry in quantizations()))
    return found


def parser(kind: ParserKind, name: str) -> Parser:
    """The parser of this kind and name. Raises UnknownNameError."""
    found = next((entry for entry in parsers(kind) if entry.name == name), None)
    if found is None:
        what = _("tool-call parser") if kind == "tool" else _("reasoning parser")
        raise UnknownNameError(what, name, (entry.name for entry in parsers(kind)))
    return found


def gpu_by_name(name: str, memory_mib: int | None = None) -> GpuModel | None:
    """The GPU that NVML calls ``name``, or None when the tables do not know it.

    Some names hide two memory sizes: the entry nearest to ``memory_mib`` (NVML's total) is taken, and without
    it the smaller one, so that nothing is promised that is not there.
    """
    candidates = _gpus_by_name().get(_normal_gpu_name(name), ())
    if not candidates:
        return None
    if memory_mib is None:
        return min(candidates, key=lambda gpu: gpu.memory_mib)
    return min(candidates, key=lambda gpu: abs(gpu.memory_mib - memory_mib))


def _normal_gpu_name(name: str) -> str:
    """NVML's name in lower case without what differs between drivers: maker, brand prefixes, a MIG suffix."""
    words = re.sub(r"\s+MIG\s.*$", "", " ".join(name.split()), flags=re.IGNORECASE)
    return re.sub(r"^(?:nvidia |tesla |geforce )+", "", words.lower())


@functools.cache
def leak_markers() -> tuple[LeakMarker, ...]:
    """Tags to look for in answered content, longest first, each with the parsers that would have read it."""
    readers: dict[str, LeakMarker] = {}
    for entry in (*parsers("tool"), *parsers("reasoning")):
        for marker in entry.markers:
            known = readers.get(marker, LeakMarker(marker=marker, kind=entry.kind, parsers=()))
            if known.kind == entry.kind:
                names = (*known.parsers, entry.name)
                readers[marker] = msgspec.structs.replace(known, parsers=names)
    for unread in wire_formats():
        for marker in unread.markers:
            readers[marker] = LeakMarker(marker=marker, kind="tool", parsers=(), format=unread.id)
    return tuple(sorted(readers.values(), key=lambda leak: (-len(leak.marker), leak.marker)))


def _with_config(entry: Model, known: Mapping[str, Model]) -> Model:
    """The model with the configuration it shares with another. Raises CorruptDataError for an unknown one."""
    if entry.config_of is None:
        return entry
    if entry.config_of not in known:
        raise CorruptDataError(
            _("{folder}: model {model} has the configuration of {name}, which no table describes.").format(
                folder=overlay_dir(), model=one_line(entry.id), name=one_line(entry.config_of)
            ),
            nearest_hint(entry.config_of, known),
        )
    return msgspec.structs.replace(entry, config={**known[entry.config_of].config, **entry.config})


def _check_formats(added: Model) -> None:
    """A model of the user must name known weight formats. Raises CorruptDataError."""
    known = [entry.id for entry in quantizations()]
    for variant in added.variants:
        if variant.quantization not in known:
            raise CorruptDataError(
                _("{folder}: model {model} has the unknown weight format {name}.").format(
                    folder=overlay_dir(), model=one_line(added.id), name=one_line(variant.quantization)
                ),
                nearest_hint(variant.quantization, known),
            )


@functools.cache
def _parser_file() -> _Parsers:
    return bundled("parsers.toml", _Parsers)


@functools.cache
def _gpus_by_name() -> dict[str, tuple[GpuModel, ...]]:
    found: dict[str, tuple[GpuModel, ...]] = {}
    for gpu in gpus():
        for name in {_normal_gpu_name(known) for known in gpu.nvml_names}:
            found[name] = (*found.get(name, ()), gpu)
    return found


def _merge(
    own: Iterable[_Entry], added: Iterable[_Entry], key: Callable[[_Entry], object]
) -> tuple[_Entry, ...]:
    """The bundled entries, those of equal key replaced, then the new ones."""
    return tuple({key(entry): entry for entry in (*own, *added)}.values())
