"""How fast a journey's server could be: its plan, its GPUs and its weights as the limit of its speed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from wizard import catalog, paths
from wizard.errors import UnknownNameError, UsageError
from wizard.flow.journey import Journey
from wizard.i18n import _
from wizard.machine import Gpu, Machine, detect
from wizard.memory import EngineSettings
from wizard.plan import LaunchPlan
from wizard.serve import is_alive, latest_run, load_plan
from wizard.smoke import Hardware, Speed, SpeedReading, beside_limit, brakes_of, roofline, unlimited_by

_REHEARSED_SHARE = 0.6
"""The part of the possible that the stand-in server plays: what a set-up without brakes comes to."""
_REHEARSED_CONTEXT = 300


def judged(journey: Journey, reading: SpeedReading) -> Speed:
    """What was measured, beside its limit as far as that is known, with the options that cost some."""
    plan = _plan_of(journey)
    hardware, why = hardware_of(journey, plan)
    speed = reading.speed
    if hardware is not None:
        try:
            speed = beside_limit(reading, hardware)
        except UnknownNameError as error:
            why = error.message
    if plan is not None:
        speed = msgspec.structs.replace(speed, brakes=brakes_of(plan))
    if speed.roofline_tps is None and not why:
        why = _("No limit is computed: the weights of this architecture cannot be counted.")
    return msgspec.structs.replace(speed, note=" ".join(part for part in (speed.note, why) if part))


def hardware_of(journey: Journey, plan: LaunchPlan | None) -> tuple[Hardware | None, str]:
    """What the limit follows from, or None and why it is not known. Nothing is guessed."""
    if plan is None:
        return None, _("No limit is computed: this server was not started from here.")
    if reason := unlimited_by(plan):
        return None, _("No limit is computed: {why}").format(why=reason)
    gpus = _gpus(journey, plan)
    speeds = [gpu.bandwidth_gbs for gpu in gpus]
    bandwidth = min((speed for speed in speeds if speed is not None), default=None)
    if bandwidth is None or None in speeds:
        return None, _("No limit is computed: the bandwidth of the memory is not known.")
    model = _Weights.of(journey, plan)
    if model is None:
        return None, _("No limit is computed: the size of the weights is not known.")
    tensor = _number(plan, "--tensor-parallel-size")
    return Hardware(
        bandwidth_gbs=bandwidth,
        tensor_parallel_size=tensor,
        weights_gib=model.gib,
        bits=model.bits,
        config=model.config,
        settings=EngineSettings(
            vllm_version=plan.vllm_version or catalog.vllm_facts().newest,
            kv_cache_dtype=plan.flag("--kv-cache-dtype") or "auto",
            tensor_parallel_size=tensor,
        ),
        active_share=model.active_share,
    ), ""


def rehearsed_pace(journey: Journey) -> float | None:
    """Tokens a second for the stand-in of this journey's plan; None: nothing is known to derive it from."""
    hardware, _why = hardware_of(journey, journey.plan)
    limit = None if hardware is None else roofline(hardware, context=_REHEARSED_CONTEXT)
    return None if limit is None else round(_REHEARSED_SHARE * limit.tokens_per_second, 1)


class _Weights(msgspec.Struct, frozen=True, kw_only=True):
    """The weights of a checkpoint, all GPUs together."""

    gib: float
    bits: float
    config: Mapping[str, object]
    active_share: float | None = None

    @staticmethod
    def of(journey: Journey, plan: LaunchPlan) -> _Weights | None:
        """Of the model that was chosen, else of the catalogue's entry for the checkpoint of the plan."""
        entry = catalog.find_model(plan.model)
        known = (
            next((one for one in entry.variants if one.checkpoint == plan.checkpoint), None)
            if entry
            else None
        )
        choice = journey.choice
        if choice is not None and choice.checkpoint == plan.checkpoint:
            gib, format, config = choice.weights_gib, choice.quantization, choice.config
        elif entry is not None and known is not None:
            gib, format, config = known.weights_gib, known.quantization, entry.config
        else:
            return None
        bits = next((one.bits for one in catalog.quantizations() if one.id == format), None)
        if gib is None or bits is None:
            return None
        active = None
        if known is not None and entry is not None and entry.params_b and entry.active_params_b:
            active = min(1.0, entry.active_params_b / entry.params_b)
        return _Weights(gib=gib, bits=bits, config=config, active_share=active)


def _plan_of(journey: Journey) -> LaunchPlan | None:
    """The plan the running server was started with: of this journey, or of an earlier start from here."""
    if journey.run is not None and journey.plan is not None:
        return journey.plan
    if journey.server is None or journey.simulated:
        return None
    try:
        run = latest_run(paths.runs_dir())
        if run is None or run.base_url != journey.server.base_url or not is_alive(run):
            return None
        return load_plan(run)
    except UsageError:
        return None


def _gpus(journey: Journey, plan: LaunchPlan) -> tuple[Gpu, ...]:
    """The GPUs of the plan; empty where they cannot be told."""
    machine = journey.machine or _this_machine()
    if journey.choice is not None:
        return tuple(gpu for gpu in machine.gpus if gpu.index in journey.choice.gpus)
    listed = plan.env.get("CUDA_VISIBLE_DEVICES")
    ranks = _number(plan, "--tensor-parallel-size") * _number(plan, "--pipeline-parallel-size")
    if listed is None:
        return machine.gpus[:ranks]
    return tuple(gpu for gpu in machine.gpus if str(gpu.index) in listed.split(","))


def _this_machine() -> Machine:
    return detect(None)


def _number(plan: LaunchPlan, flag: str) -> int:
    value = plan.flag(flag) or "1"
    return int(value) if value.isdecimal() and int(value) > 0 else 1
