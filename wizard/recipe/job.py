"""A step in a session of its own: it outlives the wizard, is found again, and is ended as a whole."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import msgspec

from wizard import paths
from wizard.errors import InstallError, UsageError
from wizard.i18n import _

_START_S = 20.0
_GRACE_S = 5.0
_POLL_S = 0.05
_PROC = Path("/proc")
_BOOT = _PROC / "sys" / "kernel" / "random" / "boot_id"
_STARTED_FIELD = 22
"""Of ``/proc/PID/stat``: when the process began, in ticks since the machine did."""

# `$$` leads the session; the last line of the log is there before the code is.
_WRAPPER = """\
echo "$$ $(cut -d' ' -f{field} /proc/$$/stat) $(cat {boot})" >{pid}.new && mv {pid}.new {pid}
bash {script} </dev/null >>{log} 2>&1
echo $? >{code}.new && mv {code}.new {code}
"""


class StepFiles(msgspec.Struct, frozen=True):
    """The files of one step in the folder of its recipe."""

    folder: Path
    name: str

    @property
    def script(self) -> Path:
        """The commands."""
        return self.folder / f"{self.name}.sh"

    @property
    def log(self) -> Path:
        """What they wrote, of every attempt."""
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> Path:
        """Number, start and boot of the process that leads the session."""
        return self.folder / f"{self.name}.pid"

    @property
    def code(self) -> Path:
        """The exit code; it is there once the commands ended by themselves."""
        return self.folder / f"{self.name}.exit"


def prepare(files: StepFiles, script: str) -> Path:
    """Write the scripts of a fresh attempt; returns the one that leads it. Raises UsageError (disk full)."""
    try:
        files.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for old in (files.code, files.pid):
            old.unlink(missing_ok=True)
        # Ours, before somebody else, as root, appends to it.
        files.log.touch(mode=0o600)
    except OSError as error:
        raise UsageError(
            _("Cannot write {path}: {reason}.").format(path=files.folder, reason=error.strerror or error),
            _("Free some space or choose another folder."),
        ) from error
    paths.write_atomic(files.script, script.encode(), 0o700)
    words = {
        "field": _STARTED_FIELD,
        "boot": _BOOT,
        **{part: shlex.quote(str(getattr(files, part))) for part in ("pid", "script", "log", "code")},
    }
    wrapper = files.folder / f"{files.name}.run"
    paths.write_atomic(wrapper, _WRAPPER.format(**words).encode(), 0o700)
    return wrapper


def spawn(files: StepFiles, wrapper: Path) -> None:
    """Start an attempt in a session of its own; returns once it can be found. Raises InstallError."""
    bash = shutil.which("bash")
    if bash is None:
        raise InstallError(_("There is no bash here."), _("Install it: the steps are written for it."))
    os.posix_spawn(
        bash,
        (bash, str(wrapper)),
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT),
    )
    _await_start(files)


def spawn_as_root(files: StepFiles, wrapper: Path) -> None:
    """As ``spawn``, with the right asked for on this terminal. Raises InstallError when it is refused."""
    code = subprocess.call(["sudo", "setsid", "--fork", "bash", str(wrapper)])
    if code != 0:
        raise InstallError(
            _("sudo did not start it (exit code {code}).").format(code=code),
            _("Ask whoever looks after this machine, or export the steps as a script for them."),
        )
    _await_start(files)


def run_in_terminal(files: StepFiles, deadline_s: float) -> int | None:
    """Run the commands with this terminal as theirs; the exit code, or None after ``deadline_s`` seconds."""
    try:
        return subprocess.call(["bash", str(files.script)], timeout=deadline_s)
    except subprocess.TimeoutExpired:
        return None


def is_running(files: StepFiles) -> bool:
    """Whether an attempt goes on: anything of its session, not a later process with its number."""
    leader = _leader(files)
    if leader is None or files.code.exists():
        return False
    with contextlib.suppress(ChildProcessError):
        os.waitpid(leader, os.WNOHANG)
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # It is there, and root's.
        pass
    return True


def exit_code(files: StepFiles) -> int | None:
    """How the commands ended; None: they go on, or were ended from outside."""
    try:
        return int(files.code.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def runs_for_s(files: StepFiles) -> float:
    """Seconds since the attempt began."""
    try:
        return time.time() - files.pid.stat().st_mtime
    except OSError:
        return 0.0


def stop(files: StepFiles) -> None:
    """End an attempt with everything that belongs to it. Raises InstallError for one that belongs to root."""
    leader = _leader(files)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if leader is None or not is_running(files):
            return
        try:
            os.killpg(leader, number)
        except ProcessLookupError:
            return
        except PermissionError:
            raise InstallError(
                _("It runs as root and cannot be stopped from here."),
                _("Stop it with: sudo kill -- -{pid}").format(pid=leader),
            ) from None
        ends = time.monotonic() + _GRACE_S
        while is_running(files) and time.monotonic() < ends:
            time.sleep(_POLL_S)


def _leader(files: StepFiles) -> int | None:
    """The number of the process that led the attempt, unless it belongs to another process by now."""
    try:
        number, started, boot = files.pid.read_text(encoding="ascii").split()
        if boot != _BOOT.read_text(encoding="ascii").strip():
            return None
    except (OSError, ValueError):
        return None
    try:
        now = (_PROC / number / "stat").read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        # The leader is gone; what it started may go on in its group.
        return int(number)
    return int(number) if now[_STARTED_FIELD - 1] == started else None


def _await_start(files: StepFiles) -> None:
    ends = time.monotonic() + _START_S
    while not files.pid.exists():
        if time.monotonic() > ends:
            raise InstallError(
                _("The step did not start."), _("Look into {folder}.").format(folder=files.folder)
            )
        time.sleep(_POLL_S)
