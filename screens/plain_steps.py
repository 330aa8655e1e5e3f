"""The questions up to the plan. Each takes and returns what the screen of its step does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from screens import estimates, figures, plain_recipe, wording
from screens.checkwords import check_title
from screens.dialogue import Dialogue
from screens.lookups import complaints, recorded_machines
from screens.moves import Move, Outcome
from wizard import flow
from wizard.budget import needs_trimming
from wizard.catalog import opencode_facts
from wizard.errors import RefusedError, UsageError
from wizard.flow import Journey, Step
from wizard.i18n import _


def start(dialogue: Dialogue, journey: Journey) -> Outcome:
    """Which road to take."""
    earlier, note = flow.resume() if not journey.simulated else (None, "")
    options = [
        ("express", _("Choose for me, and show it before anything is touched")),
        ("install", _("Install here, step by step")),
        ("connect", _("Connect to a running vLLM")),
        ("broken", _("Something is broken: diagnose it")),
        ("rehearse", _("Rehearse on a recorded machine")),
    ]
    if earlier is not None:
        options.insert(0, ("resume", _("Go on where you were")))
    if note:
        dialogue.say(note)
    match dialogue.choose(_("What shall be done?"), options, "express"):
        case "resume" if earlier is not None:
            return Outcome(Move.GO, earlier)
        case "connect":
            url = dialogue.text(_("Address of the running vLLM"), "http://127.0.0.1:8000/v1")
            key = dialogue.text(_("File with its API key, Enter for none"))
            return Outcome(Move.NEXT, flow.connect(flow.connect_to(journey, url, key)))
        case "broken":
            return Outcome(Move.NEXT, flow.diagnose_log(journey, _broken(dialogue)))
        case "rehearse":
            machines = tuple(recorded_machines().items())
            name = dialogue.choose(_("Which machine shall be played?"), machines, flow.REHEARSAL_MACHINE)
            return Outcome(Move.NEXT, flow.rehearse_on(journey, name))
        case "install":
            return Outcome(Move.NEXT, flow.take_road(journey, "install"))
        case _:
            return Outcome(Move.GO, _chosen(dialogue, flow.take_road(journey, "install")))


def _broken(dialogue: Dialogue) -> str:
    """What is broken: a text to read, a server to ask, or a complaint."""
    named = [(f"symptom:{name}", words) for name, words in complaints().items()]
    options = [("text", _("A log, a container, a unit or a server")), *named]
    picked = dialogue.choose(_("What is there to look at?"), options, "text")
    if picked != "text":
        return picked
    question = _("File, docker logs NAME, journalctl -u UNIT, or the address of a server")
    return dialogue.text(question, "vllm.log")


def _chosen(dialogue: Dialogue, journey: Journey) -> Journey:
    try:
        return flow.choose_for_me(journey, _tell(dialogue))
    except RefusedError as error:
        hint = _("To practise without one, choose to rehearse on a recorded machine.")
        raise RefusedError(error.message, hint) from error


def _tell(dialogue: Dialogue) -> Callable[[object], None]:
    def tell(event: object) -> None:
        if isinstance(event, flow.StepEvent):
            dialogue.say(_("Choosing for you: {step}…").format(step=event.title))

    return tell


def machine(dialogue: Dialogue, journey: Journey) -> Outcome:
    """What this host is, and what stands in the way."""
    if journey.machine is None:
        dialogue.say(_("Looking at this machine…"))
        journey = flow.look_at_machine(journey)
    found = flow.need(journey.machine)
    dialogue.say(wording.machine_head(found), *wording.gpu_lines(found))
    for check in journey.checks:
        title = check_title(check.id)
        dialogue.say(f"{wording.status_word(check.status)}  {title}: {check.detail} {check.hint}".rstrip())
    options = [("next", _("Go on")), ("again", _("Look again"))]
    if not any(gpu.usable for gpu in found.gpus):
        dialogue.say(_("There is no NVIDIA GPU here that vLLM could use."))
        options.append(("practise", _("Rehearse on a recorded machine")))
    if not journey.simulated:
        options.append(("save", _("Save this machine for others to rehearse on")))
    while (reached := dialogue.choose(_("And now?"), options, "next")) == "save":
        file = dialogue.text(_("File to write"), flow.recording_name())
        dialogue.say(_("Reading this machine and writing it down…"))
        flow.save_machine(journey, Path(file))
        dialogue.say(wording.recorded_in(file))
    match reached:
        case "again":
            return Outcome(Move.GO, flow.forget(journey, Step.MACHINE))
        case "practise":
            return Outcome(Move.NEXT, flow.rehearse_on(journey, flow.REHEARSAL_MACHINE))
        case _:
            return Outcome(Move.NEXT, journey)


def runtime(dialogue: Dialogue, journey: Journey) -> Outcome:
    """The vLLM that will be started."""
    if journey.runtime is None:
        dialogue.say(_("Looking for vLLM and asking it…"))
        journey = flow.find_runtime(journey)
    taken = flow.need(journey.runtime)
    dialogue.say(wording.runtime_line(taken, journey.simulated))
    dialogue.say(*wording.runtime_details(taken, journey.simulated))
    options = [("next", _("Take it"))]
    if not journey.simulated:
        options += [("again", _("Look again")), ("other", _("Name another one"))]
    options.append(("install", _("Install one")))
    match dialogue.choose(_("And now?"), options, "next"):
        case "install":
            return Outcome(Move.GO, plain_recipe.install(dialogue, journey))
        case "again":
            return Outcome(Move.GO, flow.forget(journey, Step.RUNTIME))
        case "other":
            path = dialogue.text(_("Folder of the virtual environment, or the vllm executable"))
            wanted = msgspec.structs.replace(journey.answers.runtime, path=path or None, command=None)
            return Outcome(Move.GO, _named(flow.answer(journey, Step.RUNTIME, runtime=wanted)))
        case _:
            return Outcome(Move.NEXT, journey)


def _named(wanted: Journey) -> Journey:
    """Look at once: a journey with a vLLM that does not answer is not kept."""
    try:
        return flow.find_runtime(wanted)
    except UsageError as error:
        raise UsageError(error.message, _("Try again, and name another one.")) from error


def budget(dialogue: Dialogue, journey: Journey) -> Outcome:
    """Tokens and memory."""
    given = journey.answers.budget
    automatic = _("auto")
    window = None if given.max_model_len == "auto" else given.max_model_len
    wanted = msgspec.structs.replace(
        given,
        max_model_len=dialogue.number(_("Window in tokens"), window, automatic) or "auto",
        output=dialogue.number(_("Longest answer in tokens"), given.output, automatic),
        concurrency=dialogue.number(_("People at once"), given.concurrency, "1") or 1,
        gpu_memory_utilization=_share(dialogue, given.gpu_memory_utilization),
        kv_cache_dtype=_cache_type(dialogue, given.kv_cache_dtype),
        extra_prompt_tokens=_extra(dialogue, given.extra_prompt_tokens),
    )
    if isinstance(wanted.max_model_len, int) and needs_trimming(wanted.max_model_len):
        wanted = msgspec.structs.replace(wanted, trim_tools=_trimmed(dialogue, given.trim_tools))
    journey = flow.make_plan(flow.answer(journey, Step.BUDGET, budget=wanted))
    plan = flow.need(journey.plan)
    if journey.budget is not None and journey.budget.memory is not None:
        dialogue.say(estimates.memory_title(journey))
        for _mark, name, value, origin in estimates.memory_parts(journey.budget.memory):
            dialogue.say(f"  {name} {figures.gib(value)} GiB{figures.letter(origin)}")
    dialogue.say(*estimates.side_by_side(journey), *estimates.token_words(journey))
    dialogue.say(*wording.plan_verdict(plan, journey.simulated))
    options = [("next", _("Go on")), ("again", _("Change the figures"))]
    if not journey.simulated:
        options.append(("measure", _("Let opencode say how long its first prompt is here")))
    usual = "again" if plan.refused else "next"
    why = (*estimates.memory_reasons(journey), *wording.plan_reasons(plan))
    reached = dialogue.choose(_("And now?"), options, usual, why)
    if reached == "measure":
        dialogue.say(_("opencode is started once and asks us instead of a model…"))
        measured = flow.measure_first_prompt(journey, threading.Event())
        return Outcome(Move.GO, flow.forget(measured, Step.BUDGET))
    return Outcome(Move.NEXT if reached == "next" and not plan.refused else Move.GO, journey)


def _share(dialogue: Dialogue, given: float | None) -> float | None:
    """The share of the memory, asked for in percent."""
    percent = None if given is None else round(100 * given)
    wanted = dialogue.number(_("Share of the memory for vLLM, percent"), percent, _("auto"))
    return None if wanted is None else min(wanted, 100) / 100


def _cache_type(dialogue: Dialogue, given: str) -> str:
    types = [("auto", _("as the model has it")), ("fp8", _("8 bit: twice the tokens, a little less exact"))]
    if given not in dict(types):
        types.append((given, given))
    return dialogue.choose(_("Type of the KV cache"), types, given)


def _extra(dialogue: Dialogue, given: int | str) -> int | Literal["auto"]:
    text = _("Tokens your instructions and MCP servers add to every prompt")
    wanted = dialogue.number(text, given if isinstance(given, int) else None, _("auto"), 0)
    return "auto" if wanted is None else wanted


def _trimmed(dialogue: Dialogue, given: bool) -> bool:
    tools = ", ".join(opencode_facts().trimmed_tools)
    question = _("So small a window works only without these tools: {tools}. Deny them, for every provider?")
    return dialogue.agreed(question.format(tools=tools), given)
