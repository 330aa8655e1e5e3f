"""A byte-level BPE tokenizer in Qwen's manner, trained on text that every Python brings along."""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from .alphabet import END_OF_TURN, MARKS, hidden_token, symbols

VOCABULARY = 8192
TRAINING_BYTES = 4_000_000
END_OF_TEXT = "<|endoftext|>"
START_OF_TURN = "<|im_start|>"
OPENING = f"{START_OF_TURN}assistant\n"
"""What follows the hidden row in a prompt and opens the assistant's turn."""


def train() -> Tokenizer:
    """Trains the tokenizer; some seconds. Words, code and JSON come out at three to four bytes a token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    # As Qwen has it: turn marks are special, the marks of thinking and of tool calls are not.
    plain = [mark for mark in MARKS if mark != END_OF_TURN]
    hidden = [hidden_token(code) for code in symbols()]
    tokenizer.add_special_tokens([_added(name, True) for name in (END_OF_TEXT, START_OF_TURN, END_OF_TURN)])
    tokenizer.add_tokens([_added(name, False) for name in plain])
    tokenizer.add_special_tokens([_added(name, True) for name in hidden])
    return tokenizer


def visible_token(tokenizer: Tokenizer, code: int) -> int:
    """The id of the token that says a symbol: a byte's own token, or a mark's."""
    if code >= 256:
        return int(tokenizer.token_to_id(MARKS[code - 256]))
    return int(tokenizer.token_to_id(_byte_letters()[code]))


def save(tokenizer: Tokenizer, folder: Path, window: int) -> None:
    """Writes `tokenizer.json` and `tokenizer_config.json`."""
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_TURN,
        "pad_token": END_OF_TEXT,
        "model_max_length": window,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def _added(name: str, special: bool) -> AddedToken:
    return AddedToken(name, special=special, normalized=False)


def _texts() -> Iterator[str]:
    """Sources of the standard library, each also as a JSON string for the look of escaped text."""
    room = TRAINING_BYTES
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")[:60_000]
        room -= len(text)
        if room < 0:
            return
        yield text
        yield json.dumps({"name": path.stem, "description": text[:3000], "type": "string"}, indent=2)


def _byte_letters() -> list[str]:
    """The letter byte-level BPE writes for each byte: printable Latin-1 as itself, others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)]
