"""The checks of the live test: each asks through its ``Talk`` and judges what came.

A check raises Trouble where the server gives no usable answer; the run makes a failure of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wizard.smoke.checks import calls, limits, seen, server, words
from wizard.smoke.judge import Judgement
from wizard.smoke.talk import Talk

CHECKS: Mapping[str, Callable[[Talk], Judgement]] = {
    "models": server.models,
    "window": server.window,
    "chat": words.chat,
    "tool-call": calls.plain_call,
    "tool-call-stream": calls.first_streamed,
    "stream-equals-plain": seen.stream_equals_plain,
    "tool-result": words.tool_result,
    "arguments-text": calls.streamed_call,
    "arguments-nested": calls.streamed_call,
    "arguments-optional": calls.streamed_call,
    "arguments-none": calls.streamed_call,
    "many-tools": calls.streamed_call,
    "parallel": calls.parallel,
    "parallel-results": words.parallel_results,
    "history": calls.history,
    "opencode-prompt": calls.opencode_prompt,
    "title": words.title,
    "choice-none": calls.choice_none,
    "choice-required": calls.choice_required,
    "choice-named": calls.choice_named,
    "finish": words.finish,
    "output-limit": limits.output_limit,
    "over-long": limits.over_long,
    "wrong-model": server.wrong_model,
    "wrong-key": server.wrong_key,
    "cancel": limits.cancelled_stream,
    "usage": seen.usage,
    "leaks": seen.leaks,
    "garbage": seen.garbage,
}
"""By the ids of ``assets/smoke.toml``, which holds their order."""
