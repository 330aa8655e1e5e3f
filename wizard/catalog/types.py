"""What the assets know, as frozen types. Every entry names its source."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from wizard.catalog.version import reached

Origin = Literal["measured", "computed", "table", "assumed"]
"""Where a figure comes from; screens show its first letter beside the figure."""

ParserKind = Literal["tool", "reasoning"]

VersionText = Annotated[str, msgspec.Meta(pattern=r"^\d+(\.\d+)+(\.post\d+)?$")]
"""A released version, such as ``0.33.0``."""

Positive = Annotated[int, msgspec.Meta(ge=1)]

Size = Annotated[float, msgspec.Meta(gt=0)]


class Sourced(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every asset entry: ``source`` says where its facts were read."""

    source: str


class GpuModel(Sourced, frozen=True, kw_only=True):
    """A GPU as sold. NVML's own memory figure always wins over ``memory_mib``."""

    id: str
    product: str
    nvml_names: tuple[str, ...]
    compute_capability: Annotated[str, msgspec.Meta(pattern=r"^\d+\.\d$")]
    architecture: str
    memory_mib: Positive
    bandwidth_gbs: Size | None = None
    unified: bool = False
    """Shares the host's memory (GB10, Jetson): NVML then refuses memory queries."""
    nvlink: str = ""
    memory_origin: Literal["nvml", "vendor"] = "vendor"
    """``nvml``: the total a driver reported on a real card; ``vendor``: the label's GB taken as GiB."""
    notes: str = ""


class Parser(Sourced, frozen=True, kw_only=True):
    """A tool-call or reasoning parser of vLLM and the wire format it reads."""

    name: str
    kind: ParserKind
    wire_format: str
    first_version: VersionText
    last_version: VersionText
    markers: tuple[str, ...] = ()
    """Opening tags whose appearance in answered content means a call (or a thought) leaked."""


class ParserPlugin(Sourced, frozen=True, kw_only=True):
    """A file of others that adds a parser to vLLM, and the chat template that belongs to it."""

    parser: str
    file: str
    address: str
    chat_template: str = ""
    tested: str
    """The versions of vLLM its authors tried it with."""


class WireFormat(Sourced, frozen=True, kw_only=True):
    """A format no registered parser reads: its leak is recognised, and there are other ways on."""

    id: str
    markers: tuple[str, ...]
    explanation: str
    successors: tuple[str, ...] = ()
    """Models of the catalogue that do the same work in a format that is read, best first."""
    plugin: ParserPlugin | None = None


class Quantization(Sourced, frozen=True, kw_only=True):
    """A weight format: where it runs natively, where only as stored weights, where not at all.

    Capabilities are ten times the compute capability (sm_89 is 89).
    """

    id: str
    title: str
    bits: Size
    """Bits a weight, scales included, for estimating a size nobody measured."""
    native_capability: int | None = None
    """Lowest capability that computes in it; None: it is unpacked to 16 bit everywhere."""
    weight_only_capability: int | None = None
    """Lowest capability that runs it through weight-only kernels; None: native or not at all."""
    fallback: str | None = None
    """Format that a checkpoint of this one runs as below ``native_capability``, where that one runs."""
    fallback_args: tuple[str, ...] = ()
    """What ``vllm serve`` must be told for the fallback."""
    needs_bf16: bool = False
    last_version: VersionText | None = None
    plugin: str | None = None
    """The package that provides it since it left vLLM's own tree."""
    badge: str = ""
    """Short name of a format worth telling of a GPU that computes in it; empty for the many others."""
    notes: str = ""


class Rule(Sourced, frozen=True, kw_only=True):
    """Why a combination of GPU, format, model and vLLM is refused, doubted or explained.

    Without ``text`` the rule is computed in code, and this is its entry. Else it holds where all conditions
    do; an empty one always does. Capabilities are ten times the compute capability.
    """

    id: str
    disabled: bool = False
    effect: Literal["refuse", "warn", "note"] = "refuse"
    text: str = ""
    """Marked for translation by its place; may name ``{capability}`` and ``{version}``."""
    capability_min: int = 0
    capability_max: int = 9999
    capabilities: tuple[int, ...] = ()
    capabilities_not: tuple[int, ...] = ()
    quantizations: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    """Architectures, models, an AttentionKind, a LayerKind, or ``experts``; one of them is enough."""
    args: tuple[str, ...] = ()
    """What ``vllm serve`` must be told where it holds."""
    since: VersionText | None = None
    until: VersionText | None = None


class LeakMarker(msgspec.Struct, frozen=True, kw_only=True):
    """An opening tag that proves a leak when it shows up in answered content, and who would have read it."""

    marker: str
    kind: Literal["tool", "reasoning"]
    parsers: tuple[str, ...]
    """Parsers that read it; empty: none does."""
    format: str | None = None
    """Id of the wire format when no parser reads it."""


class Variant(Sourced, frozen=True, kw_only=True):
    """One checkpoint of a model."""

    id: str
    checkpoint: str
    quantization: str
    weights_gib: Size
    """GiB (binary) of all weights once loaded, on however many GPUs; without draft layers for speculation."""
    weights_origin: Origin = "table"
    min_vllm: VersionText | None = None
    args: tuple[str, ...] = ()
    download_gib: Size | None = None
    """GiB of the files, where they are larger than what is kept of them; None: ``weights_gib``."""
    gated: bool = False
    """The hub hands it out only to accounts that accepted its licence."""


class EarlierParser(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parser a model had in versions before ``before``."""

    kind: ParserKind
    before: VersionText
    name: str


class Model(Sourced, frozen=True, kw_only=True):
    """A model family member: what it needs on the command line and how good it is at agentic coding."""

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    rank: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Order of preference for agentic coding, 1 is the best of ours; what a user adds leads by default."""
    params_b: Size | None = None
    active_params_b: Size | None = None
    context: Positive
    architecture: str = ""
    tool_parser: str | None = None
    """None: no parser of vLLM is known to read its calls."""
    reasoning_parser: str | None = None
    earlier_parsers: tuple[EarlierParser, ...] = ()
    """Oldest first."""
    tool_parser_plugin: str = ""
    """File of the checkpoint that brings the tool-call parser, where vLLM has none of its own."""
    chat_template: str = ""
    """File of vLLM's examples folder without which its calls are not read."""
    unreadable_by: tuple[str, ...] = ()
    """Parsers that are often tried with it and lose its calls."""
    thinks: bool = False
    """Thinks before it answers, so the output limit needs room for it."""
    min_vllm: VersionText = "0.8.0"
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """What vLLM needs in its environment for it."""
    warning: str = ""
    """Why it cannot be recommended, shown with the verdict."""
    blocked: bool = False
    """Known not to work as an agent whatever the machine: the warning says why."""
    config: dict[str, object] = {}
    """The fields of its config.json that the memory arithmetic needs; empty: no figure is given."""
    config_of: str | None = None
    """Id of the model whose ``config`` holds for this one too; fields of its own win."""
    variants: tuple[Variant, ...]

    def parser(self, kind: ParserKind, version: str | None) -> str | None:
        """The parser of a kind for a version of vLLM; an unknown version counts as the newest."""
        for earlier in self.earlier_parsers:
            if earlier.kind == kind and not reached(version, earlier.before):
                return earlier.name
        return self.tool_parser if kind == "tool" else self.reasoning_parser


class CapabilitySupport(Sourced, frozen=True, kw_only=True):
    """From ``since`` on, ready-made builds of vLLM hold code for GPUs of ``min_capability`` and up."""

    since: VersionText
    previous: VersionText | None = None
    """The last version before ``since``: what an older GPU is held at."""
    min_capability: int
    notes: str = ""


class MemoryUtilization(Sourced, frozen=True, kw_only=True):
    """Default of ``--gpu-memory-utilization`` from a version on: a share of the GPU's total memory."""

    since: VersionText
    value: float


class UnifiedMemory(Sourced, frozen=True, kw_only=True):
    """Shares of memory to hand vLLM where GPU and system use the same memory."""

    utilization: float
    max_utilization: float
    notes: str


class BatchDefault(Sourced, frozen=True, kw_only=True):
    """vLLM's batch limits for a device of at least ``min_memory_gib``; the first row that fits holds."""

    min_memory_gib: int
    max_num_batched_tokens: int
    max_num_seqs: int
    except_names: tuple[str, ...] = ()
    """Parts of product names, lower case, that the row does not hold for."""
    except_capabilities: tuple[int, ...] = ()


class MilestonePattern(Sourced, frozen=True, kw_only=True):
    """A stage of vLLM's start and the lines that show it.

    Patterns are searched (not matched) in a line without colour codes and carriage returns. Groups: ``done``
    and ``total`` count, ``value`` is what the stage has to say for itself.
    """

    id: str
    title: str
    """Marked for translation by its place; passed through ``_`` where it is shown."""
    patterns: tuple[str, ...]
    ready: bool = False
    """Worth asking ``/health`` once it was seen."""


class FigurePattern(Sourced, frozen=True, kw_only=True):
    """Lines in which vLLM states what it measured; groups are figures, with thousands separators or without.

    Of the figures of several workers the ``keep`` one holds for all of them.
    """

    patterns: tuple[str, ...]
    keep: Literal["smallest", "largest"]


class FailurePattern(Sourced, frozen=True, kw_only=True):
    """A line of a failed start; the first pattern in the table that is found in it decides.

    ``opens`` begins a block whose last exception is the cause; ``cause`` names the cause (groups ``error``
    and ``text``); ``wrapper`` only reports that something else failed and is never shown as the cause.
    """

    id: str
    role: Literal["opens", "cause", "wrapper"]
    patterns: tuple[str, ...]


class LogFormat(Sourced, frozen=True, kw_only=True):
    """How a line of vLLM's log begins. Both parts may be missing."""

    process: str
    """Pattern with the groups ``process`` and ``pid``."""
    level: str
    """Pattern of what follows it, with the group ``level``."""


class StartPace(Sourced, frozen=True, kw_only=True):
    """For a rough guess of how long a start takes once the weights are on disk."""

    fixed_minutes: float
    gib_per_minute: float
    patience_minutes: float
    """After this long a start is given up, unless weights are still to come."""
    download_gib_per_minute: float


class VllmFacts(Sourced, frozen=True, kw_only=True):
    """What differs between versions of vLLM, for where the installed one cannot be asked."""

    newest: VersionText
    """Newest version the tables were checked against; a newer one is taken to behave like it."""
    support_floor: VersionText
    bf16_capability: int
    """Lowest capability that computes in bfloat16; below it ``--dtype half`` is the way."""
    block_size: int
    """Default number of tokens in a block of the KV cache."""
    graphs_counted_since: VersionText
    """First version that takes the memory of CUDA graphs out of the KV cache's share by default."""
    memory_utilization: tuple[MemoryUtilization, ...]
    unified_memory: UnifiedMemory
    start_pace: StartPace
    batch_default: tuple[BatchDefault, ...]
    capability_support: tuple[CapabilitySupport, ...]
    log: LogFormat
    milestone: tuple[MilestonePattern, ...]
    failure: tuple[FailurePattern, ...]
    figure: tuple[FigurePattern, ...]
    answers_shortened_since: VersionText
    """From then on an answer that does not fit behind its prompt is cut to the room left, not refused."""
    tool_flags: tuple[str, ...]
    """Options that decide whether tool calls arrive."""
