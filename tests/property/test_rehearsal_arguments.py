"""Whatever tool is offered and whatever is said, the stand-in's call fits the tool's schema."""

from __future__ import annotations

from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from wizard.rehearsal.answers import answer

NAMES = st.sampled_from(["a", "b", "filePath", "command", "query", "expression", "todos", "x1"])
LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "enum": ["text", "markdown"]},
        {"type": "integer"},
        {"type": "integer", "minimum": 3, "maximum": 9},
        {"type": "number", "minimum": -2},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["string", "null"]},
        {"const": 5},
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        {},
    ]
)


def objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(NAMES, values, max_size=4).flatmap(
        lambda properties: st.sets(st.sampled_from(sorted(properties)) if properties else st.nothing()).map(
            lambda required: {"type": "object", "properties": properties, "required": sorted(required)}
        )
    )


SCHEMAS = objects(
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(objects(inner), inner.map(lambda items: {"type": "array", "items": items})),
        max_leaves=6,
    )
)


@given(
    SCHEMAS,
    st.text(max_size=60) | st.sampled_from(["add 17 and -2.5", "write 'hi' to a.txt", '"say \\"x\\""']),
)
def test_arguments_fit_the_schema(schema: dict[str, Any], said: str) -> None:
    tool = {"type": "function", "function": {"name": "t", "description": "", "parameters": schema}}
    call = answer({"messages": [{"role": "user", "content": said}], "tools": [tool]}).call
    assert call is not None
    jsonschema.validate(call.arguments, schema)
