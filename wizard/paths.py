"""Where our own things live, by the rules of the platform, and how they are written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import platformdirs

from wizard.errors import UsageError
from wizard.i18n import _
from wizard.text import one_line

APP = "vllm-opencode"


def home() -> Path:
    """This user's home folder. Raises UsageError where there is none, as for a bare number in a container."""
    return expanded("~")


def expanded(path: str | Path) -> Path:
    """The path with a leading ``~`` or ``~user`` resolved. Raises UsageError when nobody has such a home."""
    if not str(path).startswith("~"):
        return Path(path)
    try:
        folder = Path(path).expanduser()
    except RuntimeError as error:
        raise _homeless(str(path)) from error
    if not folder.is_absolute():
        raise _homeless(str(path))
    return folder


def _homeless(path: str) -> UsageError:
    if path != "~" and not path.startswith("~/"):
        return UsageError(
            _("{path} leads nowhere: there is no such user here.").format(path=one_line(path)),
            _("Write the path out."),
        )
    return UsageError(
        _("This user has no home folder: HOME is not set, and the system knows no other."),
        _("Set HOME to a folder you may write to, such as: export HOME=/data/me"),
    )


def config_dir() -> Path:
    """Our own settings; ``assets.d/*.toml`` in it lies over the bundled assets. Raises what ``home`` does."""
    return _ours(platformdirs.user_config_dir)


def state_dir() -> Path:
    """Receipts, runs and their logs. Raises what ``home`` does."""
    return _ours(platformdirs.user_state_dir)


def _ours(place: Callable[[str], str]) -> Path:
    try:
        folder = Path(place(APP))
    except RuntimeError as error:
        raise _homeless("~") from error
    if not folder.is_absolute():
        raise _homeless("~")
    return folder


def overlay_dir() -> Path:
    """The user's additions to the assets."""
    return config_dir() / "assets.d"


def runs_dir() -> Path:
    """One folder a run of vLLM: its log, its plan, its process record."""
    return state_dir() / "runs"


def receipt_path() -> Path:
    """The receipt of the last set-up: intent, results, undo list."""
    return state_dir() / "receipt.toml"


def scratch_dir() -> Path:
    """A new folder for a simulation: nothing of the real world is touched."""
    return Path(tempfile.mkdtemp(prefix=f"{APP}-rehearsal-"))


def write_atomic(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write beside, fsync, replace: the file is the old one or the new one, never half of either.

    Keeps the mode of a file that exists, else uses ``mode``. Raises UsageError when the folder cannot be
    written or the disk is full; nothing is left behind then.
    """
    handle, temporary = None, None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = path.stat().st_mode & 0o7777 if path.exists() else mode
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(kept)
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise UsageError(
            _("Cannot write {path}: {reason}.").format(path=path, reason=error.strerror or error),
            _("Free some space or choose another folder."),
        ) from error
