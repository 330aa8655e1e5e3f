"""PLACEHOLDER"""

from wizard.memory.types import (
    EngineSettings,
    KvPlan,
    MemoryPlan,
)

__all__ = [
    "EngineSettings",
    "KvPlan",
    "MemoryPlan",
]
