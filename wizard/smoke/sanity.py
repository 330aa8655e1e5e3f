"""Text that no healthy model writes: one sign or one phrase for ever, bytes that are no characters."""

from __future__ import annotations

import functools
import re

from wizard.smoke.material import material
from wizard.text import one_line

_LONGEST_PHRASE = 40
"""Characters of a phrase that is looked for in repetition."""
_SHOWN = 12
_LOOKED_AT = 4000
"""Characters at the end of a text that are looked at: what goes on for ever does so there."""


def nonsense(text: str) -> str:
    """What is wrong with ``text`` in a few characters, or nothing.

    Tables and rules repeat too: only what is said over and over until the text ends, or fills most of it,
    counts.
    """
    end = text.rstrip()[-_LOOKED_AT:]
    found = _repetition().search(end)
    if found and (found.end() == len(end) or 2 * len(found[0]) > len(end)):
        return one_line(f"{found[1] * 3}", _SHOWN) + "…"
    return ""


def broken_characters(text: str) -> int:
    """How many signs stand for bytes that were no characters."""
    return text.count("�")


@functools.cache
def _repetition() -> re.Pattern[str]:
    # Blanks alone are no repetition; a phrase must hold something to see.
    return re.compile(rf"(?=\S)(.{{1,{_LONGEST_PHRASE}}}?)\1{{{material().repeated - 1},}}", re.DOTALL)
