"""Puts a checkpoint together from tokenizer, weights, template and settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from tokenizers import Tokenizer

from . import tokenizer as words
from . import weights
from .alphabet import END_OF_TURN, ROW, hidden_token, spelling, symbols
from .rotation import HEAD, THETA

WINDOW = 131_072
FORMATS = ("hermes", "tools_tag", "qwen3_coder", "think_hermes")
"""How a tool call is written: Hermes' JSON, the same in `<tools>` tags as Qwen2.5-Coder writes it (no parser
of vLLM reads that), Qwen3-Coder's XML, and Hermes' JSON after a thought."""


def build(folder: Path, wire_format: str, tokenizer: Tokenizer) -> None:
    """Writes the checkpoint of one wire format into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    words.save(tokenizer, folder, WINDOW)
    (folder / "chat_template.jinja").write_text(_template(wire_format), encoding="utf-8")
    twins = {
        code: (tokenizer.token_to_id(hidden_token(code)), words.visible_token(tokenizer, code))
        for code in symbols()
    }
    end = tokenizer.token_to_id(END_OF_TURN)
    # From the newest token, at first the last one of the opening, back to the row's first.
    distance = ROW + len(tokenizer.encode(words.OPENING).ids) - 1
    vocabulary = tokenizer.get_vocab_size()
    save_file(
        weights.tensors(vocabulary, twins, end, distance),
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    _write(folder / "config.json", _settings(vocabulary, end))
    _write(folder / "generation_config.json", {"eos_token_id": end})


def _template(wire_format: str) -> str:
    """The chat template: what differs between checkpoints first, then the common part."""
    names = ("END", "CALL", "CALL_END", "THINK", "THINK_END")
    marks = {name: chr(1 + index) for index, name in enumerate(names)}
    named = {"WIRE_FORMAT": wire_format, "ROW": ROW, "SPELLING": spelling(), **marks}
    head = "".join(f"{{%- set {name} = {json.dumps(value)} -%}}\n" for name, value in named.items())
    return head + (Path(__file__).parent / "answer.jinja").read_text(encoding="utf-8")


def _settings(vocabulary: int, end: int) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "dtype": "bfloat16",
        "vocab_size": vocabulary,
        "hidden_size": weights.WIDTH,
        "intermediate_size": weights.WIDTH,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": HEAD,
        "hidden_act": "silu",
        "rms_norm_eps": weights.NORM_EPSILON,
        "rope_theta": THETA,
        "max_position_embeddings": WINDOW,
        "attention_bias": False,
        "use_sliding_window": False,
        "tie_word_embeddings": False,
        "eos_token_id": end,
    }


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
