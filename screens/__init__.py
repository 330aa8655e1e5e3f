"""The front ends: the Textual application and its plain, numbered twin. They hold no logic."""

from __future__ import annotations

from collections.abc import Callable

from wizard.flow import Journey


def run_app(journey: Journey | None = None, tell: Callable[[str], None] = print) -> int:
    """Open the wizard in this terminal; returns the exit code.

    ``tell`` gets the last line, if there is one: what goes on or is kept. What nobody expected to go wrong is
    raised once the terminal is as it was before.
    """
    from screens.app import INTERRUPTED, WizardApp

    app = WizardApp(journey)
    code = app.run()
    if app.failure is not None:
        raise app.failure
    if app.farewell:
        tell(app.farewell)
    return INTERRUPTED if code is None else code


def run_plain(journey: Journey | None = None) -> int:
    """Ask the same as numbered questions on standard input; returns the exit code."""
    from screens.plain import PlainWizard

    return PlainWizard(journey).run()
