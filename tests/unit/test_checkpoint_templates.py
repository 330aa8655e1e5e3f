"""Which parser a chat template asks for. The templates are our own, one for each wire format."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from wizard.catalog import checkpoint_facts, models, parsers
from wizard.checkpoint import ParserGuess, detect_parsers, read_checkpoint
from wizard.checkpoint.template import fill

FRAME = (
    "{{ SYSTEM }}{% for m in messages %}<|{{ m.role }}|>THOUGHT{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}{% set f = c.function %}CALL{% endfor %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>OPENING{% endif %}"
)
JSON_CALL = """{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}"""
NAME_FIRST = "{% for k, v in f.arguments.items() %}"

CALLS = {
    "hermes": f"<tool_call>\n{JSON_CALL}\n</tool_call>",
    "qwen3_coder": "<tool_call>\n<function={{ f.name }}>\n"
    + NAME_FIRST
    + "<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>",
    "seed_oss": "<seed:tool_call>\n<function={{ f.name }}>\n"
    + NAME_FIRST
    + "<parameter={{ k }}>{{ v }}</parameter>\n{% endfor %}</function>\n</seed:tool_call>",
    "glm45": "\n<tool_call>{{ f.name }}\n"
    + NAME_FIRST
    + "<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}</arg_value>\n{% endfor %}</tool_call>",
    "glm47": "<tool_call>{{ f.name }}"
    + NAME_FIRST
    + "<arg_key>{{ k }}</arg_key><arg_value>{{ v }}</arg_value>{% endfor %}</tool_call>",
    "deepseek_v3": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ f.name }}\n```json\n"
    "{{ f.arguments | tojson }}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek_v31": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{{ f.name }}<｜tool▁sep｜>"
    "{{ f.arguments | tojson }}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek_v32": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="{{ f.name }}">\n'
    + NAME_FIRST
    + '<｜DSML｜parameter name="{{ k }}" string="true">{{ v }}</｜DSML｜parameter>\n{% endfor %}'
    + "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.{{ f.name }}:0"
    "<|tool_call_argument_begin|>{{ f.arguments | tojson }}<|tool_call_end|><|tool_calls_section_end|>",
    "minimax_m2": '\n<minimax:tool_call>\n<invoke name="{{ f.name }}">\n'
    + NAME_FIRST
    + '<parameter name="{{ k }}">{{ v }}</parameter>\n{% endfor %}</invoke>\n</minimax:tool_call>',
    "mistral": "[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments | tojson }}",
    "granite": f"<|tool_call|>[{JSON_CALL}]",
    "openai": "<|start|>assistant<|channel|>commentary to=functions.{{ f.name }} <|constrain|>json<|message|>"
    "{{ f.arguments | tojson }}<|call|>",
    "lfm2": "<|tool_call_start|>[{{ f.name }}("
    + NAME_FIRST
    + "{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}{% endfor %})]<|tool_call_end|>",
    "olmo3": "<function_calls>{{ f.name }}("
    + NAME_FIRST
    + "{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}{% endfor %})</function_calls>",
    "gemma4": "<|tool_call>call:{{ f.name }}{% raw %}{{% endraw %}"
    + NAME_FIRST
    + '{{ k }}:<|"|>{{ v }}<|"|>,{% endfor %}}<tool_call|>',
    "longcat": f"<longcat_tool_call>{JSON_CALL}</longcat_tool_call>",
    "hy_v3": "<tool_calls>\n<tool_call>{{ f.name }}<tool_sep>\n"
    + NAME_FIRST
    + "<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}</arg_value>\n{% endfor %}</tool_call>\n</tool_calls>",
    "step3": "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
    '<steptml:invoke name="{{ f.name }}">'
    "</steptml:invoke><｜tool_call_end｜>{{ f.arguments }}",
    "xlam": f"[{JSON_CALL}]",
}


def template(call: str, system: str = "", thought: str = "", opening: str = "") -> str:
    whole = FRAME.replace("CALL", call).replace("THOUGHT", thought).replace("OPENING", opening)
    return whole.replace("{{ SYSTEM }}", system)


def checkpoint(
    folder: Path,
    chat_template: str | None,
    name: str = "house-model",
    model_type: str = "house",
    **config: object,
) -> Path:
    place = folder / name
    place.mkdir()
    (place / "config.json").write_text(json.dumps({"model_type": model_type, **config}))
    if chat_template is not None:
        (place / "chat_template.jinja").write_text(chat_template, encoding="utf-8")
    return place


def guess(place: Path, **given: object) -> ParserGuess:
    return detect_parsers(read_checkpoint(str(place), offline=True), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("parser", CALLS)
def test_the_rendered_call_names_its_parser(tmp_path: Path, parser: str) -> None:
    found = guess(checkpoint(tmp_path, template(CALLS[parser])))
    assert found.tool_parser == parser
    assert parser in found.why


@pytest.mark.parametrize(
    ("call", "name", "model_type", "parser"),
    [
        ("hermes", "Qwen3-32B", "qwen3", "hermes"),
        ("hermes", "granite-4.0-h-small", "granitemoehybrid", "granite4"),
        ("hermes", "ERNIE-4.5-21B-A3B-Thinking", "ernie4_5_moe", "ernie45"),
        ("qwen3_coder", "Qwen3-Coder-Next", "qwen3_next", "qwen3_coder"),
        ("qwen3_coder", "MiMo-V2-Flash", "mimo_v2_flash", "mimo"),
        ("qwen3_coder", "Step-3.5-Flash", "step3p5", "step3p5"),
        ("glm45", "GLM-4.6", "glm4_moe", "glm45"),
        ("glm47", "GLM-5.2", "glm_moe_dsa", "glm47"),
        ("glm47", "Laguna-M.1", "laguna", "poolside_v1"),
    ],
)
def test_readers_of_one_format_are_told_apart_by_family(
    tmp_path: Path, call: str, name: str, model_type: str, parser: str
) -> None:
    found = guess(checkpoint(tmp_path, template(CALLS[call]), name, model_type))
    assert (found.tool_parser, found.sureness) == (parser, "sure")


def test_a_format_of_several_readers_without_a_family_is_only_likely(tmp_path: Path) -> None:
    assert guess(checkpoint(tmp_path, template(CALLS["hermes"]))).sureness == "likely"


def test_a_format_of_several_readers_of_which_none_is_usual_stays_unknown(tmp_path: Path) -> None:
    found = guess(checkpoint(tmp_path, template(f"<tool_calls>[{JSON_CALL}]</tool_calls>")))
    assert (found.tool_parser, found.sureness) == (None, "unknown")
    assert "jamba" in found.why
    assert "hunyuan_a13b" in found.why


@pytest.mark.parametrize(
    "call",
    [
        "",
        "Action: {{ f.name }} {{ f.arguments | tojson }}",
        "<tools>" + JSON_CALL + "</tools>",
        "The model says <tool_call> and then {{ f.name }} with {{ f.arguments | tojson }}",
        # As `bare` formats, but not at the start of the turn.
        "I will call " + CALLS["xlam"],
    ],
)
def test_a_form_no_parser_reads_is_unknown(tmp_path: Path, call: str) -> None:
    found = guess(checkpoint(tmp_path, template(call), "Qwen3-32B", "qwen3"))
    assert (found.tool_parser, found.sureness) == (None, "unknown")


def test_a_marker_in_a_comment_or_an_instruction_about_something_else_does_not_deceive(
    tmp_path: Path,
) -> None:
    deceptive = "{# [TOOL_CALLS] <minimax:tool_call> #}" + template(
        CALLS["hermes"], system="Never write [TOOL_CALLS]."
    )
    assert guess(checkpoint(tmp_path, deceptive, "Qwen3-8B", "qwen3")).tool_parser == "hermes"


def test_a_template_that_only_teaches_is_likely_at_most(tmp_path: Path) -> None:
    taught = 'Answer with <tool_call>\n{"name": ..., "arguments": ...}\n</tool_call>'
    found = guess(checkpoint(tmp_path, template("", system=taught), "Qwen3-8B", "qwen3"))
    assert (found.tool_parser, found.sureness) == ("hermes", "likely")


def test_the_coder_that_does_not_do_what_its_template_teaches_is_not_believed(tmp_path: Path) -> None:
    found = guess(checkpoint(tmp_path, template(CALLS["hermes"]), "Qwen2.5-Coder-32B-Instruct-AWQ", "qwen2"))
    assert (found.tool_parser, found.sureness) == (None, "unknown")
    assert "<tools>" in found.why
    renamed = checkpoint(
        tmp_path, template(CALLS["hermes"]), "ours", "qwen2", _name_or_path="Qwen/Qwen2.5-Coder-7B-Instruct"
    )
    assert guess(renamed).tool_parser is None


def test_arguments_as_text_are_understood_too(tmp_path: Path) -> None:
    call = CALLS["deepseek_v31"].replace("f.arguments | tojson", "'' + f.arguments")
    assert guess(checkpoint(tmp_path, template(call))).tool_parser == "deepseek_v31"


def test_only_parsers_of_the_vllm_at_hand_are_named(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, template(CALLS["glm47"]), "GLM-4.7", "glm4_moe")
    assert guess(place, version="0.14.1").tool_parser == "glm47"
    old = guess(place, version="0.11.0")
    assert old.tool_parser is None
    assert "glm47" in old.why
    assert guess(place, tool_parsers=("hermes",)).tool_parser is None


THOUGHT = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}"


@pytest.mark.parametrize(
    ("name", "model_type", "thought", "opening", "parser"),
    [
        ("Qwen3-8B", "qwen3", THOUGHT, "", "qwen3"),
        ("Qwen3-30B-A3B-Thinking-2507", "qwen3_moe", "", "<think>\n", "qwen3"),
        ("QwQ-32B", "qwen2", THOUGHT, "<think>\n", "deepseek_r1"),
        # A family that thinks, a template that does not.
        ("Qwen3-Coder-Next", "qwen3_next", "", "", None),
        # A template that thinks, a family nobody knows: what a parser does without a thought is not known.
        ("house-model", "house", THOUGHT, "", None),
    ],
)
def test_thinking_needs_a_template_that_shows_it_and_a_family_that_is_known(
    tmp_path: Path, name: str, model_type: str, thought: str, opening: str, parser: str | None
) -> None:
    chat_template = template(CALLS["hermes"], thought=thought, opening=opening)
    assert guess(checkpoint(tmp_path, chat_template, name, model_type)).reasoning_parser == parser


def test_gpt_oss_is_always_harmony(tmp_path: Path) -> None:
    found = guess(checkpoint(tmp_path, template(CALLS["hermes"]), "tuned", "gpt_oss"))
    assert (found.tool_parser, found.reasoning_parser, found.sureness) == ("openai", "openai_gptoss", "sure")


def test_mistrals_own_tokenizer_needs_no_template(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, None, "Devstral", "mistral3")
    assert guess(place).tool_parser is None
    (place / "tekken.json").write_text("{}")
    assert guess(place).tool_parser == "mistral"


def test_a_template_of_its_own_for_tools_comes_first(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, None)
    kept = [
        {"name": "default", "template": template("")},
        {"name": "tool_use", "template": template(CALLS["hermes"])},
    ]
    (place / "tokenizer_config.json").write_text(json.dumps({"chat_template": kept}))
    assert guess(place).tool_parser == "hermes"


@pytest.mark.parametrize(
    ("chat_template", "said"),
    [
        ("{% for %}", "TemplateSyntaxError"),
        ("{{ raise_exception('no tools') }}", "no tools"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "SecurityError"),
        ("{% include '/etc/passwd' %}", "cannot write a tool call"),
        ("{{ 'a' * 9999999999 }}", "MemoryError"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}", "too long"),
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "RecursionError"),
        ("\x1b[31m{{ nothing.here }}", "UndefinedError"),
    ],
)
def test_a_hostile_template_is_told_and_does_no_harm(tmp_path: Path, chat_template: str, said: str) -> None:
    found = guess(checkpoint(tmp_path, chat_template), deadline_s=20)
    assert (found.tool_parser, found.sureness) == (None, "unknown")
    assert said in found.why
    assert "\x1b" not in found.why


def test_a_template_without_end_is_stopped(tmp_path: Path) -> None:
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    found = guess(checkpoint(tmp_path, endless), deadline_s=1)
    assert (found.tool_parser, found.sureness) == (None, "unknown")


def test_no_family_of_the_catalogue_is_claimed_by_another_parser_than_its_own() -> None:
    facts = checkpoint_facts()
    wrong = set()
    for entry in models():
        for variant in entry.variants:
            own = re.sub(
                r"[^a-z0-9/]", "", f"{entry.architecture}/{variant.checkpoint.split('/')[-1]}".lower()
            )
            for parser, formats in ((entry.tool_parser, facts.call), (entry.reasoning_parser, facts.thought)):
                for one in formats:
                    if parser not in {reader.parser for reader in one.readers}:
                        continue
                    claims = [r.parser for r in one.readers if any(part in own for part in r.families)]
                    if claims and claims[0] != parser:
                        wrong.add((variant.checkpoint, one.id, parser, claims[0]))
    assert wrong == set()


def test_the_tables_name_parsers_that_exist_and_patterns_that_compile() -> None:
    facts = checkpoint_facts()
    tools = {entry.name for entry in parsers("tool")}
    thoughts = {entry.name for entry in parsers("reasoning")}
    for call in facts.call:
        fill(call.signature)
        assert {reader.parser for reader in call.readers} <= tools
    for thought in facts.thought:
        fill(thought.signature)
        assert {reader.parser for reader in thought.readers} <= thoughts
    for own in facts.no_template:
        assert own.tool_parser in tools
        assert own.reasoning_parser is None or own.reasoning_parser in thoughts
    assert {trap.call for trap in facts.trap} <= {call.id for call in facts.call}
