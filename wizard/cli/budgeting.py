"""The command ``budget``: memory and tokens of a model on a machine."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from wizard.budget import Budget, explain
from wizard.cli import output
from wizard.cli.journeys import journey, with_runtime
from wizard.cli.options import current
from wizard.errors import UsageError
from wizard.flow import BudgetQuestion, compute_budget, extra_parts, measure_first_prompt
from wizard.i18n import _
from wizard.opencode import ExtraPart


def budget(
    model: Annotated[str | None, typer.Option("--model", help=_("A model of the catalogue."))] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help=_("A config.json instead of a model of the catalogue."))
    ] = None,
    gpu_memory_utilization: Annotated[
        float | None,
        typer.Option(
            "--gpu-memory-utilization", help=_("Share of the memory vLLM may take, above 0 and at most 1.")
        ),
    ] = None,
    max_model_len: Annotated[int | None, typer.Option("--max-model-len", help=_("Window in tokens."))] = None,
    kv_cache_dtype: Annotated[
        str, typer.Option("--kv-cache-dtype", help=_("Type of the KV cache."))
    ] = "auto",
    tensor_parallel_size: Annotated[
        int | None, typer.Option("--tensor-parallel-size", help=_("GPUs that share every layer."))
    ] = None,
    pipeline_parallel_size: Annotated[
        int | None, typer.Option("--pipeline-parallel-size", help=_("Stages of layers, one after the other."))
    ] = None,
    max_num_batched_tokens: Annotated[
        int | None, typer.Option("--max-num-batched-tokens", help=_("Tokens in one batch."))
    ] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option("--max-num-seqs", help=_("Requests in one batch."))
    ] = None,
    decode_context_parallel_size: Annotated[
        int | None,
        typer.Option(
            "--decode-context-parallel-size",
            help=_("GPUs of those that share a layer that split the context."),
        ),
    ] = None,
    kv_cache_memory_bytes: Annotated[
        str | None,
        typer.Option(
            "--kv-cache-memory-bytes", help=_("Exactly so much for the KV cache, as vLLM takes it: 24G.")
        ),
    ] = None,
    enforce_eager: Annotated[bool, typer.Option("--enforce-eager", help=_("Without CUDA graphs."))] = False,
    quantization: Annotated[str | None, typer.Option("--quantization", help=_("Weight format."))] = None,
    vllm_version: Annotated[
        str | None, typer.Option("--vllm-version", help=_("Compute for this version."))
    ] = None,
    available_kv_gib: Annotated[
        float | None,
        typer.Option(
            "--available-kv-gib", help=_("GiB left for the KV cache, for comparing with a real start.")
        ),
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option("--output", help=_("opencode's longest answer, tokens."))
    ] = None,
    thinks: Annotated[
        bool, typer.Option("--thinks", help=_("The model of --config thinks before it answers."))
    ] = False,
    extra_prompt_tokens: Annotated[
        int | None,
        typer.Option(
            "--extra-prompt-tokens", help=_("What your instructions and MCP servers add to every prompt.")
        ),
    ] = None,
    measure_prompt: Annotated[
        bool, typer.Option("--measure-prompt", help=_("Let the installed opencode say what it sends."))
    ] = False,
    trim_tools: Annotated[
        bool, typer.Option("--trim-tools", help=_("Count without the tools a coding job can do without."))
    ] = False,
) -> int:
    """Memory and token arithmetic. 0: it works; 1: it does not fit or would loop."""
    if model is not None and config is not None:
        raise UsageError(_("--model and --config exclude each other."), _("Give one of them."))
    question = BudgetQuestion(
        model=model,
        config=config,
        gpu_memory_utilization=gpu_memory_utilization,
        max_model_len=max_model_len,
        kv_cache_dtype=kv_cache_dtype,
        tensor_parallel_size=tensor_parallel_size,
        pipeline_parallel_size=pipeline_parallel_size,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        enforce_eager=enforce_eager,
        quantization=quantization,
        vllm_version=vllm_version,
        available_kv_gib=available_kv_gib,
        output=output_tokens,
        decode_context_parallel_size=decode_context_parallel_size,
        kv_cache_memory_bytes=kv_cache_memory_bytes,
        thinks=thinks,
    )
    wishes: dict[str, object] = {"extra_prompt_tokens": extra_prompt_tokens, "trim_tools": trim_tools or None}
    asked = with_runtime(journey(budget=wishes))
    if measure_prompt:
        asked = measure_first_prompt(asked, threading.Event())
    found = compute_budget(asked, question)
    if current().json:
        output.document({"memory": found.memory, "kv": found.kv, "opencode": found.opencode})
    else:
        _say_memory(found)
        _say_tokens(found, extra_parts(asked) if extra_prompt_tokens is None else ())
    return 1 if found.opencode.refused else 0


def _say_memory(found: Budget) -> None:
    if found.memory is not None:
        names = {
            "total_gib": _("memory of one GPU"),
            "requested_gib": _("of it for vLLM"),
            "weights_gib": _("weights"),
            "activation_gib": _("peak of a batch"),
            "graphs_gib": _("CUDA graphs"),
            "available_kv_gib": _("left for the KV cache"),
        }
        figures = {name: getattr(found.memory, name) for name in names}
        output.table(
            (_("what"), "GiB", "±", _("origin")),
            (
                (
                    title,
                    _gib(figures[name]),
                    _gib(found.memory.errors[name]) if name in found.memory.errors else "",
                    found.memory.origins.get(name, "-"),
                )
                for name, title in names.items()
            ),
        )


def _say_tokens(found: Budget, extra: tuple[ExtraPart, ...]) -> None:
    if found.kv is not None:
        output.say(
            _("KV cache: {tokens:,} tokens, {concurrency:.2f} whole windows of {window:,} at once").format(
                tokens=found.kv.cache_tokens,
                concurrency=found.kv.max_concurrency,
                window=found.kv.max_model_len,
            )
        )
    limits = found.opencode
    output.say(
        _("opencode: context {context:,}, input {input:,}, output {output:,}, reserved {reserved:,}").format(
            context=limits.context, input=limits.input, output=limits.output, reserved=limits.reserved
        )
    )
    if not limits.refused:
        output.say(explain(limits))
    if limits.extra_prompt_tokens:
        for part in extra:
            output.say(_("  {name}: about {tokens:,} tokens").format(name=part.name, tokens=part.tokens))
    for warning in limits.warnings:
        output.say(f"{_('FAIL') if warning.refuses else _('WARN')}  {warning.text}")


def _gib(figure: float | None) -> str:
    return "?" if figure is None else f"{figure:.2f}"
