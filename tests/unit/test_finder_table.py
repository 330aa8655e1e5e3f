"""Raw texts by the tables alone: written as vLLM's own documentation and templates write them."""

from __future__ import annotations

import pytest

from wizard.catalog import find_model
from wizard.checkpoint import split_thought, written_in
from wizard.smoke.finder import ParserSearch, RawText, Setting, Subject, asked_call, search_parsers

XML = (
    "<tool_call>\n<function=add>\n<parameter=a>\n17\n</parameter>\n"
    "<parameter=b>\n25\n</parameter>\n</function>\n</tool_call>"
)
# A call as a model writes it, the parser whose class reads it in vLLM 0.33, and a name of such a model.
CALLS = [
    ('<tool_call>\n{"name": "add", "arguments": {"a": 17, "b": 25}}\n</tool_call>', "hermes", "Qwen3-8B"),
    (
        '<tool_call>\n{"name": "add", "arguments": {"a": 17, "b": 25}}\n</tool_call>',
        "granite4",
        "granite-4.0-h-small",
    ),
    (XML, "qwen3_coder", "org/unheard-of"),
    (XML, "mimo", "MiMo-V2-Flash"),
    ('[TOOL_CALLS][{"name": "add", "arguments": {"a": 17, "b": 25}}]', "mistral", "Devstral-Small"),
    ('[TOOL_CALLS]add[ARGS]{"a": 17, "b": 25}', "mistral", "Devstral-Small"),
    (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>"
        '{"a": 17, "b": 25}<|tool_call_end|><|tool_calls_section_end|>',
        "kimi_k2",
        "Kimi-K2-Instruct",
    ),
    (
        '<minimax:tool_call>\n<invoke name="add">\n<parameter name="a">17</parameter>\n'
        '<parameter name="b">25</parameter>\n</invoke>\n</minimax:tool_call>',
        "minimax_m2",
        "MiniMax-M2",
    ),
    ('{"name": "add", "parameters": {"a": 17, "b": 25}}', "llama3_json", "Llama-3.1-8B-Instruct"),
    ("[add(a=17, b=25)]", "llama4_pythonic", "Llama-4-Scout"),
    (
        "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>17</arg_value>\n"
        "<arg_key>b</arg_key>\n<arg_value>25</arg_value>\n</tool_call>",
        "glm45",
        "GLM-4.6",
    ),
    (
        "<|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>"
        '{"a": 17, "b": 25}<|call|>',
        "openai",
        "gpt-oss-20b",
    ),
    ("<think>\nTwo numbers.\n</think>\n\n[add(a=17, b=25)]", "llama4_pythonic", "Llama-4-Scout"),
]


def searched(text: str, name: str = "", **options: object) -> ParserSearch:
    raw = RawText(text=text, way="text")
    subject = Subject(names=(name,) if name else (), version="0.33.0")
    return search_parsers(
        raw,
        raw,
        asked_call(),
        runtime=None,
        subject=subject,
        setting=Setting(),
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("text", "parser", "name"), CALLS)
def test_the_table_names_the_parser_of_the_family(text: str, parser: str, name: str) -> None:
    search = searched(text, name)
    assert search.best == parser
    assert search.decided_by == "wire-format table"
    assert any("wire-format table" in note for note in search.notes)
    assert search.candidates[0].ok
    assert not search.advice


def test_the_call_of_another_tool_is_named_too() -> None:
    written = written_in(XML.replace("add", "get_weather"), None)
    assert written is not None
    assert written.tool == "get_weather"


def test_tags_nobody_reads_end_in_another_model() -> None:
    search = searched('<tools>\n{"name": "add", "arguments": {"a": 17, "b": 25}}\n</tools>')
    assert search.best is None
    swap, plugin, template = search.advice
    assert swap.id == "swap-model"
    assert "qwen3-coder-30b-a3b" in swap.models
    for id in swap.models:
        model = find_model(id)
        assert model is not None
        assert model.tool_parser == "qwen3_coder"
    assert plugin.id == "parser-plugin"
    assert plugin.set["--tool-call-parser"] == "qwen2_5_coder"
    assert "hanXen/vllm-qwen2.5-coder-tool-parser" in plugin.detail
    assert template.set["--chat-template"].endswith(".jinja")


def test_an_old_vllm_is_told_from_which_version_on_it_is_read() -> None:
    raw = RawText(text='<longcat_tool_call>{"name": "add", "arguments": {}}</longcat_tool_call>', way="text")
    search = search_parsers(raw, raw, None, runtime=None, subject=Subject(version="0.9.2"), setting=Setting())
    assert search.best is None
    assert [advice.id for advice in search.advice] == ["newer-vllm"]
    assert "0.11.0" in search.advice[0].detail


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("The sum of 17 and 25 is 42.", "no-call"),
        ("", "no-call"),
        ('@@add@@{"a": 17, "b": 25}', "swap-model"),
    ],
)
def test_words_are_told_from_an_unknown_form(text: str, advice: str) -> None:
    search = searched(text)
    assert search.best is None
    assert [found.id for found in search.advice] == [advice]


@pytest.mark.parametrize(
    ("text", "thought", "rest", "closed"),
    [
        ("<think>\nHm.\n</think>\n\nYes.", "Hm.", "Yes.", True),
        ("Hm.\n</think>\n\nYes.", "Hm.", "Yes.", True),
        ("<think>\nHm", "Hm", "", False),
        ("[THINK]Hm.[/THINK]Yes.", "Hm.", "Yes.", True),
    ],
)
def test_a_thought_is_found_also_where_the_prompt_opened_it(
    text: str, thought: str, rest: str, closed: bool
) -> None:
    found = split_thought(text)
    assert found is not None
    assert (found.thought, found.rest.strip(), found.closed) == (thought, rest, closed)


def test_words_hold_no_thought() -> None:
    assert split_thought("A <thing> and nothing else.") is None
