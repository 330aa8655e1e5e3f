"""Host checks: what would stand in the way of an installation on this machine, each with what to do."""

from wizard.machine.checks.run import checked_for, checks

__all__ = ["checked_for", "checks"]
