"""Machines on disk: the recorded ones that come with the wizard, and files of the user."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import msgspec

from wizard.errors import CorruptDataError, UnknownNameError, UsageError
from wizard.i18n import _
from wizard.machine.build import machine_from
from wizard.machine.capability import normal_capability
from wizard.machine.types import Machine, MachineFile, Reading
from wizard.text import one_line

_LARGEST_FILE = 4 * 1024 * 1024
_PLACE = re.compile(r"^(?P<reason>.*?)(?: - at `\$\.?(?P<key>[^`]*)`)?$", re.DOTALL)


def machine_names() -> tuple[str, ...]:
    """The names of the machines that come with the wizard, sorted."""
    files = (resources.files("assets") / "machines").iterdir()
    return tuple(sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json")))


def load_machine(name_or_path: str) -> Machine:
    """The machine of a bundled name, or of a file: a machine file, or what ``detect --json`` printed.

    Raises UnknownNameError for a name nobody knows, UsageError for a file that cannot be opened and
    CorruptDataError, with the place, for one that cannot be used.
    """
    if name_or_path in machine_names():
        bundled = resources.files("assets") / "machines" / f"{name_or_path}.json"
        return _machine(bundled.read_bytes(), f"{name_or_path}.json", name_or_path)
    path = Path(name_or_path)
    if not _exists(path):
        if path.suffix == ".json" or len(path.parts) > 1:
            raise UsageError(
                _("There is no machine file {path}.").format(path=one_line(name_or_path)),
                _("Give a path to a file, or one of: {names}.").format(names=", ".join(machine_names())),
            )
        raise UnknownNameError(_("machine"), one_line(name_or_path), machine_names())
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(
            _("Cannot read the machine file {path}: {reason}.").format(
                path=one_line(name_or_path), reason=error.strerror or error
            ),
            _("Check the path and its permissions."),
        ) from error
    return _machine(content, one_line(name_or_path), one_line(name_or_path))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def decode_machine_file(content: bytes, file: str) -> MachineFile:
    """``content`` as a machine file; ``file`` is what an error calls it. Raises CorruptDataError."""
    if len(content) > _LARGEST_FILE:
        raise _corrupt(file, _("it is too large for a machine file"))
    try:
        recorded = msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"), type=MachineFile)
    except msgspec.ValidationError as error:
        found = _PLACE.match(str(error))
        reason, key = (found["reason"], found["key"]) if found else (str(error), None)
        raise _corrupt(file, reason, key or _("the top")) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise _corrupt(file, _syntax_error(content) or str(error)) from error
    _check_gpus(recorded.machine, file)
    return recorded


def _machine(content: bytes, file: str, simulated: str) -> Machine:
    return machine_from(decode_machine_file(content, file).machine, simulated)


def _check_gpus(reading: Reading, file: str) -> None:
    """What the types cannot say: capabilities are capabilities, and no index comes twice."""
    seen: set[int] = set()
    for position, gpu in enumerate(reading.gpus):
        key = f"machine.gpus[{position}]"
        if gpu.index in seen:
            raise _corrupt(file, _("index {index} is used twice").format(index=gpu.index), f"{key}.index")
        seen.add(gpu.index)
        try:
            if gpu.compute_capability:
                normal_capability(gpu.compute_capability)
        except ValueError as error:
            reason = _("{value} is not a compute capability such as 12.1").format(value=one_line(str(error)))
            raise _corrupt(file, reason, f"{key}.compute_capability") from error


def _syntax_error(content: bytes) -> str:
    """Reason with line and column, which the fast decoder does not give; empty when only that one objects."""
    try:
        json.loads(content)
    except json.JSONDecodeError as error:
        return _("not valid JSON, line {line}, column {column}: {reason}").format(
            line=error.lineno, column=error.colno, reason=error.msg
        )
    except UnicodeDecodeError:
        return _("not text in UTF-8")
    except RecursionError:
        return _("not valid JSON: nested too deeply")
    return ""


def _corrupt(file: str, reason: str, key: str | None = None) -> CorruptDataError:
    if key is None:
        message = _("The machine file {file} cannot be used: {reason}.").format(file=file, reason=reason)
    else:
        message = _("The machine file {file} cannot be used: {reason} (at {key}).").format(
            file=file, reason=one_line(reason), key=one_line(key)
        )
    return CorruptDataError(message, _("Correct the file, or save the machine again."))
