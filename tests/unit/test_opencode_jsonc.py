"""Single edits of a user's file, byte for byte, and the places of its mistakes."""

from __future__ import annotations

import pytest

from wizard.opencode.jsonc import MAX_DEPTH, JsoncError, parse
from wizard.opencode.jsonc_edit import edit, merge, remove

USER_FILE = """\
// My settings, see the team wiki.
{
    "$schema": "https://opencode.ai/config.json", // do not remove
    /* The hosted one is only for emergencies. */
    "provider": {
        "anthropic": { "options": { "apiKey": "{env:ANTHROPIC_API_KEY}" } }, // Anna's key
        // "mistral": {},
    },
    "theme" : "dark" // no comma here
    // "model": "old"
}
"""


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        ("{}", ("a",), 1, '{\n  "a": 1\n}'),
        ("{ }", ("a",), 1, '{\n  "a": 1\n}'),
        ("{\n}\n", ("a",), 1, '{\n  "a": 1\n}\n'),
        ('{"a":1}', ("b",), {"c": [1, "x"]}, '{"a":1,"b":{"c":[1,"x"]}}'),
        ('{"a": 1}', ("b",), True, '{"a": 1, "b": true}'),
        ('{"a": 1,}', ("b",), True, '{"a": 1, "b": true,}'),
        ('{"a": 1}', ("b",), {"c": 1}, '{"a": 1,\n  "b": {\n    "c": 1\n  }\n}'),
        ('{\n\t"a": 1 // one\n}', ("b",), 2, '{\n\t"a": 1, // one\n\t"b": 2\n}'),
        ('{\n\t"a": {\n\t}\n}', ("a", "b"), {"c": 1}, '{\n\t"a": {\n\t\t"b": {\n\t\t\t"c": 1\n\t\t}\n\t}\n}'),
        ('{\r\n  "a": 1,\r\n}\r\n', ("b",), 2, '{\r\n  "a": 1,\r\n  "b": 2,\r\n}\r\n'),
        ('{\r  "a": 1\r}', ("b",), 2, '{\r  "a": 1,\r  "b": 2\r}'),
        ('\ufeff{\n  "a": 1\n}', ("b",), 2, '\ufeff{\n  "a": 1,\n  "b": 2\n}'),
        ('{"a": 1 // c\n}', ("b",), 2, '{"a": 1, // c\n  "b": 2\n}'),
        ('{\n  "a": "x" /* y */ ,\n  "b": 2 }', ("a",), "z", '{\n  "a": "z" /* y */ ,\n  "b": 2 }'),
        ('{\n  "a": "x" /* y */ ,\n  "b": 2 }', ("c",), 3, '{\n  "a": "x" /* y */ ,\n  "b": 2,\n  "c": 3 }'),
        ('{\n  "a": {"b": 1}\n}', ("a",), {"c": {}}, '{\n  "a": {\n    "c": {}\n  }\n}'),
    ],
)
def test_edit_changes_only_what_it_must(
    before: str, path: tuple[str, ...], value: object, after: str
) -> None:
    assert edit(before, path, value) == after
    assert edit(after, path, value) == after


def test_a_users_file_keeps_every_line() -> None:
    edited = edit(USER_FILE, ("provider", "vllm", "npm"), "x")
    added = '        "vllm": {\n            "npm": "x"\n        },\n'
    assert edited == USER_FILE.replace('// "mistral": {},\n', '// "mistral": {},\n' + added)
    with_root = edit(edited, ("model",), "vllm/m")
    assert '"theme" : "dark", // no comma here\n    // "model": "old"\n    "model" : "vllm/m"\n}' in with_root


def test_merge_keeps_the_users_keys_inside_our_block() -> None:
    text = '{"provider": {"vllm": {"name": "Mine", /* why */ "options": {"baseURL": "old", "headers": {}}}}}'
    merged = merge(
        text, (), {"provider": {"vllm": {"options": {"baseURL": "new"}, "models": {"m": {"id": "x"}}}}}
    )
    assert parse(merged) == {
        "provider": {
            "vllm": {
                "name": "Mine",
                "options": {"baseURL": "new", "headers": {}},
                "models": {"m": {"id": "x"}},
            }
        }
    }
    assert "/* why */" in merged


def test_true_is_not_one() -> None:
    assert edit('{"a": 1}', ("a",), True) == '{"a": true}'
    assert edit('{"a": 1.0}', ("a",), 1) == '{"a": 1}'
    assert edit('{"a": 1}', ("a",), 1) == '{"a": 1}'


@pytest.mark.parametrize(
    ("before", "path", "after"),
    [
        ('{"a": 1, "b": 2}', ("b",), '{"a": 1}'),
        ('{"a": 1, "b": 2}', ("a",), '{"b": 2}'),
        ('{\n  "a": 1, // one\n  "b": 2\n}', ("b",), '{\n  "a": 1 // one\n}'),
        ('{\n  "a": 1, // one\n  "b": 2\n}', ("a",), '{\n  // one\n  "b": 2\n}'),
        ('{\n  "a": 1,\n  "b": 2,\n}', ("b",), '{\n  "a": 1,\n}'),
        ('{"a": {"b": 1}}', ("a", "x"), '{"a": {"b": 1}}'),
    ],
)
def test_remove(before: str, path: tuple[str, ...], after: str) -> None:
    assert remove(before, path) == after


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ("// only a comment\n", 2, 1),
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3),
        ('{\r\n  "a": tru\r\n}', 2, 8),
        ("{'a': 1}", 1, 2),
        ('{"a": 01}', 1, 7),
        ('{"a": 1,,}', 1, 9),
        ('{"a": "tab\there"}', 1, 7),
        ('{"a": "\\x"}', 1, 7),
        ('{"a": 1} x', 1, 10),
        ('{"a": [1, 2', 1, 12),
        ("\ufeff{\n  /* open\n}", 2, 3),
        ('{"a" 1}', 1, 6),
        ('{"a": NaN}', 1, 7),
        ("{\u00a0}", 1, 2),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, line: int, column: int) -> None:
    """opencode 1.18.33 refuses every one of these texts too."""
    with pytest.raises(JsoncError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.reason


def test_the_open_bracket_is_named() -> None:
    with pytest.raises(JsoncError, match="line 2 is never closed"):
        parse('{\n  "a": {\n  "b": 1\n')


def test_a_key_that_stands_there_twice_is_refused_only_on_the_way() -> None:
    text = '{\n  "provider": {},\n  "provider": {"vllm": {}},\n  "x": 1, "x": 2\n}'
    with pytest.raises(JsoncError, match="lines 2, 3"):
        edit(text, ("provider", "vllm", "npm"), "y")
    assert edit(text, ("model",), "m").endswith('"x": 2, "model": "m"\n}')


def test_something_else_where_an_object_must_be() -> None:
    with pytest.raises(JsoncError, match="provider is not an object"):
        edit('{"provider": ["vllm"]}', ("provider", "vllm"), {})
    with pytest.raises(JsoncError, match="configuration is not an object"):
        edit("[]", ("a",), 1)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_an_error_not_a_crash(opening: str) -> None:
    with pytest.raises(JsoncError, match=str(MAX_DEPTH)):
        parse(opening * 100_000)


def test_halves_of_surrogate_pairs_can_be_written_as_utf8() -> None:
    edited = edit('{"a": "\\ud83d"}', ("b",), "\ud83d")
    edited.encode("utf-8")
    assert parse(edited) == {"a": "\ud83d", "b": "\ud83d"}
