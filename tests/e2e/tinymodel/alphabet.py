"""The hidden tokens, their visible twins, and how the template spells an answer with them."""

from __future__ import annotations

ROW = 480
"""Length of the hidden row in tokens: the longest answer, its end mark included."""

END_OF_TURN = "<|im_end|>"

MARKS = (END_OF_TURN, "<tool_call>", "</tool_call>", "<think>", "</think>")
"""Single tokens that parsers look for. In the template control characters from U+0001 on stand for them."""

LETTERS = "".join(map(chr, range(0x20, 0x7F))) + "\n\t" + "".join(map(chr, range(0xA1, 0x180))) + "–—‘’“”…€"
"""What an answer can be spelled with: ASCII, European letters, typographic signs; others become `?`."""

CODE_BITS = 9
"""Bits that tell the symbols apart: eight for the byte, one more that is set for marks."""


def symbols() -> list[int]:
    """Codes of all symbols an answer is made of: 256 bytes, then the marks."""
    return [*range(256), *(256 + index for index in range(len(MARKS)))]


def hidden_token(code: int) -> str:
    """The token that stands for a symbol in the hidden row."""
    return f"<|hidden_{code:03x}|>"


def spelling() -> dict[str, list[str]]:
    """The hidden tokens of every character of an answer: those of a letter's UTF-8 bytes, one for a mark."""
    letters = {letter: [hidden_token(byte) for byte in letter.encode()] for letter in LETTERS}
    marks = {chr(1 + index): [hidden_token(256 + index)] for index in range(len(MARKS))}
    return letters | marks


def code_vector(code: int) -> list[float]:
    """A symbol's code as `CODE_BITS` numbers, +1 for a set bit and -1 for a clear one.

    The product of two such vectors is `CODE_BITS` for the same symbol and at most `CODE_BITS - 2` for two
    others.
    """
    return [1.0 if code >> bit & 1 else -1.0 for bit in range(CODE_BITS)]
