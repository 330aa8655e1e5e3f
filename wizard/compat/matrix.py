"""Machine x model x runtime: every variant of the catalogue with its verdict, best first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.version import Version

from wizard.catalog import Model, Variant, models, opencode_facts, quantization, vllm_facts
from wizard.compat import rules
from wizard.compat.attention import attention_rule, cache_type_of
from wizard.compat.fit import Fit, fit
from wizard.compat.groups import GpuGroup, gpu_groups
from wizard.compat.table import in_force, table_rules
from wizard.compat.types import Reason, Row, Verdict
from wizard.i18n import _
from wizard.machine import Machine
from wizard.memory import CacheLayout, EngineSettings, cache_layout
from wizard.runtime import Runtime

_KEEPS_QUALITY = 8
"""Bits of a weight from which on a format is hardly told from 16 bit."""
_ORDER: dict[Verdict, int] = {"ok": 0, "warn": 1, "no": 2}


def matrix(
    machine: Machine, runtime: Runtime, settings: EngineSettings, allowed: Sequence[int] | None = None
) -> tuple[Row, ...]:
    """The compatibility matrix: rows that work before rows that do not, better coding models first.

    ``settings`` are the engine settings the figures are computed with; ``allowed`` restricts the GPUs.
    """
    groups = gpu_groups(machine, allowed)
    rows = [
        rate(machine, runtime, settings, groups, model, variant, layout)
        for model, layout in ((model, cache_layout(model.config)) for model in models())
        for variant in model.variants
    ]
    ranks = {model.id: model.rank for model in models()}
    rows.sort(key=lambda row: (_ORDER[row.verdict], *_preference(row, ranks[row.model])))
    return tuple(rows)


def version_for(machine: Machine) -> str:
    """The newest vLLM whose builds hold code for the best GPU here; the newest known without one."""
    facts = vllm_facts()
    version = facts.newest
    capability = max((gpu.capability for gpu in machine.gpus if gpu.compute_capability), default=None)
    if capability is None:
        return version
    for era in sorted(facts.capability_support, key=lambda era: Version(era.since), reverse=True):
        if capability >= era.min_capability:
            return version
        version = era.previous or version
    return facts.newest


def _preference(row: Row, rank: int) -> tuple[bool, int, bool, bool]:
    """The user's own models lead; of ours a model whose window is not known stands behind the others.

    Of one model, what keeps 8 bits of a weight goes before what keeps fewer; then what is computed natively.
    """
    lossy = quantization(row.quantization).bits < _KEEPS_QUALITY
    return row.max_context is None and rank > 0, rank, lossy, _is_emulated(row)


def _is_emulated(row: Row) -> bool:
    return any(reason.code == "weight-only" for reason in row.reasons)


def rate(
    machine: Machine,
    runtime: Runtime,
    settings: EngineSettings,
    groups: Sequence[GpuGroup],
    model: Model,
    variant: Variant,
    layout: CacheLayout | None,
) -> Row:
    """The line of the matrix for one variant on the best of ``groups``; ``layout`` is its model's."""
    reasons = [*rules.model_rule(model), *rules.version_rule(model, variant, runtime)]
    reasons += [*rules.parser_rule(model, runtime), *rules.licence_rule(variant)]
    placed = _best_group(groups, model, variant, settings, layout)
    if placed is None:
        reasons.append(Reason(code="no-gpu", text=_("No usable GPU was found."), source="NVML", refuses=True))
        group, fitted = None, Fit(fits=False, max_context=None, free_gib=0.0)
    else:
        group, fitted = placed
        reasons += rules.capability_rule(group.capability, runtime)
        reasons += rules.quantization_rule(variant, group.capability)
        reasons += rules.plugin_rule(variant, runtime)
        reasons += table_rules(model, variant, layout, group.capability, runtime)
        cache_type = cache_type_of((*model.args, *variant.args), settings.kv_cache_dtype)
        reasons += attention_rule(layout, model.architecture, group.capability, runtime, cache_type)
        reasons += rules.formats_rule(group.capability)
        reasons += rules.group_rule(machine, group)
        reasons += rules.peers_rule(group)
        reasons += rules.leftover_rule(machine, group)
        reasons += _fit_reasons(fitted)
    reasons = [*in_force(reasons)]
    return Row(
        model=model.id,
        variant=variant.id,
        name=model.name,
        checkpoint=variant.checkpoint,
        quantization=variant.quantization,
        weights_gib=variant.weights_gib,
        download_gib=variant.download_gib,
        fits=fitted.fits,
        max_context=fitted.max_context,
        parser=model.parser("tool", runtime.version),
        reasoning_parser=model.parser("reasoning", runtime.version),
        gpus=group.indices if group else (),
        tensor_parallel_size=group.tensor if group else 1,
        pipeline_parallel_size=group.pipeline if group else 1,
        verdict=_verdict(reasons),
        reasons=tuple(reasons),
        tokens_per_second=None if group is None else _fastest(group, model, variant),
    )


def _fastest(group: GpuGroup, model: Model, variant: Variant) -> float | None:
    """Tokens a second of one stream if nothing but reading the active weights took time: a bound.

    Stages of a pipeline read one after the other, so only GPUs that work at the same time add up.
    """
    if not (model.params_b and model.active_params_b) or group.smallest.bandwidth_gbs is None:
        return None
    active_gb = variant.weights_gib * 2**30 / 1e9 * model.active_params_b / model.params_b
    return group.tensor * group.smallest.bandwidth_gbs / active_gb


def _best_group(
    groups: Sequence[GpuGroup],
    model: Model,
    variant: Variant,
    settings: EngineSettings,
    layout: CacheLayout | None,
) -> tuple[GpuGroup, Fit] | None:
    """The smallest group with a comfortable window, else the one with the longest; None without any GPU."""
    comfortable = min(model.context, opencode_facts().warn_below)
    tried: list[tuple[GpuGroup, Fit]] = []
    for group in _divisible(groups, model):
        fitted = fit(group, model, variant, settings, layout)
        if fitted.fits and (fitted.max_context is None or fitted.max_context >= comfortable):
            return group, fitted
        tried.append((group, fitted))
    return max(
        tried, key=lambda pair: (pair[1].fits, pair[1].max_context or 0, pair[1].free_gib), default=None
    )


def _divisible(groups: Sequence[GpuGroup], model: Model) -> Iterator[GpuGroup]:
    """Groups whose tensor-parallel size divides the model's attention heads."""
    text_config = model.config.get("text_config")
    config = text_config if isinstance(text_config, dict) else model.config
    heads = config.get("num_attention_heads")
    for group in groups:
        if not isinstance(heads, int) or heads % group.tensor == 0:
            yield group


def _fit_reasons(fitted: Fit) -> tuple[Reason, ...]:
    if not fitted.fits:
        text = _(
            "Does not fit: {weights:.0f} GiB of weights on a GPU of which vLLM may take {share:.0f} GiB."
        ).format(weights=fitted.weights_gib, share=fitted.share_gib)
        if fitted.max_context is not None and fitted.max_context > 0:
            text = _("The memory holds a window of only {tokens} tokens; opencode needs {needed}.").format(
                tokens=fitted.max_context, needed=opencode_facts().refuse_below
            )
        return (Reason(code="does-not-fit", text=text, source="computed", refuses=True),)
    text = _("Fits with {free:.0f} GiB to spare for the KV cache.").format(free=fitted.free_gib)
    reasons = [Reason(code="fits", text=text, source="computed")]
    if fitted.max_context is None:
        text = _("The memory layout of this model is unknown: vLLM finds the window itself.")
        reasons.append(Reason(code="window-unknown", text=text, source="computed"))
    elif fitted.max_context < opencode_facts().warn_below:
        text = _("A window of {tokens} tokens is small for a coding agent.").format(tokens=fitted.max_context)
        reasons.append(Reason(code="small-window", text=text, source="computed"))
    return tuple(reasons)


_CAVEATS = ("model-warning", "chat-template", "small-window")


def deciding(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """The reasons that make a verdict what it is: those that refuse, else the caveats; none for ``ok``."""
    refusing = tuple(reason for reason in reasons if reason.refuses)
    return refusing or tuple(reason for reason in reasons if reason.doubts or reason.code in _CAVEATS)


def _verdict(reasons: Sequence[Reason]) -> Verdict:
    decisive = deciding(reasons)
    if not decisive:
        return "ok"
    return "no" if decisive[0].refuses else "warn"
