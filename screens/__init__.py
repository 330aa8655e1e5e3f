"""The front ends: the Textual application and its plain, numbered twin. They hold no logic."""

from __future__ import annotations

from wizard.flow import Journey


def run_app(journey: Journey | None = None) -> int:
    """Open the wizard in this terminal; returns the exit code."""
    from screens.app import WizardApp

    code = WizardApp(journey).run()
    return 0 if code is None else code


def run_plain(journey: Journey | None = None) -> int:
    """Ask the same as numbered questions on standard input; returns the exit code."""
    from screens.plain import PlainWizard

    return PlainWizard(journey).run()
