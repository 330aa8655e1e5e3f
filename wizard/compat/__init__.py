"""PLACEHOLDER"""

from wizard.compat.types import (
    Choice,
    Reason,
    Row,
    Verdict,
)

__all__ = [
    "Choice",
    "Reason",
    "Row",
    "Verdict",
]
