"""The front door: the only part of the core that prints, and the only one that knows screens exist."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

from wizard import __version__
from wizard.cli import options, output
from wizard.errors import WizardError
from wizard.i18n import _
from wizard.text import one_line

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code (see the contract); never a traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    output.prepare()
    code = 0
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of a pipe went away (`… | head`): not our failure, and nobody is left to tell.
        _drop_stdout()
    except OSError as error:
        _drop_stdout()
        sys.stderr.write(_("Cannot write the output: {reason}.").format(reason=error.strerror) + "\n")
        return 3
    return code


def _run(words: list[str]) -> int:
    try:
        common, rest = options.split(words)
        options.use(common)
        if rest == ["--version"]:
            sys.stdout.write(f"vllm-opencode {__version__}\n")
            return 0
        from wizard.cli.commands import run

        return run(rest)
    except WizardError as error:
        output.complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write(_("Interrupted.") + "\n")
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO) and error.filename is None:
            raise
        return _report_bug(error)


def _drop_stdout() -> None:
    """Point stdout to nowhere, so that the interpreter's own last flush cannot fail either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _report_bug(error: Exception) -> int:
    """Keep the traceback in a file and tell the user where it is."""
    import traceback

    from wizard.paths import state_dir

    try:
        file = state_dir() / "last-error.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(traceback.format_exception(error)), encoding="utf-8", errors="replace")
        where = str(file)
    except (OSError, WizardError):
        where = _("nowhere: it could not be written")
    sys.stderr.write(
        _(
            "This is a bug of vllm-opencode: {kind}: {reason}. The details are in {where}; please send them."
        ).format(kind=type(error).__name__, reason=one_line(str(error)), where=where)
        + "\n"
    )
    return 3
