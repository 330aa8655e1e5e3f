"""A stand-in for vLLM, for practice, demonstration and tests: it speaks like vLLM and loads nothing.

It stands alone: nothing else of the wizard is imported here, and the wizard only starts it as a process.
"""

from wizard.rehearsal.faults import command, faults

__all__ = ["command", "faults"]
