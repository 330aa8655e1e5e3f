"""opencode's limits for a window of vLLM, such that it neither loops nor asks for what vLLM refuses.

opencode tidies a conversation up when a step ended above ``limit.input - compaction.reserved``, or without
``limit.input`` above ``limit.context - limit.output``. Nothing counts the attempts: when the first prompt
alone is over the line, it tidies up for ever. The proven limits and all figures are in assets/opencode.toml.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from wizard.budget.loop import would_loop
from wizard.budget.types import BudgetWarning, Limits, ToolOutputCap
from wizard.catalog import BasePrompt, LimitsRow, opencode_facts, reached
from wizard.i18n import _, ngettext

_STEP = 1024
"""Output limits are whole multiples of this; margins of half of it."""


def limits(
    window: int,
    *,
    output: int | None = None,
    base_prompt_tokens: int | None = None,
    extra_prompt_tokens: int = 0,
    trim_tools: bool = False,
    thinks: bool = False,
    opencode_version: str | None = None,
    vllm_version: str | None = None,
    cap: int | None = None,
) -> Limits:
    """The limits to write for a server with this window, with what a person must know about them.

    ``output`` is the user's wish for the longest answer. The first prompt is ``base_prompt_tokens`` where it
    was measured, else the table's for ``opencode_version`` (None: the newest) and ``extra_prompt_tokens`` of
    the user's own instructions and tools. ``trim_tools`` denies the tools a coding job can do without.
    ``thinks``: the answer also holds the thinking. ``cap`` is what ``output_cap`` says of the environment.
    """
    facts = opencode_facts()
    most = facts.output_cap if cap is None else cap
    prompt = _base_prompt(opencode_version)
    few = base_prompt_tokens is not None and 2 * base_prompt_tokens <= prompt.trimmed + prompt.measured
    if base_prompt_tokens is None:
        planned = prompt.trimmed * prompt.plan_with // prompt.measured if trim_tools else prompt.plan_with
        base = planned + extra_prompt_tokens
    else:
        base = base_prompt_tokens - (prompt.measured - prompt.trimmed if trim_tools and not few else 0)
    row = next((entry for entry in _rows() if entry.context <= window), _rows()[-1])
    room = max(1, window - _margin(row, window))
    if output is not None:
        answer = max(1, min(output, most))
    else:
        answer = min(_output(row, window), most)
        if thinks:
            answer = min(max(answer, _thinking_output(room, base)), most)
    found = Limits(
        context=window,
        input=room,
        output=answer,
        reserved=answer,
        tool_output=_tool_output(row, window) if reached(opencode_version, facts.tool_output_since) else None,
        base_prompt_tokens=base,
        base_prompt_origin="assumed" if base_prompt_tokens is None else "measured",
        extra_prompt_tokens=extra_prompt_tokens if base_prompt_tokens is None else 0,
        denied_tools=facts.trimmed_tools if trim_tools else (),
        room_tokens=max(0, room - answer - base),
    )
    loop = would_loop(
        window,
        room,
        answer,
        answer,
        base,
        window=window,
        cap=cap,
        opencode_version=opencode_version,
        vllm_version=vllm_version,
    )
    warnings = (
        *_about_window(found, facts.refuse_below_trimmed if few or trim_tools else facts.refuse_below),
        *_about_room(found, loop),
        *_about_answers(found, output, most, thinks),
    )
    return msgspec.structs.replace(found, warnings=warnings)


def explain(found: Limits) -> str:
    """What the limits mean for the user: how much is theirs, and when opencode tidies up."""
    files = found.room_tokens // (500 * opencode_facts().tokens_per_line)
    room = ngettext(
        "opencode needs {prompt} tokens before you type; {room} are yours, about {files} file of 500 lines.",
        "opencode needs {prompt} tokens before you type; {room} are yours, about {files} files of 500 lines.",
        files,
    ).format(prompt=f"{found.base_prompt_tokens:,}", room=f"{found.room_tokens:,}", files=files)
    line = _("It tidies up at {line} tokens.").format(line=f"{max(0, found.tidies_up_at):,}")
    told = [room, line]
    if found.extra_prompt_tokens:
        text = _("{extra} of the first are your own instructions and tool servers.")
        told.insert(1, text.format(extra=f"{found.extra_prompt_tokens:,}"))
    if found.tool_output is not None:
        text = _("Of what a command prints it sees {lines} lines.")
        told.append(text.format(lines=f"{found.tool_output.max_lines:,}"))
    if 0 < found.room_tokens < opencode_facts().tool_output_max_bytes // opencode_facts().bytes_per_token:
        text = _("It reads files whole: one of more than {lines} lines is too long.")
        told.append(text.format(lines=f"{found.room_tokens // opencode_facts().tokens_per_line:,}"))
    return " ".join(told)


def needs_trimming(window: int) -> bool:
    """Whether opencode works in this window only without the tools a coding job can do without."""
    facts = opencode_facts()
    return facts.refuse_below_trimmed <= window < facts.refuse_below


def _rows() -> list[LimitsRow]:
    return sorted(opencode_facts().limits, key=lambda row: row.context, reverse=True)


def _base_prompt(version: str | None) -> BasePrompt:
    known = [entry for entry in opencode_facts().base_prompt if reached(version, entry.since)]
    return (known or opencode_facts().base_prompt)[-1]


def _scaled(figure: int, row: LimitsRow, window: int, step: int) -> int:
    """A figure of the nearest smaller proven window in proportion, in whole steps, at least one.

    Above the largest proven window the figures stay: an answer or a step does not grow with the window.
    """
    if row.context == _rows()[0].context:
        return figure
    return max(step, figure * window // row.context // step * step)


def _output(row: LimitsRow, window: int) -> int:
    return min(_scaled(row.output, row, window, _STEP), max(1, window // 2))


def _margin(row: LimitsRow, window: int) -> int:
    """Tokens one step may add before opencode looks at the size."""
    return _scaled(row.context - row.input, row, window, _STEP // 2)


def _thinking_output(room: int, base: int) -> int:
    """As much for thinking as leaves room to work, up to what such models need."""
    facts = opencode_facts()
    spare = room - int(facts.prompts_of_room * base)
    return min(facts.thinking_output, spare // _STEP * _STEP)


def _tool_output(row: LimitsRow, window: int) -> ToolOutputCap | None:
    """The cap in proportion to the margin it has to fit in, or None where opencode's own is not larger."""
    facts = opencode_facts()
    if row.tool_output_max_bytes is None or row.tool_output_max_lines is None:
        return None
    size = row.tool_output_max_bytes * _margin(row, window) // (row.context - row.input)
    if size >= facts.tool_output_max_bytes:
        return None
    lines = min(_scaled(row.tool_output_max_lines, row, window, 1), facts.tool_output_max_lines)
    return ToolOutputCap(max_bytes=size, max_lines=lines)


def _about_window(found: Limits, smallest: int) -> Iterator[BudgetWarning]:
    """A window below the floors."""
    facts = opencode_facts()
    if found.context < smallest:
        text = _("A window of {window} tokens is too small: opencode needs {needed}.")
        text = text.format(window=found.context, needed=smallest)
        if needs_trimming(found.context):
            offer = _("Without its tools {tools} it works from {needed} on: that can be asked for.")
            offer = offer.format(tools=", ".join(facts.trimmed_tools), needed=facts.refuse_below_trimmed)
            text = f"{text} {offer}"
        yield BudgetWarning(code="window-too-small", text=text, refuses=True)
    elif found.context < facts.warn_below:
        text = _(
            "A window of {window} tokens is small: opencode tidies up often. {better} or more is better."
        )
        yield BudgetWarning(
            code="window-small", text=text.format(window=found.context, better=facts.warn_below)
        )


def _about_room(found: Limits, loop: BudgetWarning | None) -> Iterator[BudgetWarning]:
    """What is left between the first prompt and the line above which opencode tidies up."""
    facts = opencode_facts()
    least = found.base_prompt_tokens + facts.turn_tokens + facts.kept_tokens
    if loop is not None:
        yield loop
    elif found.tidies_up_at < least:
        text = _(
            "opencode would tidy up after every step: it does so above {line} tokens, its first prompt has "
            "about {prompt}, and it always keeps the last {kept}."
        )
        text = text.format(line=found.tidies_up_at, prompt=found.base_prompt_tokens, kept=facts.kept_tokens)
        yield BudgetWarning(code="no-room", text=text, refuses=True)
    elif found.tidies_up_at < facts.prompts_of_room * found.base_prompt_tokens:
        text = _(
            "Little room: opencode's own prompt takes {prompt} of the {line} tokens before it tidies up."
        )
        yield BudgetWarning(
            code="little-room", text=text.format(prompt=found.base_prompt_tokens, line=found.tidies_up_at)
        )


def _about_answers(found: Limits, wished: int | None, most: int, thinks: bool) -> Iterator[BudgetWarning]:
    """Answers that are too short for the work, or shorter than wished."""
    facts = opencode_facts()
    if found.output < facts.output_warn_below:
        text = _("Answers of {output} tokens are too short: a call that writes a file holds the whole file.")
        refuses = found.output < facts.output_refuse_below
        yield BudgetWarning(code="output-small", text=text.format(output=found.output), refuses=refuses)
    if most < facts.output_cap:
        text = _("{variable} is set: opencode asks for answers of at most {cap} tokens.")
        yield BudgetWarning(code="output-capped", text=text.format(cap=most, variable=facts.output_cap_env))
    elif wished is not None and wished > most:
        text = _("opencode never asks for more than {cap} tokens unless {variable} says more.")
        yield BudgetWarning(code="output-capped", text=text.format(cap=most, variable=facts.output_cap_env))
    if thinks and found.output < facts.thinking_output:
        text = _("The model thinks before it answers: {output} tokens may end in the middle of a thought.")
        yield BudgetWarning(code="thinking-output-small", text=text.format(output=found.output))
