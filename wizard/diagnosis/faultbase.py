"""The fault base: read once, strictly, with its patterns compiled."""

from __future__ import annotations

import functools
import re
from importlib import resources

import msgspec

from wizard.diagnosis.types import Fault, FaultBase
from wizard.errors import CorruptDataError
from wizard.i18n import _

_FILE = "faults/core.toml"


class Matcher(msgspec.Struct, frozen=True):
    """One signature, ready for use: a line with ``literal`` in it is tried with ``pattern``, if any."""

    fault: Fault
    literal: str
    pattern: re.Pattern[str] | None


@functools.cache
def fault_base() -> FaultBase:
    """Every known fault. Raises CorruptDataError for a damaged installation."""
    content = (resources.files("assets") / _FILE).read_bytes()
    try:
        return msgspec.toml.decode(content, type=FaultBase)
    except msgspec.MsgspecError as error:
        raise CorruptDataError(
            _("{file} is damaged: {reason}.").format(file=_FILE, reason=error),
            _("Install the wizard again."),
        ) from error


@functools.cache
def matchers() -> tuple[Matcher, ...]:
    """The signatures of every fault, in the order of the base."""
    return tuple(
        Matcher(fault, signature.literal, re.compile(signature.pattern) if signature.pattern else None)
        for fault in fault_base().fault
        for signature in fault.signature
    )
