"""The rules behind a verdict, one function a rule: each returns the reasons it has to give, possibly none."""

from __future__ import annotations

from itertools import combinations

from packaging.version import Version

from wizard.catalog import (
    Model,
    Parser,
    ParserKind,
    Quantization,
    Variant,
    parsers,
    quantization,
    quantizations,
    vllm_facts,
    within,
)
from wizard.compat.groups import GpuGroup
from wizard.compat.types import Reason
from wizard.i18n import _
from wizard.machine import Machine
from wizard.runtime import Runtime


def model_rule(model: Model) -> tuple[Reason, ...]:
    """What is known about the model whatever the machine."""
    reasons = []
    if model.warning:
        code = "model-cannot-call-tools" if model.blocked else "model-warning"
        reasons.append(Reason(code=code, text=_(model.warning), source=model.source, refuses=model.blocked))
    if model.chat_template:
        text = _(
            "Its tool calls need vLLM's own chat template {file}, which lies in the examples folder of "
            "vLLM's source and container images, not in the wheel. Name it with --chat-template."
        ).format(file=model.chat_template)
        reasons.append(Reason(code="chat-template", text=text, source=model.source))
    return tuple(reasons)


def licence_rule(variant: Variant) -> tuple[Reason, ...]:
    """Some weights are handed out only to accounts that accepted their licence."""
    if not variant.gated:
        return ()
    text = _("{checkpoint} is gated: accept its licence on Hugging Face, and have a token at hand.")
    text = text.format(checkpoint=variant.checkpoint)
    return (Reason(code="gated", text=text, source=variant.source),)


def version_rule(model: Model, variant: Variant, runtime: Runtime) -> tuple[Reason, ...]:
    """The vLLM at hand must know the model and the variant."""
    needed = max((model.min_vllm, variant.min_vllm or model.min_vllm), key=Version)
    name = model.name if needed == model.min_vllm else variant.checkpoint
    if runtime.version is None or Version(runtime.version) >= Version(needed):
        return ()
    text = _("{model} needs vLLM {needed} or newer; this one is {version}.").format(
        model=name, needed=needed, version=runtime.version
    )
    return (Reason(code="vllm-too-old", text=text, source=model.source, refuses=True),)


def capability_rule(capability: int, runtime: Runtime) -> tuple[Reason, ...]:
    """The vLLM at hand must hold code for the GPU's generation."""
    if runtime.version is None or runtime.cpu_build:
        return ()
    version = Version(runtime.version)
    held = [entry for entry in vllm_facts().capability_support if Version(entry.since) <= version]
    if not held or capability >= held[-1].min_capability:
        return ()
    text = _("Ready-made builds of vLLM {version} hold no code for compute capability {capability}.").format(
        version=runtime.version, capability=dotted(capability)
    )
    return (Reason(code="gpu-not-in-build", text=text, source=held[-1].source, refuses=True),)


def quantization_rule(variant: Variant, capability: int) -> tuple[Reason, ...]:
    """Native, through weight-only kernels, through a fallback format, or impossible on this generation."""
    entry = quantization(variant.quantization)
    where = {"format": entry.title, "capability": dotted(capability)}
    if _native(entry, capability):
        text = _("{format} runs natively on compute capability {capability}.").format(**where)
        return (Reason(code="native", text=text, source=entry.source),)
    if entry.weight_only_capability is not None and capability >= entry.weight_only_capability:
        text = _(
            "{format} is unpacked to 16 bit on compute capability {capability}: "
            "weight-only, it saves memory and computes no faster."
        ).format(**where)
        return (Reason(code="weight-only", text=text, source=entry.source),)
    if entry.fallback is not None and _native(other := quantization(entry.fallback), capability):
        text = _("{format} is computed as {other} on compute capability {capability}.").format(
            other=other.title, **where
        )
        return (Reason(code="fallback-format", text=text, source=entry.source),)
    text = _("{format} needs compute capability {needed}; this GPU has {capability}.").format(
        needed=dotted(_floor(entry)), **where
    )
    return (Reason(code="format-impossible", text=text, source=entry.source, refuses=True),)


def plugin_rule(variant: Variant, runtime: Runtime) -> tuple[Reason, ...]:
    """Formats that left vLLM's tree need their plugin; the installed vLLM is believed before the table."""
    entry = quantization(variant.quantization)
    version = runtime.version or vllm_facts().newest
    if entry.plugin is None or within(version, None, entry.last_version):
        return ()
    registered = runtime.choices.get("--quantization", ())
    if entry.id in registered:
        return ()
    text = _("{format} left vLLM after {last}. Install its plugin beside vLLM {version}: {command}")
    text = text.format(
        format=entry.title, last=entry.last_version, version=version, command=f"pip install {entry.plugin}"
    )
    missing = bool(registered)
    return (Reason(code="needs-plugin", text=text, source=entry.source, refuses=missing, doubts=not missing),)


def parser_rule(model: Model, runtime: Runtime) -> tuple[Reason, ...]:
    """The parsers must be registered in the vLLM at hand; the installed one is believed before the table."""
    tool = model.parser("tool", runtime.version)
    if tool is None:
        if model.blocked:
            return ()
        text = _("No parser of vLLM reads the tool calls of {model}.").format(model=model.name)
        return (Reason(code="no-parser", text=text, source=model.source, refuses=True),)
    if model.tool_parser_plugin:
        text = _("Parser {parser} is a file of the checkpoint: name {file} with --tool-parser-plugin.")
        text = text.format(parser=tool, file=model.tool_parser_plugin)
        reasons = [Reason(code="parser-plugin", text=text, source=model.source)]
    else:
        reasons = [_registered("tool", tool, runtime.tool_parsers, runtime)]
    reasoning = model.parser("reasoning", runtime.version)
    if reasoning is not None:
        reasons.append(_registered("reasoning", reasoning, runtime.reasoning_parsers, runtime))
    return tuple(reasons)


def _registered(kind: ParserKind, name: str, asked: tuple[str, ...], runtime: Runtime) -> Reason:
    version = runtime.version or vllm_facts().newest
    if asked and runtime.kind != "assumed":
        known, source = name in asked, _("asked of vLLM {version} itself").format(version=version)
    else:
        entry = next((entry for entry in parsers(kind) if entry.name == name), None)
        known = entry is not None and _covers(entry, version)
        source = entry.source if entry else ""
    if known:
        text = _("Parser {parser} is known to vLLM {version}.").format(parser=name, version=version)
        return Reason(code="parser-known", text=text, source=source)
    text = _("vLLM {version} does not know the parser {parser}.").format(parser=name, version=version)
    return Reason(code="parser-unknown", text=text, source=source, refuses=True)


def _covers(entry: Parser, version: str) -> bool:
    """A parser still present in the newest version the tables saw is taken to be in newer ones too."""
    asked = Version(version)
    newest_seen = Version(entry.last_version) >= Version(vllm_facts().newest)
    return Version(entry.first_version) <= asked and (newest_seen or asked <= Version(entry.last_version))


def group_rule(machine: Machine, group: GpuGroup) -> tuple[Reason, ...]:
    """What spreading a model over several GPUs means here."""
    if len(group.gpus) == 1:
        return ()
    names = ", ".join(str(index) for index in group.indices)
    if group.pipeline > 1:
        text = _(
            "Spread over GPUs {gpus}: tensor parallel inside an NVLink group, pipeline parallel across them."
        )
        return (Reason(code="islands", text=text.format(gpus=names), source="vLLM: parallelism and scaling"),)
    linked = any(set(group.indices) <= set(island) for island in machine.nvlink_groups)
    if linked:
        text = _("Spread over GPUs {gpus}, which NVLink joins.")
        return (Reason(code="nvlink", text=text.format(gpus=names), source="NVML"),)
    text = _("Spread over GPUs {gpus} without NVLink: it works over PCIe, slower.")
    return (Reason(code="pcie", text=text.format(gpus=names), source="vLLM: parallelism and scaling"),)


def leftover_rule(machine: Machine, group: GpuGroup) -> tuple[Reason, ...]:
    """GPUs that could be used and are not part of the group, by their own NVLink groups."""
    left = [gpu.index for gpu in machine.gpus if gpu.usable and gpu.index not in group.indices]
    if not left:
        return ()
    islands = [tuple(index for index in island if index in left) for island in machine.nvlink_groups]
    alone = tuple(index for index in left if not any(index in island for island in islands))
    names = "; ".join(", ".join(map(str, part)) for part in (*islands, alone) if part)
    apart = not any(gpu.links.get(str(index)) for gpu in group.gpus for index in left)
    text = _("GPUs {gpus} stay free: a second engine could use them.")
    if apart and len(group.gpus) > 1 and machine.nvlink_groups:
        text = _("GPUs {gpus} stay free: no NVLink joins them to these. A second engine could use them.")
    return (Reason(code="gpus-left", text=text.format(gpus=names), source="NVML"),)


def peers_rule(group: GpuGroup) -> tuple[Reason, ...]:
    """GPUs of the group that cannot reach each other's memory: everything between them takes the long way."""
    blocked = [
        (a.index, b.index) for a, b in combinations(group.gpus, 2) if str(b.index) in a.state.blocked_peers
    ]
    if not blocked or group.pipeline > 1:
        return ()
    text = _(
        "GPUs {a} and {b} cannot reach each other's memory: traffic goes through the host's. If the start "
        "hangs, set NCCL_P2P_DISABLE=1."
    ).format(a=blocked[0][0], b=blocked[0][1])
    return (Reason(code="peers-blocked", text=text, source="NVML"),)


def formats_rule(capability: int) -> tuple[Reason, ...]:
    """The weight formats that no kernel of vLLM runs on this generation, so that nobody looks for them."""
    impossible = [
        entry.title
        for entry in quantizations()
        if capability < _floor(entry)
        and (entry.fallback is None or not _native(quantization(entry.fallback), capability))
    ]
    if not impossible:
        return ()
    text = _("Not offered on compute capability {capability}, where vLLM has no kernels for them: {formats}.")
    text = text.format(capability=dotted(capability), formats=", ".join(impossible))
    return (
        Reason(code="formats-ruled-out", text=text, source="vLLM quantization layers, get_min_capability"),
    )


def _native(entry: Quantization, capability: int) -> bool:
    return entry.native_capability is not None and capability >= entry.native_capability


def _floor(entry: Quantization) -> int:
    floors = (entry.native_capability, entry.weight_only_capability)
    return min((floor for floor in floors if floor is not None), default=0)


def dotted(capability: int) -> str:
    """sm_121 as people write it: 12.1."""
    return f"{capability // 10}.{capability % 10}"


def badges(capability: int) -> tuple[str, ...]:
    """Short names of the number formats a GPU generation computes in, widest first."""
    native = [entry for entry in quantizations() if entry.badge and _native(entry, capability)]
    return tuple(entry.badge for entry in sorted(native, key=lambda entry: (-entry.bits, entry.badge)))
