"""Kills a write of opencode's configuration at every line and every call it makes, one child for each.

Run as a script with a folder; prints a JSON line for each kill: where it was, what lies in the folder then.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from wizard.budget import limits
from wizard.opencode import ConfigRequest, OpencodeChange, plan_change, target_file, write_change

WATCHED = ("wizard/opencode/write.py", "wizard/opencode/files.py")
DAY = datetime.date(2026, 11, 30)
OLD = '{\n  // mine\n  "username": "Zoë",\n}\n'
REQUEST = ConfigRequest(
    provider_name="Local vLLM",
    base_url="http://127.0.0.1:8000/v1",
    model_key="qwen3-coder",
    model_name="Qwen3 Coder",
    limits=limits(65536),
)


class Killer:
    """Ends this process without a word at the n-th moment of the watched modules."""

    def __init__(self, moment: int) -> None:
        self.left = moment

    def lines(self, frame: FrameType, event: str, _argument: Any) -> Any:
        """A trace function: each line that is about to run counts."""
        if not frame.f_code.co_filename.endswith(WATCHED):
            return None
        if event == "line":
            self.count()
        return self.lines

    def calls(self, frame: FrameType, event: str, _argument: Any) -> None:
        """A profile function: each call of the system or of the library counts."""
        if event == "c_call" and frame.f_code.co_filename.endswith(WATCHED):
            self.count()

    def count(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def lay_out(home: Path, old: str | None) -> None:
    """A home with or without a configuration in it."""
    shutil.rmtree(home, ignore_errors=True)
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    if old is not None:
        (folder / "opencode.json").write_text(old)


def killed_at(change: OpencodeChange, moment: int) -> bool:
    """Write in a child that dies at this moment; False: it was done before."""
    child = os.fork()
    if child == 0:
        killer = Killer(moment)
        sys.setprofile(killer.calls)
        sys.settrace(killer.lines)
        write_change(change, day=DAY)
        os._exit(0)
    _pid, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) == signal.SIGKILL
    return os.waitstatus_to_exitcode(status) != 0


def main(home: Path) -> None:
    """Every moment of changing a file and of making a new one."""
    environ = {"HOME": str(home)}
    for old in (OLD, None):
        lay_out(home, old)
        change = plan_change(REQUEST, target_file(environ=environ), environ=environ, cwd=home, day=DAY)
        moment, died = 0, True
        while died:
            moment += 1
            lay_out(home, old)
            died = killed_at(change, moment)
            left = {path.name: path.read_text() for path in Path(change.path).parent.iterdir()}
            sys.stdout.write(
                json.dumps({"old": old, "new": change.after.decode(), "died": died, "left": left}) + "\n"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
