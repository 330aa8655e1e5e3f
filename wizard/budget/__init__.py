"""PLACEHOLDER"""

from wizard.budget.types import (
    Budget,
    BudgetWarning,
    Limits,
    ToolOutputCap,
)

__all__ = [
    "Budget",
    "BudgetWarning",
    "Limits",
    "ToolOutputCap",
]
