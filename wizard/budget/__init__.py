"""How large the window can be, and with which limits opencode neither loops nor fails in it."""

from wizard.budget.build import make_budget
from wizard.budget.limits import explain, limits, needs_trimming
from wizard.budget.loop import output_cap, would_loop
from wizard.budget.types import (
    Budget,
    BudgetWarning,
    Limits,
    Residual,
    ToolOutputCap,
)

__all__ = [
    "Budget",
    "BudgetWarning",
    "Limits",
    "Residual",
    "ToolOutputCap",
    "explain",
    "limits",
    "make_budget",
    "needs_trimming",
    "output_cap",
    "would_loop",
]
