"""Memory and tokens in words: the estimate, what vLLM says after a start, and what is written for opencode.

Like ``screens.wording``: pure, plain text, for both front ends.
"""

from __future__ import annotations

from screens.figures import count, gib, letter
from wizard.budget import explain
from wizard.catalog import Origin
from wizard.flow import Journey, longer_edit
from wizard.i18n import _
from wizard.memory import MemoryPlan
from wizard.serve import EngineFigures

_COLUMNS = (15, 17, 17)
"""Widths of name, estimate and vLLM's figure; the last column takes the rest of 80."""


def memory_parts(memory: MemoryPlan) -> tuple[tuple[str, str, float | None, Origin | None], ...]:
    """The split of a GPU's memory: mark in the bar, name, GiB, origin; what is left comes last."""
    origins = memory.origins
    return (
        ("#", _("weights"), memory.weights_gib, origins.get("weights_gib")),
        ("=", _("work"), memory.activation_gib, origins.get("activation_gib")),
        (":", _("graphs"), memory.graphs_gib, origins.get("graphs_gib")),
        ("%", _("CUDA"), memory.other_gib, origins.get("other_gib")),
        ("+", _("KV cache"), memory.available_kv_gib, origins.get("available_kv_gib")),
        (".", _("not asked for"), memory.total_gib - memory.requested_gib, "computed"),
    )


_ESTIMATED = ("weights_gib", "activation_gib", "graphs_gib", "other_gib", "available_kv_gib")
"""The fields behind the parts, in their order."""


def _error_bar(memory: MemoryPlan, field: str) -> str:
    return f" ± {memory.errors[field]:.2f}" if field in memory.errors else ""


def memory_title(journey: Journey) -> str:
    """Whose memory the bar shows."""
    memory = journey.budget.memory if journey.budget else None
    if memory is None:
        return _("Memory of one GPU")
    return _("Memory of one GPU, {total} GiB; vLLM may take {share:.0%} of it").format(
        total=gib(memory.total_gib), share=memory.gpu_memory_utilization
    )


def side_by_side(journey: Journey) -> tuple[str, ...]:
    """Three columns: what was computed, what the running vLLM says, what opencode is told."""
    budget, limits = journey.budget, None if journey.budget is None else journey.budget.opencode
    if budget is None or limits is None:
        return ()
    says = journey.figures or EngineFigures()
    window = None if journey.server is None else journey.server.max_model_len
    kv, memory = budget.kv, budget.memory
    asked = _("vLLM decides") if budget.max_model_len is None else count(budget.max_model_len)
    size = (memory.available_kv_gib, memory.origins.get("available_kv_gib")) if memory else (None, None)
    rows = [
        ("", _("estimate"), _("vLLM says"), _("written for opencode")),
        (
            _("Window"),
            asked,
            _said(journey, count(window)),
            _("context {context}").format(context=count(limits.context)),
        ),
        (
            _("KV cache, GiB"),
            f"{gib(size[0])}{letter(size[1])}",
            _said(journey, gib(says.available_kv_gib, 2)),
            _("input {input}").format(input=count(limits.input)),
        ),
        (
            _("KV tokens"),
            f"{count(kv.cache_tokens)}{letter('computed')}" if kv else "-",
            _said(journey, count(says.cache_tokens)),
            _("output {output}").format(output=count(limits.output)),
        ),
        (
            _("Full windows"),
            f"{kv.max_concurrency:.1f}{letter('computed')}" if kv else "-",
            _said(journey, "-" if says.max_concurrency is None else f"{says.max_concurrency:.1f}"),
            _("reserved {reserved}").format(reserved=count(limits.reserved)),
        ),
    ]
    return tuple(_row(*row) for row in rows)


def _said(journey: Journey, figure: str) -> str:
    """What vLLM said, or that it will only say it once it runs."""
    return _("(after the start)") if journey.server is None else figure


def _row(name: str, *cells: str) -> str:
    widths = (*_COLUMNS, 0)
    return " ".join(f"{cell:<{width}}" for cell, width in zip((name, *cells), widths, strict=True)).rstrip()


def token_words(journey: Journey) -> tuple[str, ...]:
    """What the limits mean, and the longer window vLLM has room for."""
    if journey.budget is None:
        return ()
    told = [] if journey.budget.opencode.refused else [explain(journey.budget.opencode)]
    return (*told, *longer_words(journey))


def longer_words(journey: Journey) -> tuple[str, ...]:
    """What the running vLLM has more room for than was asked of it."""
    edit = longer_edit(journey)
    return () if edit is None else (f"{edit.title}: --max-model-len {edit.set['--max-model-len']}",)


def compared_lines(journey: Journey) -> tuple[str, ...]:
    """The estimate beside vLLM's own figures, once there are any."""
    says, budget = journey.figures, journey.budget
    if says is None or (says.available_kv_gib is None and says.cache_tokens is None):
        return ()
    memory, kv = (None, None) if budget is None else (budget.memory, budget.kv)
    lines = []
    if says.available_kv_gib is not None:
        text = _("KV cache: vLLM measured {truth} GiB, {estimate} were expected.")
        expected = gib(memory.available_kv_gib, 2) if memory else "-"
        lines.append(text.format(truth=gib(says.available_kv_gib, 2), estimate=expected))
    if says.cache_tokens is not None:
        text = _("It holds {truth} tokens, {estimate} were expected.")
        expected = count(kv.cache_tokens) if kv else "-"
        lines.append(text.format(truth=count(says.cache_tokens), estimate=expected))
    return (*lines, *longer_words(journey))


def memory_reasons(journey: Journey) -> tuple[str, ...]:
    """How each figure of the memory came about, with what it is."""
    budget = journey.budget
    if budget is None or budget.memory is None:
        return ()
    memory, limits = budget.memory, budget.opencode
    how = {
        _("weights"): _("the checkpoint's size over the GPUs that share it"),
        _("work"): _("the peak of a full batch, from its size and the widths in config.json"),
        _("graphs"): _("CUDA graphs, where this version counts them"),
        _("CUDA"): _("CUDA's own share, buffers between GPUs, and what was not foreseen"),
        _("KV cache"): _("what vLLM may take, less all of these"),
        _("not asked for"): _("the rest of the GPU, left to the system and to others"),
    }
    parts = (*_ESTIMATED, "")
    lines = [
        f"{name} {gib(value, 2)} GiB{_error_bar(memory, field)}{letter(origin)}: {how[name]}"
        for field, (_mark, name, value, origin) in zip(parts, memory_parts(memory), strict=True)
    ]
    if budget.residual is not None:
        text = _("An earlier start of this model here differed by {gib:+.2f} GiB: that is in the figures.")
        lines.append(text.format(gib=budget.residual.kv_gib))
    if budget.kv is not None:
        text = _("{bytes} bytes a token; {blocks} blocks of {size} tokens, {each} for one full window.")
        kv = budget.kv
        lines.append(
            text.format(
                bytes=count(kv.bytes_per_token),
                blocks=count(kv.num_blocks),
                size=count(kv.block_size),
                each=count(kv.blocks_per_request),
            )
        )
    text = _("opencode's first prompt: {tokens} tokens{origin}, {extra} of them for your own additions.")
    prompt = text.format(
        tokens=count(limits.base_prompt_tokens),
        origin=letter(limits.base_prompt_origin),
        extra=count(limits.extra_prompt_tokens),
    )
    return ("\n".join(lines), prompt)
