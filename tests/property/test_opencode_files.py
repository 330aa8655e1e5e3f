"""Two thousand people's files: our block goes in, everything else stays byte for byte."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.people import Layout, any_document
from wizard.budget import limits
from wizard.opencode import ConfigRequest
from wizard.opencode.content import Content, content
from wizard.opencode.jsonc import JsoncError, parse, scan
from wizard.opencode.write import edited_text

EXAMPLES = 2000
PLAIN = ConfigRequest(
    provider_name="Local vLLM",
    base_url="http://127.0.0.1:8000/v1",
    model_key="qwen3-coder",
    model_name="Qwen3 Coder",
    limits=limits(65536),
)
REQUESTS = [
    PLAIN,
    msgspec.structs.replace(PLAIN, globals=True, api_key_env="HOUSE_KEY"),
    msgspec.structs.replace(PLAIN, globals=True, private=True, reasoning=True, interleaved="reasoning"),
    msgspec.structs.replace(
        PLAIN, model_key="/srv/models/Qwen3 Coder#fp8", base_url="http://10.0.0.7:8001/v1"
    ),
]
PLACES = [
    f"{kind} {place}"
    for kind in ("//", "/*")
    for place in (
        *("before all", "after {", "after [", "after key", "after :", "after value", "after ,", "after all"),
    )
]
RARE = ["LF with mark", "CRLF with mark", "CR with mark", "CRLF without mark", "a key twice", "very deep"]
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/|\s|[^\s",:{}\[\]/]+|.', re.DOTALL)


def test_everything_outside_our_keys_stays(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**48), st.sampled_from(REQUESTS))
    def check(seed: int, request: ConfigRequest) -> None:
        chance = random.Random(seed)
        document = any_document(chance)
        layout = Layout(chance, twice=0.02)
        text = layout.document(document)
        planned = content(request, parse(text))  # type: ignore[arg-type]
        try:
            edited = edited_text(text, planned)
        except JsoncError as error:
            if not layout.seen["a key twice"] or "more than once" not in error.reason:
                raise
            seen["refused"] += 1
            return
        assert_json_equal(parse(edited), intended(document, planned))
        assert is_contained(outside(text, planned), tokens(edited))
        assert edited_text(edited, planned) == edited
        seen.update({"edited": 1, "very deep": depth(document) > 30})
        seen.update(dict.fromkeys(layout.seen, 1))

    check()
    assert seen["edited"] + seen["refused"] >= EXAMPLES
    assert seen["refused"] >= 20
    for slot in (*PLACES, *RARE):
        assert seen[slot] >= 50, f"{slot}: only {seen[slot]} examples"


def intended(document: Mapping[str, Any], planned: Content) -> dict[str, Any]:
    """The plain document with our settings laid over it."""

    def over(below: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
        merged = dict(below) if isinstance(below, dict) else {}
        for key, value in settings.items():
            merged[key] = over(merged.get(key), value) if isinstance(value, Mapping) else value
        return merged

    result: dict[str, Any] = json.loads(json.dumps(document))
    for path in (*planned.absent, *planned.moved):
        below: Any = result
        for key in path[:-1]:
            below = below.get(key) if isinstance(below, dict) else None
        if isinstance(below, dict):
            below.pop(path[-1], None)
    return over(result, planned.settings)


def outside(text: str, planned: Content) -> list[str]:
    """A text's words without the values that change and the keys that go; all, with nothing but new keys.

    Where something goes or an object was empty, the white space around it goes too.
    """
    spans = []
    for path, value in planned.wanted().items():
        place = member_span(text, path)
        if place is None:
            continue
        start, value_start, end = place
        if path in planned.absent:
            spans.append((start, end))
        elif not json_equal(parse(text[value_start:end]), value):
            spans.append((value_start, end))
    for path in planned.moved:
        place = member_span(text, path)
        if place is not None:
            spans.append((place[0], place[2]))
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + text[end:]
    words = tokens(text)
    if not spans and "{}" not in json.dumps(parse(text)):
        return words
    return [word for word in words if word.strip() and word not in ",:"]


def member_span(text: str, path: tuple[str, ...]) -> tuple[int, int, int] | None:
    """Where the entry at a path begins, where its value begins, and where both end."""
    node = scan(text).root
    for key in path:
        member = next((entry for entry in node.members if entry.key == key), None)
        if member is None:
            return None
        node, start = member.node, member.start
    return start, node.start, node.end


def tokens(text: str) -> list[str]:
    """Strings, comments, marks and single white space: a reading of its own, not the wizard's."""
    return _TOKEN.findall(text)


def is_contained(words: list[str], among: list[str]) -> bool:
    """Whether all words stand among others in the same order."""
    rest = iter(among)
    return all(word in rest for word in words)


def json_equal(found: object, wanted: object) -> bool:
    return json.dumps(found, sort_keys=True, default=repr) == json.dumps(wanted, sort_keys=True, default=repr)


def assert_json_equal(found: object, wanted: object) -> None:
    assert json_equal(found, wanted), (found, wanted)


def depth(value: object) -> int:
    levels, deepest = [(value, 0)], 0
    while levels:
        item, level = levels.pop()
        deepest = max(deepest, level)
        below = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        levels += [(entry, level + 1) for entry in below]
    return deepest


@pytest.mark.parametrize("broken", ["lost", "reordered"])
def test_the_check_would_notice(broken: str) -> None:
    """What the test above relies on: a lost comment and a changed order are seen."""
    words = tokens('{"a": 1, /* mine */ "b": 2}')
    assert is_contained([word for word in words if word.strip()], words)
    other = '{"a": 1, "b": 2}' if broken == "lost" else '{"b": 2, /* mine */ "a": 1}'
    assert not is_contained([word for word in words if word.strip()], tokens(other))
