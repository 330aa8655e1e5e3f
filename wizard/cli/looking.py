"""Commands that look and compute: detect, budget, plan, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wizard.budget import Budget, explain
from wizard.cli import output
from wizard.cli.journeys import journey, with_runtime
from wizard.cli.options import current
from wizard.errors import UnknownNameError, UsageError
from wizard.flow import (
    BudgetQuestion,
    choose_model,
    compute_budget,
    examine,
    find_runtime,
    look_at_machine,
    make_plan,
    need,
    rate_models,
    record_machine,
)
from wizard.i18n import _
from wizard.machine import Check, Machine
from wizard.plan import FORMATS, LaunchPlan
from wizard.plan import document as plan_document

AnswersOption = Annotated[Path | None, typer.Option("--answers", help=_("The answers file, TOML."))]


def detect(
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help=_("Also write this machine down, redacted.")),
    ] = None,
) -> int:
    """What this machine is. 0: nothing in the way; 1: a check failed."""
    looked = look_at_machine(journey()) if record is None else record_machine(journey(), record)
    machine = need(looked.machine)
    if current().json:
        output.document({"machine": machine, "checks": looked.checks})
    else:
        _say_machine(machine)
        _say_checks(looked.checks)
    if record is not None:
        output.say(
            _(
                "Recorded in {path}, without host name, UUIDs, paths and telling names of programs. "
                "Read it before you send it."
            ).format(path=record)
        )
    return _failed(looked.checks)


def plan(
    model: Annotated[str | None, typer.Option("--model", help=_("A model of the catalogue."))] = None,
    answers: AnswersOption = None,
    format: Annotated[
        str, typer.Option("--format", help=_("How the plan is written: shell or json."))
    ] = "shell",
) -> int:
    """The launch plan. 0: it can be started; 1: it is refused."""
    if format not in (*FORMATS, "json"):
        raise UnknownNameError(_("format"), format, [*FORMATS, "json"])
    planned = make_plan(choose_model(rate_models(with_runtime(journey(answers, model={"id": model})))))
    made = need(planned.plan)
    if current().json or format == "json":
        output.document(plan_document(made))
    else:
        output.say(FORMATS[format](made))
        _say_reasons(made)
    return 1 if made.refused else 0


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
    )
    found = compute_budget(with_runtime(journey()), question)
    if current().json:
        output.document({"memory": found.memory, "kv": found.kv, "opencode": found.opencode})
    else:
        _say_budget(found)
    return 1 if found.opencode.refused else 0


def doctor(
    base_url: Annotated[
        str | None, typer.Option("--base-url", help=_("Address of a running vLLM, with /v1."))
    ] = None,
    answers: AnswersOption = None,
) -> int:
    """Host, runtime, server and opencode's configuration. 0: all well; 1: a check failed."""
    found = examine(find_runtime(look_at_machine(journey(answers, start={"base_url": base_url}))))
    if current().json:
        output.document({"checks": found})
    else:
        _say_checks(found)
    return _failed(found)


def _failed(found: tuple[Check, ...]) -> int:
    return 1 if any(check.status == "fail" for check in found) else 0


def _say_machine(machine: Machine) -> None:
    if machine.simulated:
        output.say(_("Recorded machine {name}: nothing here is this host.").format(name=machine.simulated))
    output.say(
        _("{product} · {arch} · {os} · driver {driver} · CUDA {cuda}").format(
            product=machine.product or machine.hostname or "?",
            arch=machine.arch,
            os=machine.os,
            driver=machine.driver or "-",
            cuda=machine.cuda or "-",
        )
    )
    for gpu in machine.gpus:
        output.say(
            _("GPU {index}  {name}  cc {capability}  {kind} {memory:.1f} GiB, {free:.1f} free").format(
                index=gpu.index,
                name=gpu.name,
                capability=gpu.compute_capability,
                kind=_("unified") if gpu.unified else _("memory"),
                memory=gpu.memory_mib / 1024,
                free=gpu.memory_free_mib / 1024,
            )
        )
    for group in machine.nvlink_groups:
        output.say(_("NVLink joins GPUs {group}").format(group=", ".join(map(str, group))))


def _say_checks(found: tuple[Check, ...]) -> None:
    words = {"ok": _("OK"), "warn": _("WARN"), "fail": _("FAIL"), "skip": _("SKIP")}
    for check in found:
        output.say(f"{words[check.status]:<5} {check.id:<14} {check.detail}")
        if check.status not in ("warn", "fail"):
            continue
        if check.hint:
            output.say(f"{'':<20} {check.hint}")
        if check.command:
            output.say(f"{'':<20} $ {check.command}")


def _say_budget(found: Budget) -> None:
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
            (_("what"), "GiB", _("origin")),
            (
                (
                    title,
                    _gib(figures[name]),
                    found.memory.origins.get(name, "-"),
                )
                for name, title in names.items()
            ),
        )
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
    output.say(explain(limits))
    for warning in limits.warnings:
        output.say(f"{_('FAIL') if warning.refuses else _('WARN')}  {warning.text}")


def _gib(figure: float | None) -> str:
    return "?" if figure is None else f"{figure:.2f}"


def _say_reasons(made: LaunchPlan) -> None:
    output.say()
    for reason in made.reasons:
        output.say(f"{reason.subject:<26} {reason.why}")
    for warning in made.warnings:
        output.say(_("Note: {text}").format(text=warning.text))
    for refusal in made.refused:
        output.say(_("Refused: {text}").format(text=refusal.text))
