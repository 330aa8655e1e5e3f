"""Reads and replaces a user's file so that it is always the old one or the new one, never half of either."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from wizard.errors import RefusedError
from wizard.i18n import _

Owner = tuple[int, int]
"""User and group id."""

_LARGEST = 2 << 20
"""Bytes: no settings of a person are longer, and what is would be looked through for minutes."""


def read_bytes(path: Path) -> bytes | None:
    """The content of a regular file, None when there is none (a dangling link counts as none).

    Raises RefusedError for anything else: a device or a pipe would block, a folder is no file; and for a file
    that is too long to be a configuration.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise RefusedError(
                _("{path} is not a regular file.").format(path=path), _("Name the configuration file itself.")
            )
        if found.st_size > _LARGEST:
            raise RefusedError(
                _("{path} is too long for a configuration: {size} MiB.").format(
                    path=path, size=found.st_size >> 20
                ),
                _("Look at what is in it; nothing was written."),
            )
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RefusedError(
            _("Cannot read {path}: {reason}.").format(path=path, reason=error.strerror or error),
            _("Make it readable for you, or name another file."),
        ) from error


def read_text(path: Path) -> str | None:
    """The content as text, byte order mark included. Raises RefusedError, also when it is not UTF-8."""
    data = read_bytes(path)
    return None if data is None else decoded(data, path)


def decoded(data: bytes, path: Path) -> str:
    """The bytes of a file as text. Raises RefusedError with the line of the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RefusedError(
            _("{path}, line {line}: this is not UTF-8 text.").format(path=path, line=line),
            _("Save the file as UTF-8; opencode reads nothing else. Nothing was written."),
        ) from error


def replace_file(path: Path, data: bytes, *, before: bytes | None, mode: int, owner: Owner | None) -> None:
    """Put ``data`` in the place of ``before`` (None: the file must not exist), at once and durably.

    A symbolic link stays one and its target is replaced. Mode, owner, group and extended attributes of an
    existing file are kept; a new one gets ``mode`` and ``owner`` (None: whoever runs the wizard), and so do
    folders made for it. Raises RefusedError when the file is no longer ``before``, belongs to somebody else,
    is marked read-only, or cannot be written; nothing is left behind then. Of two wizards that write into one
    folder at once, the second is refused.
    """
    real = Path(os.path.realpath(path))
    kept = permitted(path, owner)
    with _writing(path), _folders(real.parent, owner), _alone_in(real.parent):
        handle, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.", suffix=".tmp")
        temporary = Path(name)
        try:
            _fill(handle, data)
            if kept is None:
                _own(temporary, owner)
                temporary.chmod(mode)
            else:
                _own(temporary, (kept.st_uid, kept.st_gid))
                temporary.chmod(stat.S_IMODE(kept.st_mode))
                _copy_attributes(real, temporary)
            if read_bytes(real) != before:
                raise RefusedError(
                    _("{path} was changed by somebody else in the meantime.").format(path=path),
                    _("Look at the difference again; nothing was written."),
                )
            temporary.replace(real)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(real.parent)


def permitted(path: Path, owner: Owner | None) -> os.stat_result | None:
    """The state of a file that may be replaced, None for one that may be made.

    Raises RefusedError for a file of another user than ``owner`` (None: whoever runs the wizard), for a new
    one in a folder that is not the caller's when run through sudo, and for one marked read-only.
    """
    real = Path(os.path.realpath(path))
    try:
        kept = real.stat()
    except FileNotFoundError:
        kept = None
    except OSError as error:
        _refuse(path, error)
    if kept is None and path.is_symlink() and not real.parent.is_dir():
        raise RefusedError(
            _("{path} points to {target}, and there is no such folder.").format(path=path, target=real),
            _("Remove the link, or make the folder it points into."),
        )
    if kept is not None and not kept.st_mode & 0o222:
        raise RefusedError(
            _("{path} is marked read-only.").format(path=path),
            _("If that is not meant: chmod u+w {path}").format(path=real),
        )
    if not hasattr(os, "geteuid"):
        return kept
    person = os.geteuid() if owner is None else owner[0]
    holder = (kept or nearest_existing(real).stat()).st_uid
    if holder != person and (owner is not None or (person != 0 and kept is not None)):
        raise RefusedError(
            _("{path} belongs to another user (id {holder}).").format(path=path, holder=holder),
            _("Run the wizard as that user, or name another file."),
        )
    return kept


def write_backup(path: Path, data: bytes, day: str) -> Path:
    """Keep ``data`` beside the file, under a name with the date that is still free.

    The copy gets the mode and the owner of the file. Raises RefusedError; nothing is left behind then.
    """
    kept = path.stat()
    for backup in backup_names(path, day):
        with _writing(backup):
            try:
                handle = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                continue
            try:
                _fill(handle, data)
                _own(backup, (kept.st_uid, kept.st_gid))
                backup.chmod(stat.S_IMODE(kept.st_mode))
            except BaseException:
                backup.unlink(missing_ok=True)
                raise
        return backup
    raise AssertionError("names never run out")


def backup_names(path: Path, day: str) -> Iterator[Path]:
    """``opencode.json.2026-11-30.bak``, then ``opencode.json.2026-11-30.2.bak`` and so on."""
    yield path.with_name(f"{path.name}.{day}.bak")
    number = 2
    while True:
        yield path.with_name(f"{path.name}.{day}.{number}.bak")
        number += 1


def delete_file(path: Path) -> None:
    """Remove a file that was made by the wizard. Raises RefusedError."""
    with _writing(path):
        path.unlink()


def nearest_existing(path: Path) -> Path:
    """The path itself or the closest folder above it that exists."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Errors of the system while writing ``path``, as RefusedError."""
    try:
        yield
    except OSError as error:
        _refuse(path, error)


def _refuse(path: Path, error: OSError) -> NoReturn:
    hint = _("Nothing was changed. Make the folder writable for you, or name another file.")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = _("Nothing was changed. Free some space and try again.")
    raise RefusedError(
        _("Cannot write {path}: {reason}.").format(path=path, reason=error.strerror or error), hint
    ) from error


@contextlib.contextmanager
def _folders(folder: Path, owner: Owner | None) -> Iterator[None]:
    """Make a folder and what is missing above it; takes the new ones away again when the body fails."""
    made: list[Path] = []
    try:
        for missing in reversed([place for place in (folder, *folder.parents) if not place.exists()]):
            missing.mkdir(mode=0o755)
            made.append(missing)
            _own(missing, owner)
        yield
    except BaseException:
        for place in reversed(made):
            with contextlib.suppress(OSError):
                place.rmdir()
        raise


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """No other wizard replaces a file of this folder meanwhile, where the file system can tell.

    Other programs know nothing of this lock: for them the content is compared at the last moment.
    """
    if sys.platform == "win32" or not os.access(folder, os.R_OK):
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RefusedError(
                _("Another wizard writes into {folder} right now.").format(folder=folder),
                _("Let it finish, then look at the difference again; nothing was written."),
            ) from error
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.EBADF):
                raise
        yield
    finally:
        os.close(handle)


def _fill(handle: int, data: bytes) -> None:
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _own(path: Path, owner: Owner | None) -> None:
    if owner is None or not hasattr(os, "chown"):
        return
    now = path.stat()
    if (now.st_uid, now.st_gid) != owner:
        os.chown(path, *owner)


def _copy_attributes(source: Path, target: Path) -> None:
    """Access lists and labels, where the file system has them."""
    if not hasattr(os, "listxattr"):
        return
    with contextlib.suppress(OSError):
        for name in os.listxattr(source):
            os.setxattr(target, name, os.getxattr(source, name))


def _sync_folder(folder: Path) -> None:
    """Make the new name durable; not every file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
