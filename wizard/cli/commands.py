"""All commands under one roof, and the exit code of the one that ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import typer

from wizard.cli import budgeting, client, fetching, looking, models, parsers, runtimes, serving, walking
from wizard.cli.options import COMMON_HELP
from wizard.errors import UsageError
from wizard.i18n import _

Command = Callable[..., int]


def _table() -> tuple[tuple[str, Command, str], ...]:
    """Name, function and one-line help of every command, in the order a set-up takes them."""
    return (
        ("setup", walking.setup, _("The whole wizard without screens.")),
        (
            "detect",
            looking.detect,
            _("What this machine is, and what is in the way. --record FILE writes it down, redacted."),
        ),
        ("runtime", runtimes.runtime, _("Find and ask the installed vLLM, or install one.")),
        ("models", models.models, _("What works on this machine, and why.")),
        ("budget", budgeting.budget, _("Memory and token arithmetic.")),
        ("plan", looking.plan, _("The resolved launch plan; nothing is started.")),
        ("fetch", fetching.fetch, _("Bring weights to the disk; goes on where it stopped.")),
        ("launch", serving.launch, _("Start vLLM and follow it until it answers.")),
        ("status", serving.status, _("What runs, and since when.")),
        ("logs", serving.logs, _("The log of the last run.")),
        ("stop", serving.stop, _("Stop the vLLM this program started.")),
        ("smoke", serving.smoke, _("Test tool calls against a running server.")),
        (
            "parsers",
            parsers.parsers,
            _("Which parsers of the installed vLLM read what the model writes."),
        ),
        ("configure", client.configure, _("Write or update opencode's configuration.")),
        ("diagnose", client.diagnose, _("Name cause and cure of what a log says.")),
        ("doctor", looking.doctor, _("Check a whole set-up; changes nothing.")),
        ("undo", client.undo, _("Take back what the last set-up changed.")),
        ("report", client.report, _("A redacted sheet for hand-over or support.")),
        ("rehearse", serving.rehearse, _("A stand-in vLLM for practice, with a fault of your choice.")),
    )


def build() -> typer.Typer:
    """The command line in the active language."""
    app = typer.Typer(
        name="vllm-opencode",
        help=_(
            "From bare NVIDIA hardware to a coding agent that works. Without a command it opens the wizard."
        ),
        epilog=_(COMMON_HELP),
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(invoke_without_command=True)(_root)
    for name, command, help_text in _table():
        app.command(name, help=help_text, epilog=_(COMMON_HELP))(command)
    return app


def run(words: Sequence[str]) -> int:
    """Run one command; a wrong call becomes a UsageError."""
    try:
        code = build()(args=list(words), prog_name="vllm-opencode", standalone_mode=False)
    except typer.TyperException as error:
        reason = error.format_message() if hasattr(error, "format_message") else str(error)
        raise UsageError(reason, _("See --help.")) from error
    except typer.Abort:
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0


def _root(context: typer.Context) -> int:
    return walking.wizard() if context.invoked_subcommand is None else 0
