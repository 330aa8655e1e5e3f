"""Random documents with comments, odd spacing and every line ending, edited and compared with a model."""

from __future__ import annotations

import contextlib
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.people import Layout
from wizard.opencode.jsonc import JsoncError, parse, scan
from wizard.opencode.jsonc_edit import edit, merge, remove

KEYS = st.sampled_from(["provider", "vllm", "models", "a/b:c", 'é "quoted"', "", "limit", "//x", "{env:A}"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8)
    | st.sampled_from(["/* no comment */", "// neither", "},", 'a "quote"', "\\", "\u2028"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple)
COMMENT_TEXT = st.text(st.sampled_from('ab "{}[]:,*\\é'), max_size=6)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[str, object], list[str]]:
    """A text, the plain value it stands for, and its comments in order."""
    document = draw(OBJECTS)
    layout = Layout(random.Random(draw(st.integers(0, 2**32))))
    return layout.document(document), document, layout.comments


def comments_of(text: str) -> list[str]:
    return [text[start:end] for start, end in scan(text).comments]


def assert_equal(found: object, wanted: object) -> None:
    """Equal as JSON text, so that 1, 1.0 and true are three things."""
    assert json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def model_set(document: dict[str, object], path: tuple[str, ...], value: object) -> bool:
    """Set the value in the plain document, or say that something on the way is no object."""
    for key in path[:-1]:
        nested = document.setdefault(key, {})
        if not isinstance(nested, dict):
            return False
        document = nested
    document[path[-1]] = value
    return True


@given(documents())
def test_reads_what_was_written(case: tuple[str, dict[str, object], list[str]]) -> None:
    text, document, comments = case
    assert_equal(parse(text), document)
    assert comments_of(text) == comments


@given(documents(), PATHS, VALUES)
@settings(max_examples=300)
def test_edit_equals_the_plain_model_and_keeps_comments(
    case: tuple[str, dict[str, object], list[str]], path: tuple[str, ...], value: object
) -> None:
    text, document, comments = case
    wanted = json.loads(json.dumps(document))
    if not model_set(wanted, path, value):
        with pytest.raises(JsoncError):
            edit(text, path, value)
        return
    edited = edit(text, path, value)
    assert_equal(parse(edited), wanted)
    inside = 0 if edited == text else _comments_inside(text, path)
    assert len(comments_of(edited)) == len(comments) - inside
    assert edit(edited, path, value) == edited


@given(documents(), PATHS)
def test_setting_what_is_there_changes_nothing(
    case: tuple[str, dict[str, object], list[str]], path: tuple[str, ...]
) -> None:
    text, document, _comments = case
    value = document
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return
        value = value[key]
    assert edit(text, path, value) == text


@given(documents(), PATHS)
@settings(max_examples=200)
def test_remove_takes_exactly_one_key(
    case: tuple[str, dict[str, object], list[str]], path: tuple[str, ...]
) -> None:
    text, document, comments = case
    wanted = json.loads(json.dumps(document))
    parent: object = wanted
    for key in path[:-1]:
        parent = parent.get(key, {}) if isinstance(parent, dict) else None
    if not isinstance(parent, dict):
        with pytest.raises(JsoncError):
            remove(text, path)
        return
    if path[-1] not in parent:
        assert remove(text, path) == text
        return
    inside = _comments_inside(text, path, key_too=True)
    del parent[path[-1]]
    removed = remove(text, path)
    assert_equal(parse(removed), wanted)
    assert len(comments_of(removed)) == len(comments) - inside


@given(documents(), OBJECTS)
def test_merge_keeps_every_other_key(
    case: tuple[str, dict[str, object], list[str]], block: dict[str, object]
) -> None:
    text, document, _comments = case
    wanted = json.loads(json.dumps(document))
    if not _deep_merge(wanted, block):
        with pytest.raises(JsoncError):
            merge(text, (), block)
        return
    assert_equal(parse(merge(text, (), block)), wanted)


@given(st.text(st.sampled_from('{}[]",:/*\\ntrue1e-.\n\r\ufeff '), max_size=30))
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    with contextlib.suppress(JsoncError):
        parse(text)
        return
    with pytest.raises(JsoncError) as caught:
        parse(text)
    assert 1 <= caught.value.line <= text.count("\n") + text.count("\r") + 1
    assert 1 <= caught.value.column <= len(text) + 1


def _comments_inside(text: str, path: tuple[str, ...], key_too: bool = False) -> int:
    """How many comments stand inside the value at a path (and its key), and so go with it."""
    document = scan(text)
    node, start = document.root, document.root.start
    for key in path:
        member = next((entry for entry in node.members if entry.key == key), None)
        if member is None:
            return 0
        node, start = member.node, member.start if key_too else member.node.start
    return sum(start <= comment[0] < node.end for comment in document.comments)


def _deep_merge(document: dict[str, object], block: dict[str, object]) -> bool:
    for key, value in block.items():
        if isinstance(value, dict) and (value or isinstance(document.get(key), dict)):
            nested = document.setdefault(key, {})
            if not isinstance(nested, dict) or not _deep_merge(nested, value):
                return False
        else:
            document[key] = value
    return True
