"""However a server cuts an answer into pieces, the same answer is put together."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wizard.smoke.answer import from_plain, from_stream
from wizard.smoke.trouble import Trouble

TEXT = st.text(max_size=40)
CALLS = st.lists(
    st.tuples(st.text(min_size=1, max_size=8), st.dictionaries(TEXT, st.integers(), max_size=3)), max_size=3
)


def cut(text: str, places: list[int]) -> list[str]:
    bounds = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in itertools.pairwise(bounds)]


LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@given(
    TEXT, TEXT, CALLS, st.lists(st.integers(0, 200), max_size=6), LINE_ENDS, st.integers(1, 60), st.booleans()
)
def test_a_stream_says_what_the_plain_answer_says(
    content: str,
    reasoning: str,
    calls: list[tuple[str, dict[str, int]]],
    places: list[int],
    end: str,
    size: int,
    escaped: bool,
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
    events = "".join(f"data: {json.dumps(chunk, ensure_ascii=escaped)}{end}{end}" for chunk in chunks)
    sent = f"{events}: a comment{end}data: [DONE]{end}{end}".encode("utf-8", errors="replace")
    packets = [sent[at : at + size] for at in range(0, len(sent), size)]

    streamed = from_stream(packets)
    plain = from_plain(json.dumps(body).encode())
    assert streamed.calls == plain.calls
    assert (streamed.content, streamed.reasoning) == (plain.content, plain.reasoning) == (content, reasoning)
    assert streamed.completion_tokens == plain.completion_tokens == 7


@given(
    st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: f"data: {text}\n\n".encode()))
)
def test_whatever_comes_is_an_answer_or_a_trouble(body: bytes) -> None:
    with contextlib.suppress(Trouble):
        from_stream([body])
    with contextlib.suppress(Trouble):
        from_plain(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "message", "tool_calls", "function", "usage", "error", "index"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_whatever_json_comes_is_an_answer_or_a_trouble(document: object) -> None:
    body = json.dumps(document)
    with contextlib.suppress(Trouble):
        from_stream([f"data: {body}\n\n".encode()])
    with contextlib.suppress(Trouble):
        from_plain(body.encode())
