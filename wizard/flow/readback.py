"""What vLLM says after a start, beside the estimate: kept for the next one, and used for a longer window."""

from __future__ import annotations

import hashlib

import msgspec

from wizard import receipt
from wizard.budget import Budget, Residual
from wizard.flow.journey import Journey, Step, forget, need
from wizard.flow.places import receipt_path
from wizard.flow.prompt import limits_here
from wizard.flow.settings import plan_settings
from wizard.i18n import _
from wizard.memory import cache_layout, longest_window
from wizard.plan import PlanEdit, apply
from wizard.receipt import Measurement
from wizard.serve import Measured, read_figures

_STEP = 1024
"""A longer window is worth a restart from so many tokens on, and a whole multiple of it."""


def with_figures(journey: Journey) -> Journey:
    """The journey with what its running server says about its memory."""
    server = need(journey.server)
    log = journey.run.log if journey.run is not None else None
    return msgspec.structs.replace(journey, figures=read_figures(server.base_url, log))


def comparison(journey: Journey, seconds: float = 0.0) -> Measured:
    """Estimate and truth beside each other, and the longer window that is safe."""
    budget = journey.budget
    return Measured(
        seconds=seconds,
        vllm=need(journey.figures),
        estimate={} if budget is None else _expected(budget),
        max_model_len=need(journey.server).max_model_len,
        longer=longer_window(journey),
    )


def _expected(budget: Budget) -> dict[str, float | int | None]:
    memory, kv = budget.memory, budget.kv
    return {
        "weights_gib": memory.weights_gib if memory else None,
        "graphs_gib": memory.graphs_gib if memory else None,
        "available_kv_gib": memory.available_kv_gib if memory else None,
        "gpu_memory_utilization": memory.gpu_memory_utilization if memory else None,
        "cache_tokens": kv.cache_tokens if kv else None,
        "max_concurrency": kv.max_concurrency if kv else None,
        "block_size": kv.block_size if kv else None,
        "num_blocks": kv.num_blocks if kv else None,
        "window": kv.max_model_len if kv else None,
    }


def longer_window(journey: Journey) -> int | None:
    """A longer window that the memory holds as vLLM measured it, for as many people as asked for; else None.

    Only for a model whose longest context is known. Where the layout of its cache is not, so many tokens as
    vLLM holds now surely fit: a longer request never takes more a token than a shorter one.
    """
    figures, server, choice = journey.figures, journey.server, journey.choice
    if figures is None or server is None or server.max_model_len is None or choice is None:
        return None
    people, layout = journey.answers.budget.concurrency, cache_layout(choice.config)
    stated = (choice.context, layout.context if layout else None)
    context = min((length for length in stated if length), default=None)
    if context is None:
        return None
    planned = journey.budget is not None and journey.budget.kv is not None
    if planned and layout is not None and figures.available_kv_gib is not None:
        found = longest_window(layout, plan_settings(journey), figures.available_kv_gib, concurrency=people)
    else:
        found = (figures.cache_tokens or 0) // people
    longer = min(found, context) // _STEP * _STEP
    return longer if longer >= server.max_model_len + _STEP else None


def longer_edit(journey: Journey) -> PlanEdit | None:
    """The change of the plan to the longer window, or None where there is none."""
    longer = longer_window(journey)
    if longer is None or journey.plan is None:
        return None
    title = _("vLLM measured more room: a window of {window} tokens").format(window=f"{longer:,}")
    return PlanEdit(origin="read-back", title=title, set={"--max-model-len": str(longer)})


def widen(journey: Journey) -> Journey:
    """The journey with the longer window in its plan, to be started anew; unchanged where there is none."""
    edit = longer_edit(journey)
    if edit is None:
        return journey
    window = int(edit.set["--max-model-len"] or 0)
    choice, plan = need(journey.choice), need(journey.plan)
    found = limits_here(journey, window, thinks=choice.thinks, vllm_version=plan.vllm_version)
    plan = msgspec.structs.replace(apply(plan, edit), limits=found)
    budget = msgspec.structs.replace(need(journey.budget), max_model_len=window, opencode=found)
    return msgspec.structs.replace(forget(journey, Step.LAUNCH), plan=plan, budget=budget)


def residual(journey: Journey) -> Residual | None:
    """What the last start of the same model on these GPUs taught, or None."""
    if journey.simulated:
        return None
    known = fingerprint(journey)
    kept = receipt.measurements(receipt_path(journey))
    last = next((entry for entry in reversed(kept) if entry.fingerprint == known), None)
    if last is None:
        return None
    return Residual(kv_gib=last.available_kv_gib - last.estimated_kv_gib, weights_gib=last.weights_gib)


def measurement(journey: Journey) -> Measurement | None:
    """What this start measured, to be kept; None where nothing was measured or nothing had been estimated."""
    figures, budget, plan = journey.figures, journey.budget, journey.plan
    if figures is None or figures.available_kv_gib is None or budget is None or plan is None:
        return None
    if not journey.started_here or budget.memory is None or budget.memory.available_kv_gib is None:
        return None
    corrected = budget.residual.kv_gib if budget.residual is not None else 0.0
    return Measurement(
        fingerprint=fingerprint(journey),
        model=plan.checkpoint,
        vllm_version=plan.vllm_version,
        measured=receipt.now(),
        estimated_kv_gib=round(budget.memory.available_kv_gib - corrected, 3),
        available_kv_gib=figures.available_kv_gib,
        weights_gib=figures.weights_gib,
    )


def fingerprint(journey: Journey) -> str:
    """What a measurement holds for: GPUs, checkpoint, version, how it is spread, extra options."""
    machine, choice, runtime = need(journey.machine), need(journey.choice), need(journey.runtime)
    gpus = [(gpu.name, gpu.memory_mib) for gpu in machine.gpus if gpu.index in choice.gpus]
    spread = (choice.tensor_parallel_size, choice.pipeline_parallel_size)
    content = (gpus, choice.checkpoint, runtime.version, spread, journey.answers.serve.extra_args)
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:16]
