"""One question to NVML at a time: what is refused is noted and costs nothing but its own answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wizard.text import one_line

NO_ANSWER = "NoAnswer"
"""Stands where an NVML error's name would: the GPU was not asked yet, or the question never returned."""
UNREADABLE = "Unreadable"
"""Likewise for an answer that cannot be one, such as a negative amount of memory."""
_LARGEST = 1 << 50
"""No amount of bytes, milliwatts or anything else that NVML counts comes near."""


class Questions:
    """Puts questions to NVML, to one device when ``handle`` is given, and notes by field what was refused.

    ``nvml`` is the ``pynvml`` module, or anything that behaves like it.
    """

    def __init__(self, nvml: Any, *handle: object) -> None:
        self._nvml = nvml
        self._handle = handle
        self.errors: dict[str, str] = {}

    def ask(self, field: str, function: str, *arguments: object, read: Callable[[Any], Any]) -> Any:
        """What ``read`` makes of the answer, or None with the error noted under ``field``.

        Besides NVML's errors: a function an older binding lacks, answers the binding cannot decode, and those
        that ``read`` refuses by an error of its own.
        """
        try:
            answer = getattr(self._nvml, function)(*self._handle, *arguments)
        except Exception as error:  # noqa: BLE001 - whatever one question ends in must not hide the others
            self.errors[field] = error_name(error)
            return None
        try:
            return read(answer)
        except (AttributeError, TypeError, ValueError, LookupError, ArithmeticError):
            self.errors[field] = UNREADABLE
            return None

    def ask_either(self, field: str, *functions: str, read: Callable[[Any], Any]) -> Any:
        """The answer of the first function that gives one: drivers and bindings renamed some."""
        for function in functions:
            answer = self.ask(field, function, read=read)
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


def plain_text(answer: str | bytes) -> str:
    """One inert line; old bindings answer in bytes. Raises TypeError for what is no text."""
    if not isinstance(answer, str | bytes):
        raise TypeError(type(answer))
    return one_line(answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer)


def count(answer: Any) -> int:
    """A number that can be one of things, bytes or milliwatts. Raises TypeError or ValueError for others."""
    if not isinstance(answer, int):
        raise TypeError(type(answer))
    if not 0 <= answer <= _LARGEST:
        raise ValueError(answer)
    return int(answer)


def itself(answer: Any) -> Any:
    """The answer, such as a handle, which only NVML can read. Raises TypeError for none."""
    if answer is None:
        raise TypeError(answer)
    return answer


def first_flag(answer: Any) -> bool:
    """Whether the first of several numbers, the present setting before the pending one, is 1."""
    return count(answer[0]) == 1


def watts(answer: Any) -> float:
    """Milliwatts as watts. Raises what ``count`` raises."""
    return count(answer) / 1000
