"""Plans, writes and takes back a change of opencode's configuration. Planning only reads."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from wizard.errors import RefusedError
from wizard.i18n import _
from wizard.opencode.advice import certificate_advice, proxy_advice, unknown_key_advice
from wizard.opencode.content import Content, content
from wizard.opencode.files import (
    Owner,
    backup_names,
    decoded,
    delete_file,
    permitted,
    read_bytes,
    replace_file,
    write_backup,
)
from wizard.opencode.jsonc import JsoncError, parse
from wizard.opencode.jsonc_edit import merge, remove
from wizard.opencode.keys import check_key_file
from wizard.opencode.locate import home, remote_configurations, start_folder
from wizard.opencode.mask import masked_diff
from wizard.opencode.overrides import is_read, overrides
from wizard.opencode.private import FOLDER_MARK, contacts, side_files, starter
from wizard.opencode.schema import check_schema
from wizard.opencode.types import Action, ConfigRequest, OpencodeChange, Scope, SideFile, Target
from wizard.opencode.why import reasons
from wizard.text import inert

_MODES: Mapping[Scope, int] = {"global": 0o600, "project": 0o644, "path": 0o600}
"""Of a new file. A project's file is shared with whoever shares the project."""


def plan_change(
    request: ConfigRequest,
    target: Target,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    day: datetime.date | None = None,
) -> OpencodeChange:
    """What ``write_change`` would do, with the difference to show. Nothing is touched.

    ``cwd`` is where opencode will be started, for files there that win over this one. Limits that would loop
    give the action ``refused``. Raises RefusedError for a file that cannot be read or parsed, with its line,
    and for a key file that is missing; UsageError for a request that cannot be written.
    """
    path = Path(target.path)
    before = read_bytes(path)
    text = "" if before is None else decoded(before, path)
    planned, edited = _planned(request, path, text)
    after = parse(edited)
    report = check_schema(after if isinstance(after, dict) else {}, planned.wanted())
    if report.errors:
        raise RefusedError(
            _("opencode would not accept this configuration: {problems}").format(
                problems=" ".join(report.errors)
            ),
            _("Nothing was written."),
        )
    start = start_folder(target.scope, target.path) or cwd
    variables = os.environ if environ is None else environ
    warnings = (
        *planned.warnings,
        *check_key_file(request.api_key_file, home(environ)),
        *_about_place(request, target, environ, start),
        *proxy_advice(request.base_url, variables),
        *certificate_advice(request.base_url, variables),
        *report.warnings,
        *unknown_key_advice(report.unknown, request.opencode_version),
    )
    change = OpencodeChange(
        path=target.path,
        action="updated" if before is not None else "created",
        diff=masked_diff(text, edited, target.path),
        before=before,
        after=edited.encode("utf-8"),
        backup=None if before is None else str(_free_backup(path, day)),
        provider=planned.provider,
        model=planned.model,
        limit=planned.limit,
        overridden_by=overrides(
            target.path, planned.wanted(), environ=environ, cwd=start_folder(target.scope, target.path) or cwd
        ),
        warnings=warnings,
        sets_globals=request.globals,
        scope=target.scope,
        owner=target.owner,
        settings=planned.settings,
        reasons=reasons(request, planned.settings),
    )
    if request.private:
        change = _private(change, after if isinstance(after, dict) else {}, target, request, environ)
    if request.limits.refused:
        refusals = tuple(warning.text for warning in request.limits.warnings if warning.refuses)
        return _untouched(change, "refused", (*refusals, *warnings))
    return _untouched(change, "unchanged", warnings) if change.after == before else change


def write_change(change: OpencodeChange, *, day: datetime.date | None = None) -> OpencodeChange:
    """Carry out a planned change: backup first, then the file in one step. The result says ``written``.

    A change that is ``unchanged`` or ``refused`` touches nothing. Raises RefusedError when the file is not
    what it was at planning, or cannot be written; file and folder are then as they were.
    """
    if not change.pending:
        return change
    laid: list[SideFile] = []
    try:
        for file in change.beside:
            laid.append(_laid(file, change.owner))
        if change.action != "unchanged":
            change = _replaced(change, day)
    except BaseException:
        for file in laid:
            if file.before is None:
                with contextlib.suppress(RefusedError):
                    _forget(Path(file.path))
        raise
    return msgspec.structs.replace(change, beside=tuple(laid))


def _replaced(change: OpencodeChange, day: datetime.date | None) -> OpencodeChange:
    """The change carried out in the configuration itself."""
    path = Path(change.path)
    if read_bytes(path) != change.before:
        raise RefusedError(
            _("{path} was changed by somebody else in the meantime.").format(path=path),
            _("Look at the difference again; nothing was written."),
        )
    permitted(path, change.owner)
    backup = None if change.before is None else write_backup(path, change.before, _day(day))
    try:
        replace_file(path, change.after, before=change.before, mode=_MODES[change.scope], owner=change.owner)
    except BaseException:
        if backup is not None:
            backup.unlink(missing_ok=True)
        raise
    return msgspec.structs.replace(change, backup=None if backup is None else str(backup), written=True)


def _laid(file: SideFile, owner: Owner | None) -> SideFile:
    """A file beside the configuration, written."""
    replace_file(Path(file.path), file.data, before=file.before, mode=file.mode, owner=owner)
    return msgspec.structs.replace(file, written=True)


def undo_change(path: str | Path, backup: str | Path | None, sha256_after: str) -> None:
    """Put the file back as the backup has it, or delete it when it was made by the wizard (no backup).

    Raises RefusedError when the file is not what the wizard wrote: the user changed it since, and it stays.
    """
    path = Path(path)
    now = read_bytes(path)
    if now is None:
        raise RefusedError(_("{path} is not there any more.").format(path=path))
    if hashlib.sha256(now).hexdigest() != sha256_after:
        raise RefusedError(
            _("{path} was changed since it was written; it stays as it is.").format(path=path),
            "" if backup is None else _("The file as it was before is {backup}").format(backup=backup),
        )
    if backup is None:
        _forget(Path(os.path.realpath(path)))
        return
    kept = read_bytes(Path(backup))
    if kept is None:
        raise RefusedError(_("The backup {backup} is not there any more.").format(backup=backup))
    replace_file(path, kept, before=now, mode=0o600, owner=None)
    delete_file(Path(backup))


def _forget(path: Path) -> None:
    """Remove a file the wizard made, and a folder that was made for it alone. Raises RefusedError."""
    delete_file(path)
    if path.name == FOLDER_MARK:
        # Somebody may have put more into it since.
        with contextlib.suppress(OSError):
            path.parent.rmdir()


def _planned(request: ConfigRequest, path: Path, text: str) -> tuple[Content, str]:
    """What to set in this text, and the text with it set. Raises RefusedError with the place of a mistake."""
    try:
        document = parse(text) if text.strip("\ufeff \t\r\n") else {}
        if not isinstance(document, dict):
            raise JsoncError(_("the configuration is not an object"), 1, 1)
        planned = content(request, document)
        return planned, edited_text(text, planned)
    except JsoncError as error:
        raise RefusedError(
            _("{path}, {place}.").format(path=path, place=error.message),
            _("Correct it there first; nothing was written."),
        ) from error


def edited_text(text: str, planned: Content) -> str:
    """The text with everything set, and nothing else changed."""
    if not text.strip("\ufeff \t\r\n"):
        text = "{}\n"
    for path in (*planned.moved, *planned.absent):
        text = remove(text, path)
    return merge(text, (), planned.settings)


def _private(
    change: OpencodeChange,
    after: Mapping[str, object],
    target: Target,
    request: ConfigRequest,
    environ: Mapping[str, str] | None,
) -> OpencodeChange:
    """The change with what keeps everything in the house besides its settings, and what that leaves open."""
    version, program = request.opencode_version, starter(environ)
    return msgspec.structs.replace(
        change,
        private=True,
        contacts=contacts(after, change.provider, target, version, environ),
        beside=side_files(target, version, environ),
        starter=None if program is None else str(program),
    )


def _untouched(change: OpencodeChange, action: Action, warnings: tuple[str, ...]) -> OpencodeChange:
    return msgspec.structs.replace(
        change, action=action, diff="", after=change.before or b"", backup=None, warnings=warnings
    )


def _about_place(
    request: ConfigRequest, target: Target, environ: Mapping[str, str] | None, start: Path | None
) -> tuple[str, ...]:
    """What follows from where the file is."""
    found = []
    if not is_read(target.path, environ=environ, cwd=start):
        found.append(
            _("opencode reads this file only when it is told to: OPENCODE_CONFIG={path}").format(
                path=target.path
            )
        )
    found += [
        _(
            "opencode is logged in at {url} and fetches settings there: those that no file sets are in force."
        ).format(url=inert(url))
        for url in remote_configurations(environ)
    ]
    if request.private and target.scope == "project":
        found.append(_("opencode obeys autoupdate only in its global file, not in a project's."))
    return tuple(found)


def _free_backup(path: Path, day: datetime.date | None) -> Path:
    return next(name for name in backup_names(path, _day(day)) if not name.exists())


def _day(day: datetime.date | None) -> str:
    return (day or datetime.date.today()).isoformat()
