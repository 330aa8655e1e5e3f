"""How large the window can be, and with which limits opencode neither loops nor fails in it."""

from wizard.budget.build import make_budget
from wizard.budget.limits import explain, limits, would_loop
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
    "explain",
    "limits",
    "make_budget",
    "would_loop",
]
