"""Reads the small files of a checkpoint; whatever lies in the folder can do no harm."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from wizard.checkpoint.types import Place
from wizard.errors import CorruptDataError, UsageError
from wizard.i18n import _
from wizard.text import one_line

CONFIG = "config.json"
MODELOPT = "hf_quant_config.json"
INDEX = "model.safetensors.index.json"
TOKENIZER = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
TEMPLATE_JSON = "chat_template.json"
TOOL_TEMPLATE = "additional_chat_templates/tool_use.jinja"
SMALL = (CONFIG, MODELOPT, INDEX, TOKENIZER, TEMPLATE, TEMPLATE_JSON, TOOL_TEMPLATE)
"""What is read of a checkpoint, wherever it is."""

LARGEST = 64 * 2**20
"""Bytes of the largest file that is read: an index of ten thousand shards is a tenth of it."""

_WEIGHTS = (".safetensors", ".bin", ".gguf")
_MOST_FILES = 200_000
_LONGEST_NUMBER = 15


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint's small files in ``folder`` and the names and sizes, in bytes, of all its files."""

    name: str
    place: Place
    folder: Path
    sizes: Mapping[str, int]
    parameters: int | None = None
    notes: tuple[str, ...] = ()

    def table(self, name: str) -> dict[str, object]:
        """A JSON file; empty when there is none. Raises CorruptDataError for one that is damaged."""
        text = self.text(name)
        if not text:
            return {}
        shown = one_line(f"{self.name}/{name}")
        try:
            table = json.loads(text, parse_int=_whole)
        except (ValueError, RecursionError) as error:
            raise CorruptDataError(
                _("{file} is not valid JSON: {reason}.").format(file=shown, reason=one_line(str(error))),
                _("Was it downloaded whole? Fetch it again."),
            ) from error
        if not isinstance(table, dict):
            raise CorruptDataError(_("{file} does not hold a JSON object.").format(file=shown))
        return table

    def text(self, name: str) -> str:
        """A small text file; empty when there is none.

        Raises CorruptDataError for one that is no regular file, too large or no text.
        """
        path = self.folder / name
        shown = one_line(f"{self.name}/{name}")
        try:
            found = path.stat()
        except OSError:
            return ""
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            raise CorruptDataError(
                _("{file} is too large for what it should be, or no file.").format(file=shown),
                _("Is this the folder of a checkpoint?"),
            )
        try:
            return path.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(
                _("Cannot read {file}: {reason}.").format(file=shown, reason=error.strerror or error)
            ) from error
        except UnicodeDecodeError as error:
            raise CorruptDataError(
                _("{file} is not text in UTF-8.").format(file=shown),
                _("Was it downloaded whole? Fetch it again."),
            ) from error

    def weights(self) -> dict[str, int]:
        """Names and bytes of the weight files vLLM would load, of the best kind there is."""
        for ending in _WEIGHTS:
            own = {name: size for name, size in self.sizes.items() if "/" not in name}
            found = {name: size for name, size in own.items() if name.endswith(ending)}
            # Some makers add the same weights once more in a layout of their own.
            shards = {name: size for name, size in found.items() if not name.startswith("consolidated")}
            if found:
                return shards or found
        return {}


def folder_files(name: str, place: Place, folder: Path, notes: tuple[str, ...] = ()) -> Files:
    """The files of a local folder. Raises UsageError when it cannot be listed or holds no config.json."""
    sizes: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(sizes) >= _MOST_FILES:
                    break
                try:
                    sizes[entry.name] = entry.stat().st_size
                except OSError:
                    continue
    except OSError as error:
        raise UsageError(
            _("Cannot read {file}: {reason}.").format(file=one_line(str(folder)), reason=error.strerror),
            _("A checkpoint is a folder that holds config.json and the weights."),
        ) from error
    if CONFIG not in sizes:
        raise _no_checkpoint(one_line(str(folder)), sizes)
    return Files(name=name, place=place, folder=folder, sizes=sizes, notes=notes)


def _no_checkpoint(folder: str, names: Collection[str]) -> UsageError:
    """What a folder without config.json is instead."""
    if "adapter_config.json" in names:
        return UsageError(
            _("{folder} holds an adapter (LoRA), which is no model by itself.").format(folder=folder),
            _(
                "Name the model it was made for, and the adapter in [serve] extra_args: "
                "--enable-lora, --lora-modules NAME=FOLDER."
            ),
        )
    if any(name.endswith(".gguf") for name in names):
        return UsageError(
            _("{folder} holds GGUF files and no config.json.").format(folder=folder),
            _("vLLM serves the layout of Hugging Face transformers: take the model's safetensors files."),
        )
    return UsageError(
        _("{folder} holds no config.json.").format(folder=folder),
        _("A checkpoint is a folder that holds config.json and the weights."),
    )


def _whole(digits: str) -> float:
    """No count of a checkpoint is this long; arithmetic with such a number would not end well."""
    return int(digits) if len(digits) <= _LONGEST_NUMBER else float(digits)
