"""What is known about opencode, as frozen types: its prompts, its limits, its shapes."""

from __future__ import annotations

from collections.abc import Mapping

from wizard.catalog.types import Sourced, VersionText


class BasePrompt(Sourced, frozen=True, kw_only=True):
    """What opencode sends before the user typed a word, tokens, from a version on.

    ``measured`` was counted on the raw request; ``plan_with`` adds what a chat template makes of the tools;
    ``trimmed`` is measured with the tools denied that a coding job can do without.
    """

    since: VersionText
    measured: int
    plan_with: int
    trimmed: int
    title: int


class LimitsRow(Sourced, frozen=True, kw_only=True):
    """Limits that ran without a refused request or a loop in a window of ``context`` tokens."""

    context: int
    output: int
    input: int
    reserved: int
    tool_output_max_bytes: int | None = None
    """None: opencode's default does."""
    tool_output_max_lines: int | None = None
    needs_trimmed_tools: bool = False


class Contact(Sourced, frozen=True, kw_only=True):
    """Somebody opencode contacts besides the servers in its configuration, and what stops it."""

    id: str
    host: str
    what: str
    """What it is for."""
    env: Mapping[str, str] = {}
    """Variables that stop it, where opencode is started with them."""
    settings: tuple[str, ...] = ()
    """Root keys of the configuration that stop it."""
    package: str | None = None
    """What is installed into the folders of the configuration, unless a lock file there names it."""
    until: VersionText | None = None
    """Versions from this one on do not do it."""
    without: str = ""
    """What is left to do where no switch exists."""


class OpencodeFacts(Sourced, frozen=True, kw_only=True):
    """What the wizard has to know about opencode. Tokens, unless a name says otherwise."""

    newest: VersionText
    support_floor: VersionText
    npm_package: str
    """What npm installs."""
    package: str
    """The npm package a provider block must name."""
    reserved_provider_prefixes: tuple[str, ...]
    name_words: tuple[str, ...]
    """Words in a served name by which opencode knows a maker's models and treats them accordingly."""
    reasoning_field: str
    """Field in which earlier thinking is sent back to a vLLM of ``reasoning_field_since_vllm`` or later."""
    reasoning_field_since_vllm: VersionText
    output_cap: int
    """opencode never asks for more output than this, whatever the limit says."""
    output_cap_env: str
    """Variable that lifts the cap."""
    refuse_below: int
    refuse_below_trimmed: int
    warn_below: int
    output_refuse_below: int
    output_warn_below: int
    thinking_output: int
    """Least output limit for a model that thinks before it answers."""
    prompts_of_room: float
    """``input - output`` should hold at least this many base prompts, or too little is left to work with."""
    reserved_default: int
    """opencode tidies up this far below ``limit.input``, or an answer's length if that is less."""
    reserve_always_since: VersionText
    """From then on it keeps that reserve with every limit, unless ``compaction.reserved`` says less."""
    turn_tokens: int
    """What a turn holds at least besides the base prompt; with no room for it opencode tidies up for ever."""
    summary_tokens: int
    """What the request for a summary holds besides the conversation."""
    kept_tokens: int
    """What is kept word by word at least when the rest is replaced by a summary."""
    tokens_per_line: int
    bytes_per_token: float
    """Of texts and lists of tools."""
    server_of_tools_tokens: int
    """Assumed for each MCP server whose tools were not counted."""
    instruction_files: tuple[str, ...]
    """Read into the first prompt from the folder of a project or the configuration; the first one counts."""
    chunk_timeout_ms: int
    header_timeout_ms: int
    tool_output_max_bytes: int
    tool_output_max_lines: int
    tool_output_since: VersionText
    unknown_keys_refused_until: VersionText
    title_leaks_before: VersionText
    """Older versions send the first prompt to a hosted model for a title, unless ``small_model`` is set."""
    trimmed_tools: tuple[str, ...]
    contact: tuple[Contact, ...]
    base_prompt: tuple[BasePrompt, ...]
    limits: tuple[LimitsRow, ...]
