"""Which vLLM is installed on this host, and what it can do."""

from wizard.runtime.ask import run_inside
from wizard.runtime.find import assumed_runtime, find_runtimes
from wizard.runtime.interpreter import interpreter_of
from wizard.runtime.probe import probe
from wizard.runtime.types import Runtime, RuntimeKind

__all__ = [
    "Runtime",
    "RuntimeKind",
    "assumed_runtime",
    "find_runtimes",
    "interpreter_of",
    "probe",
    "run_inside",
]
