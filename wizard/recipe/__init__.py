"""How vLLM is installed on this machine: chosen from a table, shown, exported, and run step by step."""

from wizard.recipe.choose import offer, pick
from wizard.recipe.host import home_of, tools_of
from wizard.recipe.run import (
    Emit,
    Terminal,
    check,
    installed,
    next_step,
    run_step,
    running_step,
    steps_done,
    stop_step,
)
from wizard.recipe.script import HEAD, whole_script
from wizard.recipe.types import (
    Installed,
    Offer,
    Recipe,
    RecipeEvent,
    RecipeStep,
    Route,
    StepDone,
    StepOutput,
    StepStarted,
    Tools,
)

__all__ = [
    "HEAD",
    "Emit",
    "Installed",
    "Offer",
    "Recipe",
    "RecipeEvent",
    "RecipeStep",
    "Route",
    "StepDone",
    "StepOutput",
    "StepStarted",
    "Terminal",
    "Tools",
    "check",
    "home_of",
    "installed",
    "next_step",
    "offer",
    "pick",
    "run_step",
    "running_step",
    "steps_done",
    "stop_step",
    "tools_of",
    "whole_script",
]
