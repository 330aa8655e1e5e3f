"""What is written for a request: limits that cannot loop, names opencode takes, keys by reference."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from wizard.budget import BudgetWarning, Limits, ToolOutputCap
from wizard.errors import RefusedError, UsageError
from wizard.opencode import ConfigRequest, interleaved_field
from wizard.opencode.content import content, limit_block
from wizard.opencode.jsonc_edit import MISSING, get
from wizard.opencode.keys import check_key_file, key_reference

LIMITS = Limits(
    context=32768,
    input=28672,
    output=4096,
    reserved=4096,
    tool_output=ToolOutputCap(max_bytes=16384, max_lines=600),
    base_prompt_tokens=9000,
    base_prompt_origin="assumed",
    room_tokens=15576,
)
REQUEST = ConfigRequest(
    provider_name="Local vLLM",
    base_url="http://127.0.0.1:8000/v1",
    model_key="Qwen/Qwen3-Coder-30B-A3B-Instruct",
    model_name="Qwen3 Coder 30B",
    limits=LIMITS,
)


def request(**changes: object) -> ConfigRequest:
    return msgspec.structs.replace(REQUEST, **changes)


def opencode_tidies_up_at(limit: dict[str, int], reserved: int | None) -> int:
    """opencode 1.18's own sum, in its own order: prompt size, tokens, at which it starts a compaction."""
    cap = 32_000
    output = min(limit["output"], cap) or cap
    if "input" in limit:
        return limit["input"] - (min(20_000, output) if reserved is None else reserved)
    return limit["context"] - output


@pytest.mark.parametrize(
    ("window", "input_", "output"),
    [(131072, 114688, 16384), (65536, 57344, 8192), (32768, 28672, 4096), (16384, 14336, 2048)],
)
@pytest.mark.parametrize("users_reserved", [None, 0, 1000, 60000])
def test_both_forms_of_the_limits_tidy_up_at_the_same_size(
    window: int, input_: int, output: int, users_reserved: int | None
) -> None:
    """The pairs ran on opencode 1.18.33 against a server that enforces its window: none was refused."""
    limits = msgspec.structs.replace(LIMITS, context=window, input=input_, output=output, reserved=output)
    with_root = limit_block(limits, output)
    alone = limit_block(limits, MISSING if users_reserved is None else users_reserved)
    assert with_root == {"context": window, "input": input_, "output": output}
    assert alone == {"context": input_, "output": output}
    wanted = window - (window - input_) - output
    assert opencode_tidies_up_at(with_root, output) == wanted
    assert opencode_tidies_up_at(alone, users_reserved) == wanted
    assert wanted + output <= window


def test_output_above_opencodes_cap_does_not_move_the_line() -> None:
    limits = msgspec.structs.replace(LIMITS, context=262144, input=229376, output=40000, reserved=40000)
    alone = limit_block(limits, MISSING)
    assert opencode_tidies_up_at(alone, None) == opencode_tidies_up_at(limit_block(limits, 40000), 40000)


def test_by_default_only_our_block_and_the_schema() -> None:
    made = content(request(), {"model": "anthropic/claude", "$schema": "x"})
    assert made.settings == {
        "provider": {
            "vllm": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Local vLLM",
                "options": {
                    "baseURL": "http://127.0.0.1:8000/v1",
                    "headerTimeout": 1_800_000,
                    "chunkTimeout": 1_800_000,
                },
                "models": {
                    "Qwen/Qwen3-Coder-30B-A3B-Instruct": {
                        "name": "Qwen3 Coder 30B",
                        "tool_call": True,
                        "limit": {"context": 28672, "output": 4096},
                    }
                },
            }
        }
    }
    assert made.model == "vllm/Qwen/Qwen3-Coder-30B-A3B-Instruct"
    limit = ("provider", "vllm", "models", "Qwen/Qwen3-Coder-30B-A3B-Instruct", "limit")
    assert made.absent == ((*limit, "input"),)
    assert content(request(), {}).settings["$schema"] == "https://opencode.ai/config.json"


def test_root_keys_when_the_user_agreed() -> None:
    settings = content(request(globals=True), {}).settings
    model = "vllm/Qwen/Qwen3-Coder-30B-A3B-Instruct"
    assert settings["model"] == settings["small_model"] == model
    assert settings["compaction"] == {"reserved": 4096}
    assert settings["tool_output"] == {"max_bytes": 16384, "max_lines": 600}
    without = content(request(globals=True, default_model=False), {}).settings
    assert "model" not in without
    assert "small_model" not in without


@pytest.mark.parametrize(
    ("version", "known"), [(None, True), ("1.14.0", True), ("1.13.9", False), ("odd", True)]
)
def test_tool_output_only_where_opencode_knows_it(version: str | None, known: bool) -> None:
    settings = content(request(globals=True, opencode_version=version), {}).settings
    assert ("tool_output" in settings) is known


def test_a_second_run_without_root_keys_keeps_the_form_they_allow() -> None:
    document = {"compaction": {"reserved": 4096}}
    assert content(request(), document).limit == {"context": 32768, "input": 28672, "output": 4096}
    smaller = msgspec.structs.replace(LIMITS, context=16384, input=14336, output=2048, reserved=2048)
    assert content(request(limits=smaller), document).limit == {"context": 14336, "output": 2048}


def test_thinking_models() -> None:
    made = content(request(reasoning=True, interleaved=interleaved_field("0.32.0+cpu")), {})
    model = get(made.settings, ("provider", "vllm", "models", REQUEST.model_key))
    assert get(model, ("reasoning",)) is True
    assert get(model, ("interleaved",)) == {"field": "reasoning"}
    assert interleaved_field("0.15.1") is None
    assert interleaved_field(None) == "reasoning"


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ({}, "vllm"),
        ({"vllm": {"name": "no address yet"}}, "vllm"),
        ({"vllm": {"options": {"baseURL": "http://localhost:8000/v1/"}}}, "vllm"),
        ({"vllm": {"options": {"baseURL": "http://127.0.0.1:8001/v1"}}}, "vllm-local"),
        ({"vllm": {"options": {"baseURL": "{env:URL}"}}}, "vllm-local"),
        ({"vllm": {"api": "https://gpu.example/v1"}, "vllm-local": "odd"}, "vllm-2"),
        (
            {
                "vllm": {"options": {"baseURL": "http://a/v1"}},
                "vllm-local": {"options": {"baseURL": "http://b/v1"}},
            },
            "vllm-2",
        ),
        (
            {
                "vllm": {"options": {"baseURL": "http://a/v1"}},
                "vllm-3": {"options": {"baseURL": "http://[::1]:8000/v1"}},
            },
            "vllm-3",
        ),
        # A second server that was given a name with --provider is updated under it, without being told again.
        (
            {
                "vllm": {"options": {"baseURL": "http://a/v1"}},
                "upstairs": {"options": {"baseURL": "http://127.0.0.1:8000/v1"}},
            },
            "upstairs",
        ),
        (
            {
                "vllm": {"options": {"baseURL": "http://a/v1"}},
                "openai-box": {"options": {"baseURL": "http://127.0.0.1:8000/v1"}},
            },
            "vllm-local",
        ),
        ({"mine": {"options": {"baseURL": "http://127.0.0.1:8000/v1"}}}, "vllm"),
        ("no table", "vllm"),
    ],
)
def test_the_users_other_server_keeps_its_name(provider: dict[str, object], expected: str) -> None:
    document = {"provider": provider}
    assert content(request(), document).provider == expected
    assert content(request(provider_explicit=True), document).provider == "vllm"


@pytest.mark.parametrize(
    "name", ["openai", "openai-local", "OpenCode", "github-copilot", "a/b", "", "a b", "#"]
)
def test_provider_names_opencode_treats_otherwise(name: str) -> None:
    with pytest.raises(UsageError):
        content(request(provider=name), {})


@pytest.mark.parametrize(
    ("served", "models", "key"),
    [
        ("qwen3-coder", {}, "qwen3-coder"),
        ("org/model:q4", {}, "org/model:q4"),
        ("/data/models/Qwen3 Coder", {}, "Qwen3-Coder"),
        ("/data/models/qwen/", {"qwen": {"id": "another"}}, "qwen-2"),
        ("model#fp8", {"nice": {"id": "model#fp8"}}, "nice"),
        ("/#", {}, "model"),
    ],
)
def test_keys_opencode_can_use(served: str, models: dict[str, object], key: str) -> None:
    url = {"options": {"baseURL": REQUEST.base_url}}
    made = content(request(model_key=served), {"provider": {"vllm": {**url, "models": models}}})
    assert made.model_key == key
    entry = get(made.settings, ("provider", "vllm", "models", key))
    assert get(entry, ("id",)) == (MISSING if key == served else served)


@pytest.mark.parametrize("name", ["", " x", "{env:HOME}", "a{file:/etc/passwd}", "bell\x07", "two\nlines"])
def test_served_names_that_would_harm(name: str) -> None:
    with pytest.raises(RefusedError):
        content(request(model_key=name), {})


def test_display_names_cannot_become_references() -> None:
    made = content(request(model_name="M {file:/etc/passwd}"), {})
    assert "{file:" not in msgspec.json.encode(made.settings).decode()


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("https://gpu.example/team/v1", "https://gpu.example/team/v1"),
    ],
)
def test_addresses(given: str, written: str) -> None:
    made = content(request(base_url=given), {})
    assert get(made.settings, ("provider", "vllm", "options", "baseURL")) == written


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/v1",
        "8000",
        "http://",
        "http://u:hunter2@h/v1",
        "http://h/v1?key=hunter2",
        "http://h:99999/v1",
    ],
)
def test_addresses_that_cannot_be_written(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        content(request(base_url=url), {})
    assert "hunter2" not in str(caught.value)


def test_the_users_own_choices_in_our_block_stay() -> None:
    document = {
        "provider": {
            "vllm": {
                "name": "My box",
                "options": {
                    "baseURL": "http://127.0.0.1:8000/v1",
                    "chunkTimeout": False,
                    "headerTimeout": 60000,
                },
                "models": {REQUEST.model_key: {"name": "Fast one", "id": "stale"}},
            }
        }
    }
    block = get(content(request(), document).settings, ("provider", "vllm"))
    assert get(block, ("name",)) == "My box"
    assert get(block, ("options", "chunkTimeout")) is False
    assert get(block, ("options", "headerTimeout")) == 1_800_000
    assert get(block, ("models", REQUEST.model_key, "name")) == "Fast one"
    assert get(block, ("models", REQUEST.model_key, "id")) == REQUEST.model_key


def test_lists_that_would_hide_our_provider() -> None:
    document = {"enabled_providers": ["anthropic"], "disabled_providers": ["vllm", "x"]}
    warned = " ".join(content(request(), document).warnings)
    assert "enabled_providers" in warned
    assert "disabled_providers" in warned
    agreed = content(request(globals=True), document)
    assert agreed.settings["enabled_providers"] == ["anthropic", "vllm"]
    assert agreed.settings["disabled_providers"] == ["x"]


def test_private() -> None:
    mine = {"options": {"baseURL": "http://10.1.2.3/v1"}}
    made = content(
        request(private=True),
        {"provider": {"mine": mine, "hosted": {}}, "permission": {"webfetch": "ask", "*": "allow"}},
    )
    assert any("hosted" in warning for warning in made.warnings)
    assert made.settings["share"] == "disabled"
    assert made.settings["autoupdate"] is False
    assert made.settings["enabled_providers"] == ["mine", "vllm"]
    assert made.settings["permission"] == {"webfetch": "deny", "websearch": "deny"}
    assert made.moved == (("permission", "webfetch"),)
    assert "model" not in made.settings
    whole = content(request(private=True), {"permission": "ask"})
    assert whole.settings["permission"] == {"*": "ask", "webfetch": "deny", "websearch": "deny"}
    assert whole.moved == (("permission",),)


def test_warnings_for_old_and_new_opencode() -> None:
    assert "hosted model" in " ".join(content(request(opencode_version="1.1.65"), {}).warnings)
    assert "opencode 2" in " ".join(content(request(opencode_version="2.0.12"), {}).warnings)
    assert "opencode 2" not in " ".join(
        content(request(opencode_version="2.0.12", globals=True), {}).warnings
    )
    narrow = msgspec.structs.replace(LIMITS, warnings=(BudgetWarning(code="small", text="It is small."),))
    assert "It is small." in content(request(limits=narrow), {}).warnings


def test_keys_are_only_ever_named(tmp_path: Path) -> None:
    assert key_reference(None, "VLLM_API_KEY") == "{env:VLLM_API_KEY}"
    assert key_reference("~/.config/vllm key", None) == "{file:~/.config/vllm key}"
    assert key_reference(str(tmp_path / "key"), None) == f"{{file:{tmp_path}/key}}"
    assert key_reference(None, None) is None
    with pytest.raises(UsageError) as caught:
        key_reference(None, "sk-live-123")
    assert "sk-" not in str(caught.value)
    for bad in ("/a}b", '/a"b', "/a\\b", "/a\nb"):
        with pytest.raises(UsageError):
            key_reference(bad, None)
    with pytest.raises(UsageError):
        key_reference("/a", "B")


def test_a_key_file_must_be_there_and_closed_to_others(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="chmod 600"):
        check_key_file("~/key", tmp_path)
    (tmp_path / "key").write_text("secret-value")
    (tmp_path / "key").chmod(0o644)
    (warning,) = check_key_file("~/key", tmp_path)
    assert "chmod 600" in warning
    assert "secret-value" not in warning
    (tmp_path / "key").chmod(0o600)
    assert check_key_file("~/key", tmp_path) == ()


TOOLS = ("question", "skill", "task", "todowrite", "webfetch", "websearch")


def test_tools_are_denied_when_that_was_agreed_to() -> None:
    made = content(request(denied_tools=TOOLS), {})
    assert get(made.settings, ("permission",)) == dict.fromkeys(TOOLS, "deny")
    assert get(content(request(), {}).settings, ("permission",)) is MISSING
    assert any("does without question, skill" in warning for warning in made.warnings)


def test_denied_tools_come_after_the_rules_of_the_user() -> None:
    """Of opencode's rules the last one that fits wins."""
    rules = {"webfetch": "allow", "*": "ask", "bash": "allow"}
    made = content(request(denied_tools=TOOLS), {"permission": rules})
    assert made.moved == (("permission", "webfetch"),)
    whole = content(request(denied_tools=TOOLS), {"permission": "ask"})
    assert next(iter(whole.settings["permission"].items())) == ("*", "ask")
    both = content(request(denied_tools=TOOLS, private=True), {})
    assert get(both.settings, ("permission",)) == dict.fromkeys(("webfetch", "websearch", *TOOLS), "deny")
