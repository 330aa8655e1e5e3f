"""Whatever an overlay file holds, it is read or refused with an error of ours."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wizard.catalog.source import Overlay, decode
from wizard.errors import CorruptDataError

KEYS = st.sampled_from(
    ["id", "model", "variants", "gpu", "parser", "source", "kind", "config", "odd key", "é"]
)
VALUES = st.recursive(
    st.one_of(
        st.integers(-9, 9), st.booleans(), st.sampled_from(['"a"', '"tool"', "1.5", "nan", "1979-05-27"])
    ),
    lambda inner: st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(map(as_toml, parts))}]"),
    max_leaves=6,
)


def as_toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@st.composite
def documents(draw: st.DrawFn) -> str:
    lines = []
    for _table in range(draw(st.integers(0, 3))):
        lines.append(
            draw(st.sampled_from(["[[model]]", "[[model.variants]]", "[[gpu]]", "[model]", "[parser]"]))
        )
        keys = draw(st.lists(KEYS, max_size=4, unique=True))
        lines += [f'"{key}" = {as_toml(draw(VALUES))}' for key in keys]
    return "\n".join(lines)


@given(st.one_of(documents(), st.text(max_size=60)))
def test_read_or_refused(content: str) -> None:
    refusal = None
    try:
        decode(content, Overlay, "mine.toml", default_source="mine.toml")
    except CorruptDataError as error:
        refusal = error
    assert refusal is None or "mine.toml" in refusal.message
    assert "\x1b" not in str(refusal)
