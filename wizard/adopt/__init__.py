"""Reads a server that somebody else started back into a launch plan, so that remedies apply to it."""

from wizard.adopt.log import adopt_line
from wizard.adopt.source import adopt
from wizard.adopt.types import Adopted
from wizard.adopt.unit import units_of_vllm

__all__ = ["Adopted", "adopt", "adopt_line", "units_of_vllm"]
