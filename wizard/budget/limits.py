"""opencode's limits for a window of vLLM, such that it neither loops nor asks for what vLLM refuses.

opencode tidies a conversation up when a step ended above ``limit.input - compaction.reserved``, or without
``limit.input`` above ``limit.context - limit.output``. Nothing counts the attempts: when the first prompt
alone is over the line, it tidies up for ever. The proven limits and all figures are in assets/opencode.toml.
"""

from __future__ import annotations

import msgspec

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
    thinks: bool = False,
    opencode_version: str | None = None,
) -> Limits:
    """The limits to write for a server with this window, with what a person must know about them.

    ``output`` is the user's wish for the longest answer; ``base_prompt_tokens`` a measured first prompt, else
    the table's for ``opencode_version`` (None: the newest). ``thinks``: the answer also holds the thinking.
    """
    facts = opencode_facts()
    prompt = _base_prompt(opencode_version)
    base = prompt.plan_with if base_prompt_tokens is None else base_prompt_tokens
    row = next((entry for entry in _rows() if entry.context <= window), _rows()[-1])
    room = max(1, window - _margin(row, window))
    if output is not None:
        answer = max(1, min(output, facts.output_cap))
    else:
        answer = _output(row, window)
        if thinks:
            answer = max(answer, _thinking_output(room, base))
    found = Limits(
        context=window,
        input=room,
        output=answer,
        reserved=answer,
        tool_output=_tool_output(row, window) if reached(opencode_version, facts.tool_output_since) else None,
        base_prompt_tokens=base,
        base_prompt_origin="assumed" if base_prompt_tokens is None else "measured",
        room_tokens=max(0, room - answer - base),
    )
    smallest = facts.refuse_below
    if base_prompt_tokens is not None and 2 * base <= prompt.trimmed + prompt.measured:
        smallest = facts.refuse_below_trimmed
    return msgspec.structs.replace(found, warnings=_warnings(found, smallest, output, thinks))


def would_loop(
    context: int,
    input: int | None,
    output: int,
    reserved: int | None,
    base_prompt: int,
    *,
    window: int | None = None,
) -> BudgetWarning | None:
    """The warning for limits with which opencode 1.x loops or fails from the first request, or None.

    ``input`` and ``reserved`` are None where the configuration does not set them, ``context`` is 0 where it
    sets no limit; ``window`` is the server's, when it is known.
    """
    facts = opencode_facts()
    asked = min(output, facts.output_cap) if output > 0 else facts.output_cap
    if context > 0:
        kept = min(facts.reserved_default, asked) if reserved is None else reserved
        line = context - asked if input is None else input - kept
        if line < base_prompt + facts.turn_tokens:
            return BudgetWarning(
                code="compaction-loop",
                text=_(
                    "opencode would tidy up for ever: it does so above {line} tokens, "
                    "and its first prompt alone has about {prompt}."
                ).format(line=max(0, line), prompt=base_prompt),
                refuses=True,
            )
    if window is not None and base_prompt + asked > window:
        return BudgetWarning(
            code="request-refused",
            text=_(
                "opencode would ask for {output} tokens after a prompt of about {prompt}: more than the "
                "window of {window}. vLLM refuses that, and opencode tidies up and asks again without end."
            ).format(output=asked, prompt=base_prompt, window=window),
            refuses=True,
        )
    return None


def explain(found: Limits) -> str:
    """What the limits mean for the user: how much is theirs, and when opencode tidies up."""
    files = found.room_tokens // (500 * opencode_facts().tokens_per_line)
    room = ngettext(
        "opencode needs {prompt} tokens before you type; {room} are yours, about {files} file of 500 lines.",
        "opencode needs {prompt} tokens before you type; {room} are yours, about {files} files of 500 lines.",
        files,
    ).format(prompt=f"{found.base_prompt_tokens:,}", room=f"{found.room_tokens:,}", files=files)
    line = _("It tidies up at {line} tokens.").format(line=f"{max(0, found.tidies_up_at):,}")
    return f"{room} {line}"


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
    """The cap in proportion to the window, or None where opencode's own is not larger."""
    facts = opencode_facts()
    if row.tool_output_max_bytes is None or row.tool_output_max_lines is None:
        return None
    size = _scaled(row.tool_output_max_bytes, row, window, 1)
    if size >= facts.tool_output_max_bytes:
        return None
    lines = min(_scaled(row.tool_output_max_lines, row, window, 1), facts.tool_output_max_lines)
    return ToolOutputCap(max_bytes=size, max_lines=lines)


def _warnings(found: Limits, smallest: int, wished: int | None, thinks: bool) -> tuple[BudgetWarning, ...]:
    facts = opencode_facts()
    warnings = []
    if found.context < smallest:
        text = _("A window of {window} tokens is too small: opencode needs {needed}.")
        text = text.format(window=found.context, needed=smallest)
        warnings.append(BudgetWarning(code="window-too-small", text=text, refuses=True))
    elif found.context < facts.warn_below:
        text = _(
            "A window of {window} tokens is small: opencode tidies up often. {better} or more is better."
        )
        text = text.format(window=found.context, better=facts.warn_below)
        warnings.append(BudgetWarning(code="window-small", text=text))
    loop = would_loop(
        found.context,
        found.input,
        found.output,
        found.reserved,
        found.base_prompt_tokens,
        window=found.context,
    )
    if loop is not None:
        warnings.append(loop)
    elif found.tidies_up_at < facts.prompts_of_room * found.base_prompt_tokens:
        text = _(
            "Little room: opencode's own prompt takes {prompt} of the {line} tokens before it tidies up."
        )
        text = text.format(prompt=found.base_prompt_tokens, line=found.tidies_up_at)
        warnings.append(BudgetWarning(code="little-room", text=text))
    if found.output < facts.output_warn_below:
        text = _("Answers of {output} tokens are too short: a call that writes a file holds the whole file.")
        text = text.format(output=found.output)
        refuses = found.output < facts.output_refuse_below
        warnings.append(BudgetWarning(code="output-small", text=text, refuses=refuses))
    if wished is not None and wished > facts.output_cap:
        text = _("opencode never asks for more than {cap} tokens unless {variable} is set.")
        text = text.format(cap=facts.output_cap, variable=facts.output_cap_env)
        warnings.append(BudgetWarning(code="output-capped", text=text))
    if thinks and found.output < facts.thinking_output:
        text = _("The model thinks before it answers: {output} tokens may end in the middle of a thought.")
        text = text.format(output=found.output)
        warnings.append(BudgetWarning(code="thinking-output-small", text=text))
    return tuple(warnings)
