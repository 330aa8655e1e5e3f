"""PLACEHOLDER"""

from wizard.runtime.types import (
    Runtime,
)

__all__ = [
    "Runtime",
]
