"""The tiny checkpoints do what they claim, served by the real vLLM and used by the real opencode.

Other end-to-end tests rest on this: when one of them fails and these pass, the fault is the wizard's. What
each pairing of wire format and parser must give is vLLM 0.32's and opencode 1.18's own behaviour.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from realkit import NotInstallable, RealKit, once
from serving import (
    ADD_TOOL,
    HERMES,
    QWEN3_CODER,
    THINK_HERMES,
    UNREADABLE,
    Pairing,
    RunningServer,
    run_opencode,
)
from tinymodel.alphabet import LETTERS, code_vector, spelling, symbols
from tinymodel.rotation import agreement

every_pairing = pytest.mark.parametrize(
    "pairing", [HERMES, UNREADABLE, QWEN3_CODER, THINK_HERMES], indirect=True, ids=str
)

TAGGED = '<tools>\n{"name": "add", "arguments": {"a": 17, "b": 25}}\n</tools>'


@dataclass(frozen=True)
class Served:
    """A server and what is expected of it."""

    pairing: Pairing
    server: RunningServer

    @property
    def calls(self) -> bool:
        """Whether a call comes out of this pairing of format and parser."""
        return self.pairing != UNREADABLE

    def chat(self, question: str, **more: Any) -> dict[str, Any]:
        """The answer to one user message with the `add` tool at hand."""
        reply = httpx.post(self._url, json=self._body(question, **more), timeout=120, trust_env=False)
        assert reply.status_code == 200, reply.text
        return dict(reply.json())

    def streamed(self, question: str) -> list[dict[str, Any]]:
        """The choices of all chunks of the same, streamed."""
        body = self._body(question, stream=True)
        with httpx.stream("POST", self._url, json=body, timeout=120, trust_env=False) as reply:
            data = [line.removeprefix("data: ") for line in reply.iter_lines() if line.startswith("data: {")]
        return [choice for text in data for choice in json.loads(text)["choices"]]

    @property
    def _url(self) -> str:
        return f"{self.server.base_url}/chat/completions"

    def _body(self, question: str, **more: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": question}]
        return {"model": self.server.name, "messages": messages, "tools": [ADD_TOOL], **more}


@pytest.fixture
def served(pairing: Pairing, running: RunningServer) -> Served:
    """The server of the pairing."""
    return Served(pairing, running)


def test_no_other_distance_comes_near_the_wanted_one() -> None:
    assert agreement(0) == pytest.approx(1.0)
    assert max(agreement(offset) for offset in range(1, 131_072)) < 0.84


def test_every_letter_is_spelled_by_its_bytes_and_codes_differ() -> None:
    spelled = spelling()
    assert all(len(spelled[letter]) == len(letter.encode()) for letter in LETTERS)
    vectors = {tuple(code_vector(code)) for code in symbols()}
    assert len(vectors) == len(symbols())


def test_an_install_is_made_once_and_again_after_an_interruption_or_another_recipe(tmp_path: Path) -> None:
    built: list[str] = []

    def build(folder: Path, recipe: Mapping[str, Any]) -> None:
        assert list(folder.iterdir()) == []
        (folder / "part").touch()
        built.append(recipe["version"])
        if recipe["version"] == "broken":
            raise NotInstallable("no connection")

    for version in ("1", "1", "2", "broken", "broken", "2"):
        with suppress(NotInstallable):
            once(tmp_path / "kit", {"version": version}, build)
    assert built == ["1", "2", "broken", "broken", "2"]


@every_pairing
def test_a_plain_answer_calls_the_tool(served: Served) -> None:
    answer = served.chat("Add 17 and 25.", temperature=2.0)
    choice = answer["choices"][0]
    if served.calls:
        (call,) = choice["message"]["tool_calls"]
        assert call["function"]["name"] == "add"
        assert json.loads(call["function"]["arguments"]) == {"a": 17, "b": 25}
        assert choice["finish_reason"] == "tool_calls"
    else:
        assert not choice["message"].get("tool_calls")
        assert choice["message"]["content"] == TAGGED
    if served.pairing.reasoning_parser:
        assert choice["message"]["reasoning"].strip() == "A short thought."


@every_pairing
def test_a_streamed_answer_calls_the_tool(served: Served) -> None:
    choices = served.streamed("Add 17 and 25.")
    deltas = [choice["delta"] for choice in choices]
    functions = [call["function"] for delta in deltas for call in delta.get("tool_calls") or ()]
    text = "".join(delta.get("content") or "" for delta in deltas)
    if served.calls:
        assert [function["name"] for function in functions if function.get("name")] == ["add"]
        arguments = "".join(function.get("arguments") or "" for function in functions)
        assert json.loads(arguments) == {"a": 17, "b": 25}
        assert text.strip() == ""
        assert choices[-1]["finish_reason"] == "tool_calls"
    else:
        assert functions == []
        assert text == TAGGED


@every_pairing
def test_the_answer_is_right_after_a_long_prompt(served: Served) -> None:
    answer = served.chat("the " * 30_000 + "Add 17 and 25.", max_tokens=500)
    assert answer["usage"]["prompt_tokens"] > 30_000
    message = answer["choices"][0]["message"]
    if served.calls:
        assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"a": 17, "b": 25}
    else:
        assert message["content"] == TAGGED


@every_pairing
def test_a_question_for_no_tool_is_answered_in_words(served: Served) -> None:
    message = served.chat("Say 'déjà vu'.")["choices"][0]["message"]
    assert not message.get("tool_calls")
    assert message["content"].strip() == "déjà vu"


@every_pairing
def test_opencode_writes_the_file(served: Served, realkit: RealKit, tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    settings = home / ".config" / "opencode" / "opencode.json"
    settings.parent.mkdir(parents=True)
    work.mkdir()
    settings.write_text(json.dumps(_opencode_settings(served.server)))
    prompt = "Write the text 'hello from the wizard' into the file 'proof.txt'."
    done = run_opencode(realkit, home, work, f"vllm/{served.server.name}", prompt)
    # opencode ends with 0 whether or not anything was called.
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    tools = [event["part"]["tool"] for event in events if event["type"] == "tool_use"]
    assert tools == (["write"] if served.calls else [])
    proof = work / "proof.txt"
    assert (proof.read_text() if proof.exists() else None) == (
        "hello from the wizard" if served.calls else None
    )


def _opencode_settings(server: RunningServer) -> dict[str, Any]:
    """The least that makes opencode work with a window of 32,768 tokens."""
    model = {"name": server.name, "limit": {"context": 32768, "input": 28672, "output": 4096}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": server.base_url},
        "models": {server.name: model},
    }
    return {
        "$schema": "https://opencode.ai/config.json",
        "provider": {"vllm": provider},
        "enabled_providers": ["vllm"],
        "compaction": {"reserved": 4096},
    }
