"""The bar on top of every step, and the label that tells a rehearsal from the real thing."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from screens import wording
from wizard.flow import TITLES, Journey
from wizard.i18n import _

WIDE = 100
"""Columns from which the bar names every step and not only the current one."""


class StepBar(Static):
    """Where somebody is on the road: ``1  2  [3 Runtime]  4  5``, with every name where there is room."""

    def __init__(self, journey: Journey) -> None:
        super().__init__(markup=False)
        self._journey = journey

    def render(self) -> Content:
        """The steps of the road, the current one in brackets and bold."""
        parts: list[Content | tuple[str, str]] = [Content("vllm-opencode  ")]
        for number, step in enumerate(self._journey.road, 1):
            if step is self._journey.step:
                parts.append((f"[{number} {_(TITLES[step])}]", "bold"))
            else:
                parts.append(
                    Content(f"{number} {_(TITLES[step])}" if self.app.size.width >= WIDE else str(number))
                )
            parts.append(Content("  "))
        return Content.assemble(*parts)


class RehearsalLabel(Static):
    """A line that is there during a rehearsal only."""

    def __init__(self, journey: Journey) -> None:
        super().__init__(wording.rehearsal(journey), markup=False)
        self.display = journey.simulated
