"""How vLLM is installed on this machine: chosen from a table, shown, exported, and run step by step."""

from wizard.recipe.choose import offer, pick
from wizard.recipe.host import home_of, tools_of
from wizard.recipe.run import (
    Emit,
    Terminal,
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
from wizard.recipe.words import environment_facts, step_facts, step_title

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
    "environment_facts",
    "home_of",
    "installed",
    "next_step",
    "offer",
    "pick",
    "run_step",
    "running_step",
    "step_facts",
    "step_title",
    "steps_done",
    "stop_step",
    "tools_of",
    "whole_script",
]
