"""Secrets stay out of what is shown, everything else stays in; our keys must fit opencode's schema."""

from __future__ import annotations

import json
from importlib import resources

import pytest
from jsonschema import Draft202012Validator

from wizard.opencode.jsonc import parse
from wizard.opencode.mask import masked, masked_diff
from wizard.opencode.schema import check_schema

SECRETS = [
    ('{"apiKey": "hunter2"}', "hunter2"),
    ('{"api_key": "hunter2", }', "hunter2"),
    ('{"options": {"headers": {"X-Team": "hunter2"}}}', "hunter2"),
    ('{"mcp": {"x": {"environment": {"PLAIN": "hunter2"}}}}', "hunter2"),
    ('{"mcp": {"x": {"command": ["run", "--api-key", "hunter2"]}}}', "hunter2"),
    ('{"mcp": {"x": {"command": ["run", "--token=hunter2"]}}}', "hunter2"),
    ('{"mcp": {"x": {"oauth": {"clientSecret": "hunter2"}}}}', "hunter2"),
    ('{"url": "https://anna:hunter2@host/v1"}', "hunter2"),
    ('{"note": "Bearer hunter2hunter2"}', "hunter2hunter2"),
    ('{"note": "sk-proj-abcdef123456"}', "abcdef123456"),
    ('{"note": "\\u0073k-proj-abcdef123456"}', "abcdef123456"),
    ('{"note": "hf_abcdefghijkl"}', "abcdefghijkl"),
    ('{"note": "a3f1c9d2e4b5a6978812345670abcdef"}', "a3f1c9d2e4b5a6978812345670abcdef"),
    ('{"note": "8d3e1f60-1c2d-4e5f-8a9b-0c1d2e3f4a5b"}', "0c1d2e3f4a5b"),
    ('{} // "apiKey": "hunter2"', "hunter2"),
    ("{} // token = hunter2", "hunter2"),
    ("/* old key: sk-proj-abcdef123456 */ {}", "abcdef123456"),
    ('{"options": {"Authorization": "Bearer {env:X}hunter2"}}', "hunter2"),
]
HARMLESS = [
    '{"provider": {"vllm": {"npm": "@ai-sdk/openai-compatible", "env": ["VLLM_API_KEY"]}}}',
    '{"apiKey": "{env:VLLM_API_KEY}"}',
    '{"headers": {"Authorization": "Bearer {file:~/.key}"}}',
    '{"model": "vllm/Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8", "max_tokens": 4096}',
    '{"baseURL": "http://127.0.0.1:8000/v1"} // my own server',
    "",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_secrets_are_covered(text: str, secret: str) -> None:
    shown = masked(text)
    assert secret not in shown
    assert "***" in shown


@pytest.mark.parametrize("text", HARMLESS)
def test_everything_else_is_shown(text: str) -> None:
    assert masked(text) == text


def test_the_diff_is_a_unified_one_and_inert() -> None:
    before = '{\r\n  "a": 1, // \x1b[31mred\r\n  "apiKey": "hunter2"\r\n}\r\n'
    after = before.replace('"a": 1', '"a": 2')
    assert masked_diff(before, after, "opencode.json").splitlines() == [
        "--- opencode.json",
        "+++ opencode.json",
        "@@ -1,4 +1,4 @@",
        " {",
        '-  "a": 1, // red',
        '+  "a": 2, // red',
        '   "apiKey": "***"',
        " }",
    ]
    assert masked_diff("", "{}\n", "f").splitlines()[2:] == ["@@ -0,0 +1 @@", "+{}"]
    assert masked_diff(before, before, "f") == ""


def test_the_bundled_schema_is_a_schema() -> None:
    schema = json.loads((resources.files("assets") / "opencode.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == "urn:opencode-config:1.18.33"
    assert "MIT" in (resources.files("assets") / "opencode.schema.LICENSE").read_text(encoding="utf-8")


def test_errors_count_on_our_keys_and_warn_elsewhere() -> None:
    document = parse(
        """{
          "share": "sometimes", "thme": 1,
          "provider": {
            "vllm": {"models": {"m": {"limit": {"context": "hunter2"}}}, "mine": 1},
            "x": {"options": {"timeout": "hunter2"}}
          }
        }"""
    )
    assert isinstance(document, dict)
    report = check_schema(document, [("provider", "vllm", "models", "m", "limit", "context")])
    assert report.errors == ("provider.vllm.models.m.limit.context: opencode wants number here.",)
    assert sorted(report.warnings) == [
        "provider.vllm.mine: opencode does not know this key.",
        "provider.vllm.models.m.limit.output: this key is missing.",
        "provider.x.options.timeout: opencode does not accept this value.",
        "share: opencode wants one of: manual, auto, disabled.",
        "thme: opencode does not know this key.",
    ]
    missing = check_schema(document, [("provider", "vllm", "models", "m", "limit", "output")])
    assert missing.errors == ("provider.vllm.models.m.limit.output: this key is missing.",)
