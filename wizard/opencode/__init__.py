"""PLACEHOLDER"""

from wizard.opencode.types import (
    ConfigRequest,
    OpencodeChange,
    Proof,
)

__all__ = [
    "ConfigRequest",
    "OpencodeChange",
    "Proof",
]
