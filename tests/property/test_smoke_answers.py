"""However a server cuts an answer into pieces, the same answer is put together."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wizard.smoke.answer import from_plain, from_stream

TEXT = st.text(max_size=40)
CALLS = st.lists(
    st.tuples(st.text(min_size=1, max_size=8), st.dictionaries(TEXT, st.integers(), max_size=3)), max_size=3
)


def cut(text: str, places: list[int]) -> list[str]:
    bounds = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in itertools.pairwise(bounds)]


@given(TEXT, TEXT, CALLS, st.lists(st.integers(0, 200), max_size=6))
def test_a_stream_says_what_the_plain_answer_says(
    content: str, reasoning: str, calls: list[tuple[str, dict[str, int]]], places: list[int]
) -> None:
    made = [
        {"id": f"id{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(calls)
    ]
    message = {
        "role": "assistant",
        "content": content or None,
        "reasoning": reasoning or None,
        "tool_calls": made,
    }
    usage = {"completion_tokens": 7}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}

    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning": piece} for piece in cut(reasoning, places)]
    deltas += [{"content": piece} for piece in cut(content, places)]
    for index, call in enumerate(made):
        function = call["function"]
        assert isinstance(function, dict)
        head = {"index": index, "id": call["id"], "function": {"name": function["name"]}}
        deltas.append({"content": None, "tool_calls": [head]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in cut(function["arguments"], places)
        ]
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks += [
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage},
    ]
    lines = [line for chunk in chunks for line in (f"data: {json.dumps(chunk)}", "")]

    streamed = from_stream([*lines, ": a comment", "data: [DONE]"], time.monotonic())
    plain = from_plain(json.dumps(body).encode())
    assert streamed.calls == plain.calls
    assert (streamed.content, streamed.reasoning) == (plain.content, plain.reasoning) == (content, reasoning)
    assert streamed.completion_tokens == plain.completion_tokens == 7
