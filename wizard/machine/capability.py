"""Compute capabilities as NVIDIA writes them."""

from __future__ import annotations

import re


def normal_capability(value: str | float | tuple[int, int]) -> str:
    """A compute capability as NVIDIA writes it (``12.1``), from text, number or pair. Raises ValueError."""
    if isinstance(value, tuple):
        text = "{}.{}".format(*value)
    elif isinstance(value, str):
        text = value.strip()
    else:
        text = f"{value:.1f}" if round(value, 1) == value else str(value)
    if not re.fullmatch(r"[1-9]\d?\.\d", text, re.ASCII):
        raise ValueError(text)
    return text
