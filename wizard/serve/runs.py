"""A run on disk: one folder with the plan, the process record, the log and how it ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypeVar

import msgspec

from wizard.errors import CorruptDataError, UsageError
from wizard.i18n import _
from wizard.paths import write_atomic
from wizard.plan import LaunchPlan
from wizard.serve.types import End, Run
from wizard.text import covered_env

_RUN_FILE = "run.json"
_PLAN_FILE = "plan.json"
_END_FILE = "end.json"
LOG_FILE = "vllm.log"

_Record = TypeVar("_Record")


def new_folder(runs_dir: Path, plan_id: str) -> Path:
    """A new folder whose name sorts by time. Raises UsageError when it cannot be made."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    for count in range(1, 1000):
        folder = runs_dir / (f"{stamp}-{plan_id}" if count == 1 else f"{stamp}-{plan_id}-{count}")
        try:
            runs_dir.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(
                _("Cannot make the folder {path}: {reason}.").format(path=folder, reason=error.strerror),
                _("Free some space or choose another folder."),
            ) from error
        return folder
    raise UsageError(_("Too many starts in {path} within one second.").format(path=runs_dir))


def save_plan(folder: Path, plan: LaunchPlan) -> None:
    """Write the plan of a run into its folder; secrets of its environment are not kept. Raises UsageError."""
    kept = msgspec.structs.replace(plan, base_env=covered_env(plan.base_env))
    write_atomic(folder / _PLAN_FILE, msgspec.json.encode(kept))


def save_run(run: Run) -> None:
    """Write the process record of a run. Raises UsageError."""
    write_atomic(Path(run.folder) / _RUN_FILE, msgspec.json.encode(run))


def load_run(path: Path) -> Run:
    """The run in a folder, or of a ``run.json``. Raises UsageError, or CorruptDataError."""
    return _read(path / _RUN_FILE if path.is_dir() else path, Run)


def load_plan(run: Run) -> LaunchPlan:
    """The plan a run was started with. Raises UsageError, or CorruptDataError."""
    return _read(Path(run.folder) / _PLAN_FILE, LaunchPlan)


def latest_run(runs_dir: Path) -> Run | None:
    """The newest run that can be read, or None. Raises UsageError when the folder of runs cannot be."""
    try:
        records = sorted(runs_dir.glob(f"*/{_RUN_FILE}"), reverse=True)
    except OSError as error:
        raise UsageError(
            _("Cannot read {path}: {reason}.").format(path=runs_dir, reason=error.strerror),
            _("Run this as the user who started vLLM."),
        ) from error
    for folder in records:
        try:
            return load_run(folder)
        except UsageError:
            continue
    return None


def end_of(run: Run) -> End:
    """What is noted about the end of a run; all unknown when nothing is."""
    try:
        return _read(Path(run.folder) / _END_FILE, End)
    except UsageError:
        return End()


def note_end(run: Run, end: End) -> None:
    """Note how a run ended, for whoever asks later. Raises UsageError."""
    write_atomic(Path(run.folder) / _END_FILE, msgspec.json.encode(end))


def _read(path: Path, kind: type[_Record]) -> _Record:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise UsageError(
            _("Cannot read {path}: {reason}.").format(path=path, reason=error.strerror),
            _("Give the folder of a run that exists."),
        ) from error
    except msgspec.MsgspecError as error:
        raise CorruptDataError(
            _("{path} is damaged: {reason}.").format(path=path, reason=error),
            _("Move the folder away; the run it describes can no longer be followed."),
        ) from error
