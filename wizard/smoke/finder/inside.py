"""Runs inside the environment of an installed vLLM, sent there with ``-c``: every parser over one text.

The job is the first argument, as JSON. Every answer is one line of JSON behind ``MARK``. A parser is
announced before it is tried, so that one which hangs is known by name; Python code that takes too long is
interrupted, anything else ends this process. Each parser is used as the server uses it: on a whole answer,
and token by token.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import inspect
import json
import re
import signal
import sys
from typing import Any

MARK = "WIZARD-PARSER "

# Newest place first; each moved at least once between vLLM 0.8 and 0.33.
_PLACES = {
    "ToolParserManager": ("vllm.tool_parsers", "vllm.entrypoints.openai.tool_parsers"),
    "ReasoningParserManager": ("vllm.reasoning",),
    "ChatCompletionRequest": (
        "vllm.entrypoints.openai.chat_completion.protocol",
        "vllm.entrypoints.openai.protocol",
    ),
    "get_tokenizer": ("vllm.tokenizers", "vllm.transformers_utils.tokenizer"),
    "ParserManager": ("vllm.parser",),
}
_INCOMPLETE = "\ufffd"
"""What a decoder writes for a character whose bytes are not all there yet."""
_SHOWN = 4000
"""Characters of content or reasoning that are told."""
_GRACE = 2
"""How often the limit passes before a parser that cannot be interrupted ends this process."""


class TookTooLong(BaseException):
    """A parser ran beyond its limit."""


def main() -> None:
    """Try every parser the job names."""
    sys.path[:] = [place for place in sys.path if place]
    job = json.loads(sys.argv[1])
    with contextlib.suppress(Exception):
        importlib.import_module("vllm.plugins").load_general_plugins()
    bench = Bench(job)
    tell({"tokenizer": bench.origin})
    signal.signal(signal.SIGALRM, _interrupt)
    for kind in ("tool", "reasoning"):
        for name in bench.names(kind):
            tell({"began": name, "kind": kind})
            tell({"kind": kind, "parser": name, **bench.trial(kind, name)})
    tell({"done": True})


def tell(answer: dict[str, Any]) -> None:
    sys.stdout.write(f"\n{MARK}{json.dumps(answer)}\n")
    sys.stdout.flush()


class Bench:
    """The text, its tokens, and the requests that would have led to it."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._texts: dict[str, str] = {kind: raw["text"] for kind, raw in job["texts"].items()}
        self._seconds: float = job["seconds"]
        self._skip = {tuple(pair) for pair in job["skip"]}
        self.tokenizer, self.origin = _tokenizer(job)
        self._ids = {
            kind: list(self.tokenizer.encode(text, add_special_tokens=False))
            for kind, text in self._texts.items()
        }
        self._prompt_ids = {
            kind: raw["prompt_ids"] if self.origin else [] for kind, raw in job["texts"].items()
        }
        self._managers = {"tool": _first("ToolParserManager"), "reasoning": _first("ReasoningParserManager")}
        if job["plugin"]:
            self._managers["tool"].import_tool_parser(job["plugin"])
        request = _first("ChatCompletionRequest")
        self._template = {"chat_template_kwargs": job["template_kwargs"]} if job["template_kwargs"] else {}
        talk = {"model": "model", "messages": [{"role": "user", "content": job["prompt"]}], **self._template}
        called = {**talk, "tools": job["tools"], "tool_choice": "auto"}
        self._requests = {"tool": request(**called), "reasoning": request(**talk)}

    def names(self, kind: str) -> list[str]:
        """The registered parsers that have a text to be tried on."""
        if kind not in self._texts:
            return []
        manager = self._managers[kind]
        listed = getattr(manager, "list_registered", None)
        every = listed() if listed else getattr(manager, f"{kind}_parsers")
        return sorted(name for name in every if (kind, name) not in self._skip)

    def trial(self, kind: str, name: str) -> dict[str, Any]:
        """Both readings, or the problem; never raises."""
        faulthandler.dump_traceback_later(self._seconds * _GRACE, exit=True)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        try:
            make = self._maker(kind, name)
            make()
            return {
                "whole": self._reading(lambda: self._whole(make(), kind)),
                "streamed": self._reading(lambda: self._streamed(make(), kind)),
            }
        except TookTooLong:
            return {"hung": True}
        except BaseException as error:  # noqa: BLE001 - whatever a parser raises is its answer
            return {"problem": _root(error)}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()

    def _reading(self, read: Any) -> dict[str, Any]:
        try:
            found: dict[str, Any] = read()
        except TookTooLong:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a parser raises is its answer
            return {"problem": _root(error)}
        return found

    def _maker(self, kind: str, name: str) -> Any:
        """A function that makes the parser as the server would: wrapped, where vLLM wraps its parsers."""
        own = getattr(self._managers[kind], f"get_{kind}_parser")(name)
        tools = self._requests["tool"].tools if kind == "tool" else None
        with contextlib.suppress(ImportError, AttributeError):
            compose = _first("ParserManager").get_parser
            wanted = {f"{kind}_parser_name": name, "enable_auto_tools": kind == "tool", "model_name": "model"}
            cls = compose(**_accepted(compose, {**wanted, "tokenizer": self.tokenizer}))
            if hasattr(cls, "parse_delta"):
                return lambda: cls(self.tokenizer, tools, **self._template)
        if kind == "tool" and "tools" in inspect.signature(own.__init__).parameters:
            return lambda: own(self.tokenizer, tools)
        return lambda: own(self.tokenizer)

    def _whole(self, parser: Any, kind: str) -> dict[str, Any]:
        text, request = self._texts[kind], self._requests[kind]
        if hasattr(parser, "parse_delta"):
            more = {"enable_auto_tools": kind == "tool", "model_output_token_ids": self._ids[kind]}
            reasoning, content, calls = parser.parse(text, request, **_accepted(parser.parse, more))
            return _told(reasoning, content, calls)
        if kind == "tool":
            found = parser.extract_tool_calls(text, request)
            return _told(None, found.content, [call.function for call in found.tool_calls])
        extract = getattr(parser, "extract_reasoning", None) or parser.extract_reasoning_content
        reasoning, content = extract(text, request)
        return _told(reasoning, content, [])

    def _streamed(self, parser: Any, kind: str) -> dict[str, Any]:
        collected = Collected()
        pieces = list(_pieces(self.tokenizer, self._ids[kind]))
        text = ""
        ids: list[int] = []
        for number, (piece, tokens) in enumerate(pieces):
            if hasattr(parser, "parse_delta"):
                more = {"prompt_token_ids": self._prompt_ids[kind] if number == 0 else None}
                last = number == len(pieces) - 1
                delta = parser.parse_delta(piece, tokens, self._requests[kind], **more, finished=last)
            else:
                now, now_ids = text + piece, ids + tokens
                arguments = (text, now, piece, ids, now_ids, tokens)
                if kind == "tool":
                    delta = parser.extract_tool_calls_streaming(*arguments, self._requests[kind])
                else:
                    delta = _reasoning_step(parser)(*arguments)
                text, ids = now, now_ids
            collected.add(delta)
        collected.complete(parser)
        return collected.told()


class Collected:
    """A streamed answer, put together as a client does it."""

    def __init__(self) -> None:
        self.content = self.reasoning = ""
        self.calls: dict[int, list[str]] = {}

    def add(self, delta: Any) -> None:
        if delta is None:
            return
        self.content += delta.content or ""
        self.reasoning += getattr(delta, "reasoning", None) or getattr(delta, "reasoning_content", None) or ""
        for call in delta.tool_calls or []:
            known = self.calls.setdefault(call.index, ["", ""])
            function = call.function
            known[0] = known[0] or _field(function, "name")
            known[1] += _field(function, "arguments")

    def complete(self, parser: Any) -> None:
        """What vLLM's server adds at the end for parsers that hold the last bytes back (before 0.17)."""
        kept = getattr(parser, "prev_tool_call_arr", None)
        sent = getattr(parser, "streamed_args_for_tool", None)
        if not kept or not sent or len(kept) - 1 not in self.calls or len(sent) < len(kept):
            return
        arguments = kept[-1].get("arguments", {})
        whole = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        if whole.startswith(sent[len(kept) - 1]):
            self.calls[len(kept) - 1][1] += whole[len(sent[len(kept) - 1]) :]

    def told(self) -> dict[str, Any]:
        calls = [{"name": name, "arguments": text} for _index, (name, text) in sorted(self.calls.items())]
        return {"reasoning": self.reasoning[:_SHOWN], "content": self.content[:_SHOWN], "calls": calls}


class MadeUpTokenizer:
    """Stands in for the model's own: each tag of the text or of ``marks`` is a token, else each character."""

    def __init__(self, text: str, marks: list[str]) -> None:
        self._split = re.compile(r"<[/|｜]?[\w▁:|｜-]{1,60}>|\[/?[A-Z_]{2,30}\]|[\s\S]")
        words = dict.fromkeys([*self._split.findall(text), *marks])
        self._vocabulary = {word: number for number, word in enumerate(words)}
        self._words = list(words)
        self.all_special_tokens = [word for word in words if len(word) > 1]
        self.all_special_ids = [self._vocabulary[word] for word in self.all_special_tokens]
        self.bos_token = self.eos_token = self.pad_token = ""
        self.bos_token_id = self.eos_token_id = self.pad_token_id = None
        self.init_kwargs: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._words)

    def get_vocab(self) -> dict[str, int]:
        return self._vocabulary

    @property
    def vocab(self) -> dict[str, int]:
        return self._vocabulary

    def encode(self, text: str, **_options: Any) -> list[int]:
        known = self._vocabulary
        return [known[word] for word in self._split.findall(text) if word in known]

    def decode(self, ids: Any, **_options: Any) -> str:
        return "".join(self._words[number] for number in ([ids] if isinstance(ids, int) else ids))

    def tokenize(self, text: str, **_options: Any) -> list[str]:
        return self._split.findall(text)

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        if isinstance(tokens, str):
            return self._vocabulary.get(tokens)
        return [self._vocabulary.get(token) for token in tokens]

    def convert_ids_to_tokens(self, ids: Any, **_options: Any) -> Any:
        return self._words[ids] if isinstance(ids, int) else [self._words[number] for number in ids]


def _tokenizer(job: dict[str, Any]) -> tuple[Any, str]:
    """The checkpoint's own tokenizer and where it was read, else one made up."""
    if job["checkpoint"]:
        with contextlib.suppress(Exception):
            make = _first("get_tokenizer")
            return make(job["checkpoint"], trust_remote_code=job["trust_remote_code"]), job["checkpoint"]
    return MadeUpTokenizer("".join(raw["text"] for raw in job["texts"].values()), job["marks"]), ""


def _pieces(tokenizer: Any, ids: list[int]) -> Any:
    """Text and tokens of each piece a server would send: one token, or the few that make one character."""
    before = shown = 0
    for end in range(1, len(ids) + 1):
        old, new = (tokenizer.decode(ids[before:stop], skip_special_tokens=False) for stop in (shown, end))
        if (len(new) > len(old) and not new.endswith(_INCOMPLETE)) or end == len(ids):
            yield new[len(old) :], ids[shown:end]
            before, shown = shown, end


def _reasoning_step(parser: Any) -> Any:
    newer = getattr(parser, "extract_reasoning_streaming", None)
    return newer or parser.extract_reasoning_content_streaming


def _told(reasoning: Any, content: Any, calls: Any) -> dict[str, Any]:
    found = [{"name": _field(call, "name"), "arguments": _field(call, "arguments")} for call in calls or []]
    return {"reasoning": (reasoning or "")[:_SHOWN], "content": (content or "")[:_SHOWN], "calls": found}


def _field(function: Any, name: str) -> str:
    value = function.get(name) if isinstance(function, dict) else getattr(function, name, None)
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _accepted(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Those arguments the function of this version takes."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in known}


def _first(name: str) -> Any:
    """``name`` from the first of its places that has it."""
    for module in _PLACES[name]:
        with contextlib.suppress(ModuleNotFoundError, AttributeError):
            return getattr(importlib.import_module(module), name)
    raise ImportError(f"this vLLM has no {name}")


def _root(error: BaseException) -> str:
    """The cause behind an error, in its own words."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


def _interrupt(*_signal: Any) -> None:
    raise TookTooLong


if __name__ == "__main__":
    main()
