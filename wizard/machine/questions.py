"""One question to NVML at a time: what is refused is noted and costs nothing but its own answer."""

from __future__ import annotations

from typing import Any

from wizard.text import one_line

NO_ANSWER = "NoAnswer"
"""Stands where an NVML error's name would: the GPU was not asked yet, or the question never returned."""


class Questions:
    """Puts questions to NVML, to one device when ``handle`` is given, and notes by field what was refused.

    ``nvml`` is the ``pynvml`` module, or anything that behaves like it.
    """

    def __init__(self, nvml: Any, *handle: object) -> None:
        self._nvml = nvml
        self._handle = handle
        self.errors: dict[str, str] = {}

    def ask(self, field: str, function: str, *arguments: object) -> Any:
        """The answer, or None with the error noted under ``field``.

        Besides NVML's errors: a function an older binding lacks, and answers the binding cannot decode.
        """
        try:
            return getattr(self._nvml, function)(*self._handle, *arguments)
        except (self._nvml.NVMLError, AttributeError, TypeError, ValueError, OSError) as error:
            self.errors[field] = error_name(error)
            return None

    def ask_either(self, field: str, *functions: str) -> Any:
        """The answer of the first function that gives one: drivers and bindings renamed some."""
        for function in functions:
            answer = self.ask(field, function)
            if answer is not None:
                self.errors.pop(field, None)
                return answer
        return None


def error_name(error: Exception) -> str:
    """NVML's own name of an error, such as ``GpuIsLost``; ``Error1234`` where the binding has no name."""
    if isinstance(error, AttributeError):
        return "FunctionNotFound"
    name = type(error).__name__.removeprefix("NVMLError_")
    return name if name != "NVMLError" else f"Error{getattr(error, 'value', '')}"


def plain_text(answer: str | bytes | None) -> str:
    """One inert line; old bindings answer in bytes."""
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer or ""
    return one_line(text)
