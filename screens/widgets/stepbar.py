"""The bar on top of every step, and the label that tells a rehearsal from the real thing."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from screens import wording
from wizard.flow import TITLES, Journey
from wizard.i18n import _


class StepBar(Static):
    """Where somebody is: every step by name where there is room, else ``1  2  [3 Runtime]  4``."""

    def __init__(self, journey: Journey) -> None:
        super().__init__(markup=False)
        self._journey = journey

    def render(self) -> Content:
        """The steps of the road, the current one in brackets and bold."""
        named = self._steps(every_name=True)
        return named if named.cell_length <= self.size.width else self._steps(every_name=False)

    def _steps(self, every_name: bool) -> Content:
        parts: list[Content | tuple[str, str]] = [Content("vllm-opencode")]
        for number, step in enumerate(self._journey.road, 1):
            title = _(TITLES[step])
            parts.append(Content("  "))
            if step is self._journey.step:
                parts.append((f"[{number} {title}]", "bold"))
            else:
                parts.append(Content(f"{number} {title}" if every_name else str(number)))
        return Content.assemble(*parts)


class RehearsalLabel(Static):
    """A line that is there during a rehearsal only."""

    def __init__(self, journey: Journey) -> None:
        super().__init__(wording.rehearsal(journey), markup=False)
        self.display = journey.simulated
