"""PLACEHOLDER"""

from wizard.smoke.types import (
    SmokeCheck,
    SmokeReport,
    Speed,
)

__all__ = [
    "SmokeCheck",
    "SmokeReport",
    "Speed",
]
