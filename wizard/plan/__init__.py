"""PLACEHOLDER"""

from wizard.plan.types import (
    LaunchPlan,
    Option,
    PlanEdit,
    PlanReason,
)

__all__ = [
    "LaunchPlan",
    "Option",
    "PlanEdit",
    "PlanReason",
]
