"""A single question about memory and tokens, without a journey: the command ``budget``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from wizard.budget import Budget, BudgetWarning, make_budget
from wizard.catalog import is_version, model, vllm_facts
from wizard.checkpoint import weight_format
from wizard.compat import Wishes, attention_rule, choose, choose_best, find_row, matrix, read_config
from wizard.errors import UsageError
from wizard.flow.journey import Journey, need
from wizard.flow.prompt import first_prompt
from wizard.i18n import _
from wizard.memory import EngineSettings, cache_layout, read_shape
from wizard.runtime import Runtime
from wizard.text import one_line


class BudgetQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked; None leaves a setting to vLLM's default for its version and this GPU.

    ``model`` is one of the catalogue, ``config`` a ``config.json``; without both it is the machine's best.
    """

    model: str | None = None
    config: Path | None = None
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    enforce_eager: bool = False
    quantization: str | None = None
    vllm_version: str | None = None
    available_kv_gib: float | None = None
    output: int | None = None
    decode_context_parallel_size: int | None = None
    kv_cache_memory_bytes: str | None = None
    """As vLLM takes it: a number, or one with a letter (see ``_bytes``)."""
    thinks: bool = False
    """For ``config``: whether its model thinks before it answers."""


def compute_budget(journey: Journey, question: BudgetQuestion) -> Budget:
    """The answer for the machine and the runtime of a journey.

    Raises UsageError for a figure out of range or a file that cannot be read.
    """
    _check(question)
    machine, runtime = need(journey.machine), need(journey.runtime)
    version = question.vllm_version or runtime.version or vllm_facts().newest
    settings = EngineSettings(
        vllm_version=version,
        gpu_memory_utilization=question.gpu_memory_utilization,
        max_model_len=question.max_model_len,
        kv_cache_dtype=question.kv_cache_dtype,
        max_num_batched_tokens=question.max_num_batched_tokens,
        max_num_seqs=question.max_num_seqs,
        enforce_eager=question.enforce_eager,
        quantization=question.quantization,
        decode_context_parallel_size=question.decode_context_parallel_size or 1,
    )
    if question.config is not None:
        config = read_config(question.config)
        own_format = question.quantization or weight_format(config)
        settings = msgspec.structs.replace(settings, quantization=own_format)
        gpus, tensor, pipeline = machine.gpus, 1, 1
        weights, context, thinks = None, None, question.thinks
        architecture = shape.architecture if (shape := read_shape(config)) is not None else ""
    else:
        rows = matrix(machine, runtime, settings)
        if question.model is None:
            choice = choose_best(rows, runtime, Wishes())
        else:
            row = find_row(rows, model(question.model), question.model, question.quantization)
            choice = choose(row, runtime, Wishes())
        config, weights, architecture = choice.config, choice.weights_gib, choice.architecture
        context, thinks = choice.context, choice.thinks
        gpus = tuple(gpu for gpu in machine.gpus if gpu.index in choice.gpus)
        tensor, pipeline = choice.tensor_parallel_size, choice.pipeline_parallel_size
    settings = msgspec.structs.replace(
        settings,
        tensor_parallel_size=question.tensor_parallel_size or tensor,
        pipeline_parallel_size=question.pipeline_parallel_size or pipeline,
    )
    prompt, given = first_prompt(journey), question.kv_cache_memory_bytes
    found = make_budget(
        gpu=min(gpus, key=lambda gpu: gpu.memory_mib, default=None),
        weights_gib=weights,
        config=config,
        context=context,
        thinks=thinks,
        settings=settings,
        output=question.output,
        base_prompt_tokens=prompt.measured,
        extra_prompt_tokens=prompt.extra,
        trim_tools=journey.answers.budget.trim_tools,
        opencode_version=prompt.opencode_version,
        cap=prompt.cap,
        available_kv_gib=question.available_kv_gib,
        kv_cache_memory_bytes=None if given is None else _bytes(given),
    )
    capability = min((gpu.capability for gpu in gpus if gpu.compute_capability), default=None)
    if capability is not None:
        found = _with_cache_type(found, config, architecture, capability, runtime, settings)
    return _with_warnings(found, settings, len(machine.gpus))


def _with_cache_type(
    found: Budget,
    config: Mapping[str, object],
    architecture: str,
    capability: int,
    runtime: Runtime,
    settings: EngineSettings,
) -> Budget:
    """A KV cache that no kernel of vLLM can hold on this GPU refuses the figures."""
    own = msgspec.structs.replace(runtime, version=settings.vllm_version)
    reasons = attention_rule(cache_layout(config), architecture, capability, own, settings.kv_cache_dtype)
    refusing = [
        BudgetWarning(code=reason.code, text=reason.text, refuses=True)
        for reason in reasons
        if reason.refuses
    ]
    limits = msgspec.structs.replace(found.opencode, warnings=(*refusing, *found.opencode.warnings))
    return msgspec.structs.replace(found, opencode=limits)


def _with_warnings(found: Budget, settings: EngineSettings, gpus: int) -> Budget:
    """Figures for more GPUs than there are can be asked for, and say so."""
    wanted = settings.tensor_parallel_size * settings.pipeline_parallel_size
    if wanted <= gpus or not gpus:
        return found
    text = _("These figures are for {wanted} GPUs; this machine has {gpus}.").format(wanted=wanted, gpus=gpus)
    warning = BudgetWarning(code="more-gpus-than-here", text=text)
    limits = msgspec.structs.replace(found.opencode, warnings=(warning, *found.opencode.warnings))
    return msgspec.structs.replace(found, opencode=limits)


def _check(question: BudgetQuestion) -> None:
    """Figures nobody can mean, named by their option."""
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "decode_context_parallel_size")
    for name in (*sizes, "max_model_len", "max_num_batched_tokens", "max_num_seqs", "output"):
        value = getattr(question, name)
        if value is not None and value < 1:
            raise UsageError(
                _("{option} must be 1 or more, not {value}.").format(
                    option=f"--{name.replace('_', '-')}", value=value
                )
            )
    if question.available_kv_gib is not None and question.kv_cache_memory_bytes is not None:
        raise UsageError(
            _("--available-kv-gib and --kv-cache-memory-bytes exclude each other."), _("Give one of them.")
        )
    if question.vllm_version is not None and not is_version(question.vllm_version):
        raise UsageError(
            _("{version} is not a version of vLLM.").format(version=one_line(question.vllm_version) or '""'),
            _("Write it like {version}.").format(version=vllm_facts().newest),
        )
    share = question.gpu_memory_utilization
    if share is not None and not 0 < share <= 1:
        raise UsageError(
            _("--gpu-memory-utilization must be above 0 and at most 1, not {value}.").format(value=share)
        )
    # Negative is a figure vLLM really prints: what is missing. In bytes it must still be a number.
    if question.available_kv_gib is not None and not math.isfinite(question.available_kv_gib * 2**30):
        raise UsageError(_("--available-kv-gib must be a finite number."))


_UNITS = {"": 1} | {
    letter: base**power
    for base, letters in ((1000, "kmgt"), (1024, "KMGT"))
    for power, letter in enumerate(letters, 1)
}
"""vLLM's own reading of sizes: small letters are decimal, capitals binary."""


def _bytes(text: str) -> int:
    """A size as vLLM's options take it. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgtKMGT]?)", text.strip())
    size = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if size < 1:
        raise UsageError(
            _("--kv-cache-memory-bytes must be a size above 0, not {value}.").format(value=text),
            _("Write it like 25769803776 or 24G."),
        )
    return size
