"""The stand-in's HTTP answers, against what vLLM 0.32 answered to the same requests."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from standin import TOOLS, serving

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}
SAYS_ADD = {"role": "user", "content": "Use the add tool to add 17 and 25."}
AUTO_OFF = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    with serving(*TOOLS, "--max-model-len", "2048") as (address, _standin):
        yield address


def call(root: str, path: str, body: Any = None, key: str | None = None) -> tuple[int, str]:
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    headers = {"Authorization": key} if key else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(root + path, data, headers), timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def chat(root: str, **request: Any) -> tuple[int, Any]:
    status, body = call(root, "/v1/chat/completions", {"messages": [SAYS_ADD], **request})
    return status, json.loads(body)


def chunks(root: str, **request: Any) -> list[Any]:
    status, body = call(root, "/v1/chat/completions", {"messages": [SAYS_ADD], "stream": True, **request})
    assert status == 200
    events = [line.removeprefix("data: ") for line in body.splitlines() if line]
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def test_health_and_version_and_models(root: str) -> None:
    assert call(root, "/health") == (200, "")
    assert json.loads(call(root, "/version")[1]) == {"version": "0.33.0", "rehearsal": True}
    listed = json.loads(call(root, "/v1/models")[1])
    assert listed["object"] == "list"
    assert [(entry["id"], entry["root"], entry["max_model_len"]) for entry in listed["data"]] == [
        ("tiny", "org/tiny", 2048)
    ]


def test_a_plain_call_has_vllms_shape(root: str) -> None:
    status, body = chat(root, model="tiny", tools=[ADD])
    assert status == 200
    choice = body["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    made = choice["message"]["tool_calls"][0]
    assert made["type"] == "function"
    assert made["id"].startswith("chatcmpl-tool-")
    assert made["function"]["name"] == "add"
    assert json.loads(made["function"]["arguments"]) == {"a": 17, "b": 25}
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_without_a_call_the_key_is_absent(root: str) -> None:
    message = chat(root)[1]["choices"][0]["message"]
    assert "tool_calls" not in message
    assert message["content"]


def test_a_streamed_call_comes_in_vllms_pieces(root: str) -> None:
    pieces = chunks(root, tools=[ADD], stream_options={"include_usage": True})
    deltas = [piece["choices"][0]["delta"] for piece in pieces if piece["choices"]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    first = deltas[1]["tool_calls"][0]
    assert first["function"] == {"name": "add"}
    assert first["index"] == 0
    arguments = [delta["tool_calls"][0]["function"]["arguments"] for delta in deltas[2:-1]]
    assert len(arguments) > 1
    assert json.loads("".join(arguments)) == {"a": 17, "b": 25}
    assert deltas[-1] == {}
    assert [piece["choices"][0]["finish_reason"] for piece in pieces if piece["choices"]][-1] == "tool_calls"
    assert pieces[-1]["choices"] == []
    assert pieces[-1]["usage"]["completion_tokens"] > 0


def test_usage_comes_only_when_it_is_asked_for(root: str) -> None:
    assert not any("usage" in piece for piece in chunks(root, tools=[ADD]))


def test_after_a_tools_result_it_speaks(root: str) -> None:
    made = {"id": "x", "type": "function", "function": {"name": "add", "arguments": '{"a": 17, "b": 25}'}}
    messages = [
        SAYS_ADD,
        {"role": "assistant", "content": "", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "x", "content": "42"},
    ]
    choice = chat(root, messages=messages, tools=[ADD])[1]["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert "42" in choice["message"]["content"]


def test_a_forced_tool_ends_with_stop_as_in_vllm(root: str) -> None:
    named = {"type": "function", "function": {"name": "add"}}
    assert chat(root, tools=[ADD], tool_choice=named)[1]["choices"][0]["finish_reason"] == "stop"
    assert chat(root, tools=[ADD], tool_choice="required")[1]["choices"][0]["finish_reason"] == "tool_calls"
    assert chat(root, tools=[ADD], tool_choice="none")[1]["choices"][0]["message"]["content"]


def test_max_tokens_cuts_words(root: str) -> None:
    body = chat(root, max_tokens=3)[1]
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize(
    ("request_", "status", "message", "kind"),
    [
        ({"model": "nope"}, 404, "The model `nope` does not exist. Valid aliases: tiny.", "NotFoundError"),
        (
            {"max_tokens": 2049},
            400,
            "max_tokens=2049 cannot be greater than max_model_len=2048. Please request fewer output tokens. "
            "(parameter=max_tokens, value=2049)",
            "BadRequestError",
        ),
        (
            {"max_tokens": 0},
            400,
            "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)",
            "BadRequestError",
        ),
        (
            {"tools": []},
            400,
            "`tools` must not be an empty array. Either provide at least one tool or omit the field "
            "entirely. (parameter=tools)",
            "BadRequestError",
        ),
    ],
)
def test_refusals_are_worded_as_vllms(
    root: str, request_: dict[str, Any], status: int, message: str, kind: str
) -> None:
    got, body = chat(root, **request_)
    assert (got, body["error"]["message"]) == (status, message)
    assert (body["error"]["type"], body["error"]["code"]) == (kind, status)


def test_a_prompt_longer_than_the_window_is_refused_and_max_tokens_up_to_it_is_not(root: str) -> None:
    status, body = chat(root, messages=[{"role": "user", "content": "x" * 4 * 2100}])
    assert status == 400
    assert body["error"]["message"].startswith(
        "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 "
    )
    assert body["error"]["message"].endswith("(parameter=input_tokens, value=2049)")
    assert chat(root, max_tokens=2048)[0] == 200


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"messages": "hello"}', b'{"messages": [{}], "max_tokens": "x"}']
)
def test_nonsense_is_a_bad_request(root: str, body: bytes) -> None:
    status, text = call(root, "/v1/chat/completions", body)
    assert status == 400
    assert json.loads(text)["error"]["code"] == 400


@pytest.mark.parametrize("path", ["/v1/v1/chat/completions", "/chat/completions"])
def test_other_paths_are_not_found(root: str, path: str) -> None:
    assert call(root, path, {}) == (404, '{"detail": "Not Found"}')


def test_tools_need_both_flags() -> None:
    with serving("--tool-call-parser", "hermes") as (root, _standin):
        status, body = chat(root, tools=[ADD])
    assert (status, body["error"]["message"], body["error"]["param"]) == (400, AUTO_OFF, None)


def test_a_key_guards_v1_only() -> None:
    with serving(env={"VLLM_API_KEY": "k1"}) as (root, _standin):
        for wrong in (None, "k1", "Bearer k2"):
            assert call(root, "/v1/models", key=wrong) == (401, '{"error": "Unauthorized"}')
            assert call(root, "/v1/chat/completions", {}, wrong)[0] == 401
        assert call(root, "/v1/models", key="Bearer k1")[0] == 200
        assert [call(root, path)[0] for path in ("/health", "/version", "/metrics")] == [200, 200, 200]


def test_several_served_names_are_all_listed_and_understood() -> None:
    with serving("--served-model-name", "one", "two") as (root, _standin):
        assert [entry["id"] for entry in json.loads(call(root, "/v1/models")[1])["data"]] == ["one", "two"]
        assert chat(root, model="two")[1]["model"] == "two"


def test_metrics_count_answers_and_parsed_calls() -> None:
    with serving(*TOOLS) as (root, _standin):
        chat(root)
        chat(root, tools=[ADD])
        chunks(root, tools=[ADD])
        page = call(root, "/metrics")[1]

    def value(name: str, *labels: str) -> float:
        rows = [
            line
            for line in page.splitlines()
            if line.startswith(name) and all(text in line for text in labels)
        ]
        return sum(float(row.rpartition(" ")[2]) for row in rows)

    assert value("vllm:request_success_total", 'finished_reason="stop"', 'model_name="tiny"') == 3
    parsed = ("vllm:tool_call_parser_invocations_total", 'outcome="tool_call"')
    assert value(*parsed, 'mode="streaming"') == 1
    assert value(*parsed, 'mode="non_streaming"') == 1
    assert value("vllm:generation_tokens_total") > 0
    assert all(re.fullmatch(r'#.*|[\w:]+\{(\w+="[^"]*",?)*\} [\d.]+', line) for line in page.splitlines())


def test_the_tools_fault_writes_the_call_between_tags_no_parser_reads() -> None:
    with serving(*TOOLS, "--rehearsal-fault", "tools-tag") as (root, _standin):
        message = chat(root, tools=[ADD])[1]["choices"][0]["message"]
        streamed = "".join(
            piece["choices"][0]["delta"].get("content") or "" for piece in chunks(root, tools=[ADD])
        )
    assert "tool_calls" not in message
    inside = re.fullmatch(r"<tools>\n(.*)\n</tools>", message["content"])
    assert inside
    assert json.loads(inside[1]) == {"name": "add", "arguments": {"a": 17, "b": 25}}
    assert streamed == message["content"]


def test_the_stream_leak_fault_spoils_only_streams() -> None:
    with serving(*TOOLS, "--rehearsal-fault", "stream-leak") as (root, _standin):
        assert chat(root, tools=[ADD])[1]["choices"][0]["message"]["tool_calls"]
        pieces = chunks(root, tools=[ADD])
    assert not any("tool_calls" in piece["choices"][0]["delta"] for piece in pieces)
    assert "<tool_call>" in "".join(piece["choices"][0]["delta"].get("content") or "" for piece in pieces)


def test_the_swallowed_fault_counts_tokens_and_shows_nothing() -> None:
    with serving(*TOOLS, "--rehearsal-fault", "swallowed") as (root, _standin):
        body = chat(root, tools=[ADD])[1]
        pieces = chunks(root, tools=[ADD])
    assert body["choices"][0]["message"]["content"] is None
    assert "tool_calls" not in body["choices"][0]["message"]
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["completion_tokens"] > 8
    assert [piece["choices"][0]["delta"] for piece in pieces] == [{"role": "assistant", "content": ""}, {}]


def test_an_engine_that_dies_answers_as_vllm_and_the_server_leaves_with_code_0() -> None:
    with serving("--rehearsal-fault", "dies-serving") as (root, standin):
        status, body = chat(root)
        assert standin.read_to_end() == 0
    assert status == 500
    assert body["error"]["message"].startswith("EngineCore encountered an issue.")
    assert not any("[shutdown]" in line for line in standin.lines)
    assert any("died unexpectedly" in line for line in standin.lines)


# Tools in the form of opencode's: what a coding agent's proof run asks for.
def test_a_file_name_and_quoted_text_reach_the_arguments_of_write(root: str) -> None:
    text = {"type": "string"}
    tools = [
        _tool("bash", {"command": text}),
        _tool("read", {"filePath": text}),
        _tool("write", {"content": text, "filePath": text}),
    ]
    said = '"Write the text \\"hi there\\" into the file hello.txt with the write tool."'
    body = chat(root, messages=[{"role": "user", "content": said}], tools=tools)[1]
    made = body["choices"][0]["message"]["tool_calls"][0]["function"]
    assert made["name"] == "write"
    assert json.loads(made["arguments"]) == {"content": "hi there", "filePath": "hello.txt"}


def test_what_somebody_typed_never_becomes_a_shell_command(root: str) -> None:
    tools = [_tool("bash", {"command": {"type": "string"}})]
    said = {"role": "user", "content": 'Use bash to run `rm -rf /` and "reboot".'}
    body = chat(root, messages=[said], tools=tools)[1]
    arguments = body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"command": "echo rehearsal"}


@pytest.mark.parametrize(
    "path", ["../../etc/passwd.conf", "/etc/ssh/sshd.conf", "~/notes.txt", "C:\\a\\b.txt"]
)
def test_files_outside_the_folder_are_never_named(root: str, path: str) -> None:
    tools = [_tool("write", {"content": {"type": "string"}, "filePath": {"type": "string"}})]
    said = {"role": "user", "content": f"write {path} please"}
    body = chat(root, messages=[said], tools=tools)[1]
    arguments = json.loads(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
    assert arguments["filePath"] == "rehearsal.txt"


def _tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}
