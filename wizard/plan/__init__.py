"""The launch plan, its reasons, its edits and its renderings."""

from wizard.plan.build import ServeSettings, build_plan
from wizard.plan.edit import apply, describe, difference, leave_out, take_back
from wizard.plan.extra import parse_arguments
from wizard.plan.instructions import Instruction, instructions
from wizard.plan.read import read_plan
from wizard.plan.render import FORMATS, document, shell
from wizard.plan.types import AdoptedFrom, LaunchPlan, Option, PlanEdit, PlanReason

__all__ = [
    "FORMATS",
    "AdoptedFrom",
    "Instruction",
    "LaunchPlan",
    "Option",
    "PlanEdit",
    "PlanReason",
    "ServeSettings",
    "apply",
    "build_plan",
    "describe",
    "difference",
    "document",
    "instructions",
    "leave_out",
    "parse_arguments",
    "read_plan",
    "shell",
    "take_back",
]
