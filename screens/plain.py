"""The wizard as numbered questions, a line each: nothing is redrawn, nothing needs a screen.

It takes the same steps through the same functions as the screens.
"""

from __future__ import annotations

ENDED_EARLY = 2
INTERRUPTED = 130
