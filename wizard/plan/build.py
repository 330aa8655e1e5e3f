"""From machine, runtime, choice and budget to the frozen launch plan, with a reason for every part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from wizard.budget import Budget
from wizard.catalog import flag_known, quantization
from wizard.compat import Choice, Reason, in_force, with_attention
from wizard.i18n import _
from wizard.machine import Gpu, Machine
from wizard.plan.extra import parse_arguments, user_edits
from wizard.plan.known import judged
from wizard.plan.types import LaunchPlan, Option, PlanReason
from wizard.runtime import Runtime

_TOLD = {
    "islands": "GPUs",
    "nvlink": "GPUs",
    "pcie": "GPUs",
    "peers-blocked": "GPUs",
    "gpus-left": "GPUs",
    "formats-ruled-out": "quantization",
    "weight-only": "quantization",
    "attention": "attention",
    "checkpoint-note": "checkpoint",
    "weights-missing": "checkpoint",
    "not-read": "checkpoint",
    "not-in-catalogue": "model",
    "parser-derived": "--tool-call-parser",
    "reasoning-derived": "--reasoning-parser",
}
"""Reasons of the choice that explain a plan without an option of their own, by their subject there."""


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how the server runs. ``timeout_s`` is how long a start may take.

    The key is in a file, or in a variable of the environment that vLLM reads by itself.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_key_file: str | None = None
    api_key_env: str | None = None
    extra_args: tuple[str, ...] = ()
    timeout_s: float
    kv_cache_dtype: str = "auto"
    gpu_memory_utilization: float | None = None
    offline: bool = False


class _Draft:
    """Options, variables and their reasons while they are collected."""

    def __init__(self) -> None:
        self.options: list[Option] = []
        self.env: dict[str, str] = {}
        self.reasons: list[PlanReason] = []

    def option(self, flag: str, value: str | None, why: str, source: str) -> None:
        self.options.append(Option(flag=flag, value=value))
        self.reasons.append(PlanReason(subject=flag, why=why, source=source))

    def variable(self, name: str, value: str, why: str, source: str) -> None:
        self.env[name] = value
        self.reasons.append(PlanReason(subject=name, why=why, source=source))


def build_plan(
    *, machine: Machine, runtime: Runtime, choice: Choice, budget: Budget, settings: ServeSettings
) -> LaunchPlan:
    """The complete plan of a start; pure, nothing is touched.

    A plan that cannot work is built all the same and says so in ``refused``, so that it can be shown.
    Raises UsageError for extra arguments that contradict the plan's own fields.
    """
    gpus = tuple(gpu for gpu in machine.gpus if gpu.index in choice.gpus)
    if gpus:
        lowest = min(gpu.capability for gpu in gpus)
        choice = with_attention(choice, lowest, runtime, settings.kv_cache_dtype)
    draft = _Draft()
    _address(draft, choice, settings)
    _window(draft, runtime, budget)
    _memory(draft, runtime, budget, settings)
    _parallelism(draft, machine, choice)
    _precision(draft, gpus, choice)
    _parsers(draft, choice)
    _ruled(draft, choice)
    chosen = {option.flag for option in draft.options}
    for option in parse_arguments(choice.args):
        # What the GPU or the user needs goes before what the model prefers.
        if option.flag not in chosen:
            draft.option(option.flag, option.value, _("This model needs it."), choice.model)
    _environment(draft, runtime, choice, settings)
    draft.reasons += [
        PlanReason(subject=_TOLD[reason.code], why=reason.text, source=reason.source)
        for reason in choice.reasons
        if reason.code in _TOLD and not reason.args and not reason.env
    ]
    plan = LaunchPlan(
        command=(*_called(runtime, choice), "serve", choice.checkpoint),
        base_options=tuple(draft.options),
        base_env=draft.env,
        edits=user_edits(settings.extra_args, runtime),
        runtime_kind=runtime.kind,
        runtime_path=runtime.path,
        vllm_version=runtime.version,
        model=choice.model,
        checkpoint=choice.checkpoint,
        served_model_name=choice.served_model_name,
        parser=choice.parser,
        reasoning_parser=choice.reasoning_parser,
        host=settings.host,
        port=settings.port,
        api_key_file=settings.api_key_file,
        timeout_s=settings.timeout_s,
        limits=budget.opencode,
        memory=budget.memory,
        reasons=tuple(draft.reasons),
        refused=_refusals(choice, budget, settings),
        warnings=(
            *_taken(gpus, budget),
            *(reason for reason in choice.reasons if reason.doubts),
            *(
                Reason(code=warning.code, text=warning.text, source="opencode")
                for warning in budget.opencode.warnings
                if not warning.refuses
            ),
        ),
    )
    return judged(plan, runtime)


def _called(runtime: Runtime, choice: Choice) -> tuple[str, ...]:
    """The runtime's call; a checkpoint that lies here is shown to a container under the same path."""
    if runtime.kind != "container" or not choice.checkpoint.startswith("/"):
        return runtime.command
    *call, image = runtime.command
    return (*call, f"--volume={choice.checkpoint}:{choice.checkpoint}:ro", image)


def _address(draft: _Draft, choice: Choice, settings: ServeSettings) -> None:
    draft.option(
        "--host", settings.host, _("Reachable from this machine only unless you say otherwise."), "vLLM flags"
    )
    draft.option("--port", str(settings.port), _("Where opencode will look for it."), "vLLM flags")
    draft.option(
        "--served-model-name",
        choice.served_model_name,
        _("The name opencode must send; it becomes the model's key in opencode's configuration."),
        "vLLM flags",
    )


def _window(draft: _Draft, runtime: Runtime, budget: Budget) -> None:
    if budget.max_model_len is not None:
        draft.option(
            "--max-model-len",
            str(budget.max_model_len),
            _("The window the memory holds; opencode's limits are computed from it."),
            "budget",
        )
    elif runtime.version is None or flag_known("--max-model-len auto", runtime.version):
        draft.option(
            "--max-model-len",
            "auto",
            _("The memory layout of this model is unknown: vLLM finds the longest window that fits."),
            "vLLM flags",
        )


def _memory(draft: _Draft, runtime: Runtime, budget: Budget, settings: ServeSettings) -> None:
    if runtime.cpu_build:
        return
    utilization = settings.gpu_memory_utilization
    if budget.memory is not None:
        utilization = budget.memory.gpu_memory_utilization
    if utilization is not None:
        draft.option(
            "--gpu-memory-utilization",
            f"{utilization:g}",
            _("The share of the GPU's memory vLLM may take; the rest stays for the system."),
            "budget",
        )
    if settings.kv_cache_dtype != "auto":
        draft.option("--kv-cache-dtype", settings.kv_cache_dtype, _("As you asked."), "answers")


def _parallelism(draft: _Draft, machine: Machine, choice: Choice) -> None:
    if choice.tensor_parallel_size > 1:
        group = ", ".join(str(index) for index in choice.gpus)
        draft.option(
            "--tensor-parallel-size",
            str(choice.tensor_parallel_size),
            _("The weights are spread over GPUs {group}.").format(group=group),
            "machine",
        )
    if choice.pipeline_parallel_size > 1:
        draft.option(
            "--pipeline-parallel-size",
            str(choice.pipeline_parallel_size),
            _("The layers are spread over NVLink groups, so that only little crosses between them."),
            "machine",
        )
    # Ranks follow the order of the devices, so that a tensor-parallel group stays inside its island.
    in_order = choice.gpus == tuple(gpu.index for gpu in machine.gpus)
    if choice.gpus and (not in_order or choice.pipeline_parallel_size > 1):
        draft.variable(
            "CUDA_DEVICE_ORDER",
            "PCI_BUS_ID",
            _("GPU numbers mean the same to CUDA as to NVML."),
            "CUDA programming guide",
        )
        draft.variable(
            "CUDA_VISIBLE_DEVICES",
            ",".join(str(index) for index in choice.gpus),
            _("Only the GPUs of this plan are used, in the order of their ranks."),
            "CUDA programming guide",
        )


def _precision(draft: _Draft, gpus: Sequence[Gpu], choice: Choice) -> None:
    """Below the generation that computes a format natively, its fallback format is named explicitly."""
    if not gpus or not choice.quantization:
        return
    format = quantization(choice.quantization)
    oldest = min(gpus, key=lambda gpu: gpu.capability)
    if format.fallback is None or oldest.capability >= (format.native_capability or 0):
        return
    for option in parse_arguments(format.fallback_args):
        why = _("{gpu} does not compute in {format}; {other} takes its place.").format(
            gpu=oldest.name, format=format.title, other=quantization(format.fallback).title
        )
        draft.option(option.flag, option.value, why, format.source)


def _ruled(draft: _Draft, choice: Choice) -> None:
    """What the rules of the matrix set: each with the rule's own sentence."""
    for reason in choice.reasons:
        for option in parse_arguments(reason.args):
            draft.option(option.flag, option.value, reason.text, reason.source)
        for name, value in reason.env.items():
            draft.variable(name, value, reason.text, reason.source)


def _parsers(draft: _Draft, choice: Choice) -> None:
    if choice.parser is not None:
        draft.option(
            "--enable-auto-tool-choice",
            None,
            _("Without it vLLM refuses every request that offers tools."),
            "vLLM tool calling",
        )
        draft.option(
            "--tool-call-parser",
            choice.parser,
            _("It reads the format in which this model writes its tool calls."),
            "vLLM tool calling",
        )
    if choice.reasoning_parser is not None:
        draft.option(
            "--reasoning-parser",
            choice.reasoning_parser,
            _("It keeps the model's thinking out of its answers."),
            "vLLM reasoning outputs",
        )


def _environment(draft: _Draft, runtime: Runtime, choice: Choice, settings: ServeSettings) -> None:
    for name, value in runtime.env.items():
        draft.variable(name, value, _("This runtime needs it."), "answers")
    for name, value in choice.env.items():
        if name not in draft.env:
            draft.variable(name, value, _("This model needs it."), choice.model)
    if "VLLM_NO_USAGE_STATS" not in draft.env:
        draft.variable(
            "VLLM_NO_USAGE_STATS",
            "1",
            _("vLLM sends no usage statistics from here."),
            "vLLM usage statistics",
        )
    if settings.offline and "HF_HUB_OFFLINE" not in draft.env:
        draft.variable("HF_HUB_OFFLINE", "1", _("You asked to stay offline."), "huggingface_hub")


def _taken(gpus: Sequence[Gpu], budget: Budget) -> Iterator[Reason]:
    """GPUs with less free at this moment than the plan takes: vLLM refuses to start on such a one."""
    wanted = budget.memory.requested_gib if budget.memory else 0.0
    for gpu in gpus:
        free = gpu.memory_free_mib / 1024
        if free < wanted:
            text = _(
                "GPU {index} has {free:.1f} of {total:.1f} GiB free now, and this plan takes {wanted:.1f}: "
                "stop what uses it first, or vLLM refuses to start."
            )
            words = {"index": gpu.index, "free": free, "total": gpu.memory_mib / 1024, "wanted": wanted}
            yield Reason(code="gpu-taken", text=text.format(**words), source="vLLM: gpu_memory_utilization")


def _refusals(choice: Choice, budget: Budget, settings: ServeSettings) -> tuple[Reason, ...]:
    refused = [reason for reason in choice.reasons if reason.refuses]
    refused += [
        Reason(code=warning.code, text=warning.text, source="opencode", refuses=True)
        for warning in budget.opencode.warnings
        if warning.refuses
    ]
    if choice.parser is None:
        missing = Reason(
            code="no-parser",
            text=_("No tool-call parser is chosen: opencode could not use any tool. Name one of vLLM's."),
            source="vLLM tool calling",
            refuses=True,
        )
        refused += in_force((missing,))
    if settings.host not in ("127.0.0.1", "localhost", "::1") and not (
        settings.api_key_file or settings.api_key_env
    ):
        refused.append(
            Reason(
                code="open-without-key",
                text=_(
                    "Listening on {host} lets the whole network use the server: "
                    "give a key file ([serve] api_key_file) or stay on 127.0.0.1."
                ).format(host=settings.host),
                source="vLLM security",
                refuses=True,
            )
        )
    return tuple(refused)
