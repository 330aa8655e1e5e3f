"""Limits with which opencode runs in circles or fails from the first request, each told in its own words.

After every step opencode compares what the conversation takes with a line and, above it, replaces the
conversation by a summary. Nothing counts the attempts: where the first prompt alone is over the line it does
so for ever. The same happens when vLLM refuses a request for its length and accepts the one for the summary.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from wizard.budget.types import BudgetWarning
from wizard.catalog import opencode_facts, reached, vllm_facts
from wizard.i18n import _


def output_cap(environ: Mapping[str, str] | None = None) -> int:
    """The longest answer opencode ever asks for, tokens: its own cap, or what the variable says."""
    facts = opencode_facts()
    value = (os.environ if environ is None else environ).get(facts.output_cap_env, "")
    return int(value) if value.isascii() and value.isdecimal() and int(value) > 0 else facts.output_cap


def tidies_up_at(
    context: int, input: int | None, asked: int, reserved: int | None, opencode_version: str | None = None
) -> int:
    """The size of a conversation above which opencode replaces it by a summary, tokens; it may be negative.

    ``asked`` is the answer opencode asks for. An unknown version counts as one of the first line.
    """
    facts = opencode_facts()
    if opencode_version is not None and reached(opencode_version, facts.reserve_always_since):
        kept = facts.reserved_default if reserved is None else reserved
        line = context - max(asked, kept)
        return line if input is None else min(line, input - kept)
    if input is None:
        return context - asked
    return input - (min(facts.reserved_default, asked) if reserved is None else reserved)


def would_loop(
    context: int,
    input: int | None,
    output: int,
    reserved: int | None,
    base_prompt: int,
    *,
    window: int | None = None,
    cap: int | None = None,
    opencode_version: str | None = None,
    vllm_version: str | None = None,
) -> BudgetWarning | None:
    """The warning for limits with which opencode loops or fails from the first request, or None.

    ``input`` and ``reserved`` are None where the configuration does not set them, ``context`` is 0 where it
    sets no limit; ``window`` is the server's, when it is known. ``cap`` is ``output_cap`` of the environment
    opencode will run in; None: its own. An unknown vLLM is taken for one that refuses too long answers.
    """
    facts = opencode_facts()
    most = facts.output_cap if cap is None else cap
    asked = min(output, most) if output > 0 else most
    refused = None if window is None else _refusal(output, asked, base_prompt, window, vllm_version)
    if context <= 0:
        return refused
    line = tidies_up_at(context, input, asked, reserved, opencode_version)
    if line >= base_prompt + facts.turn_tokens:
        return refused
    code, text = _over_the_line(context, input, output, asked, reserved, line, base_prompt)
    if window is not None and base_prompt + asked > window:
        text = f"{text} {_sum(asked, window, refused is None)}"
    return BudgetWarning(code=code, text=text, refuses=True)


def _over_the_line(
    context: int, input: int | None, output: int, asked: int, reserved: int | None, line: int, prompt: int
) -> tuple[str, str]:
    """Why the first prompt is over the line: a code, and the words."""
    facts = opencode_facts()
    figures = {
        "context": _count(context),
        "asked": _count(asked),
        "line": _count(max(0, line)),
        "prompt": _count(prompt),
        "output": _count(output),
    }
    if output <= 0:
        text = _(
            "limit.output is 0, and opencode takes that for {asked}: of a context of {context} tokens {line} "
            "are left, and its first prompt alone has about {prompt}. It would tidy up for ever."
        )
        return "output-zero", text.format(**figures)
    if input is None and context <= asked:
        text = _(
            "limit.output of {output} lets an answer of {asked} tokens fill the whole context of {context}: "
            "nothing is left for a prompt. opencode would tidy up for ever."
        )
        return "output-fills-context", text.format(**figures)
    if input is not None and reserved is not None and input <= reserved:
        text = _(
            "compaction.reserved of {reserved} tokens takes up all of limit.input, {input}: "
            "nothing is left for a prompt. opencode would tidy up for ever."
        )
        return "reserve-fills-input", text.format(reserved=_count(reserved), input=_count(input))
    if line < tidies_up_at(context, input, asked, reserved):
        text = _(
            "opencode 2 keeps {reserve} tokens free unless compaction.reserved says less: of {context} "
            "tokens {line} are left, and its first prompt alone has about {prompt}. "
            "It would tidy up all the time."
        )
        return "version-2-reserve", text.format(**figures, reserve=_count(facts.reserved_default))
    text = _(
        "opencode would tidy up for ever: it does so above {line} tokens, "
        "and its first prompt alone has about {prompt}."
    )
    return "compaction-loop", text.format(**figures)


def _refusal(
    output: int, asked: int, prompt: int, window: int, vllm_version: str | None
) -> BudgetWarning | None:
    """What comes of the first request where vLLM refuses it, or None where it does not."""
    shortened = vllm_version is not None and reached(vllm_version, vllm_facts().answers_shortened_since)
    if (asked if shortened else prompt + asked) <= window:
        return None
    start = _("opencode would ask for {asked} tokens after a prompt of about {prompt}.")
    if output <= 0:
        start = _("No limit is set: opencode asks for {asked} tokens after a prompt of about {prompt}.")
    if opencode_facts().summary_tokens + asked < window:
        code, end = "request-refused", _("opencode then tidies up and asks the same again, without end.")
    else:
        code, end = "request-too-large", _("Not even a summary fits: opencode gives up.")
    start = start.format(asked=_count(asked), prompt=_count(prompt))
    return BudgetWarning(code=code, text=f"{start} {_sum(asked, window)} {end}", refuses=True)


def _sum(asked: int, window: int, earlier_only: bool = False) -> str:
    """The sum that does not come out, as vLLM states it: it counts up to the first token too many."""
    if asked > window:
        text = _("vLLM refuses answers of {asked} tokens in a window of {window}.")
    elif earlier_only:
        text = _("Versions of vLLM before {since} also refuse the request: {asked} + {more} > {window}.")
    else:
        text = _("vLLM refuses that: {asked} + {more} > {window}.")
    return text.format(
        asked=_count(asked),
        more=_count(window - asked + 1),
        window=_count(window),
        since=vllm_facts().answers_shortened_since,
    )


def _count(number: int) -> str:
    return f"{number:,}"
