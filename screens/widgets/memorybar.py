"""The memory of one GPU as a bar of plain characters, with a legend of figures and their origin."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from screens import estimates, figures
from wizard.i18n import _
from wizard.memory import MemoryPlan


class MemoryBar(Static):
    """Each part of the memory has its own character; the legend repeats it beside name and figure."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(markup=False, id=id)
        self._memory: MemoryPlan | None = None

    def show(self, memory: MemoryPlan | None) -> None:
        """Draw this split; None: nothing is known about the architecture."""
        self._memory = memory
        self.refresh(layout=True)

    def render(self) -> Content:
        """The bar over its legend."""
        memory = self._memory
        if memory is None:
            return Content(_("No figure for this architecture: vLLM measures the memory itself."))
        parts = estimates.memory_parts(memory)
        entries = [
            f"{mark} {name} {figures.gib(value)}{figures.letter(origin)}"
            for mark, name, value, origin in parts
            if value != 0
        ]
        return Content("\n".join([self._bar(memory), *_lines(entries, self._columns())]))

    def _columns(self) -> int:
        return max(20, self.size.width or 78)

    def _bar(self, memory: MemoryPlan) -> str:
        """Characters by share of the total, so that rounding never makes the bar longer or shorter."""
        width, drawn, sum_gib = self._columns() - 2, "", 0.0
        for mark, _name, value, _origin in estimates.memory_parts(memory):
            sum_gib += max(0.0, value or 0.0)
            end = round(min(1.0, sum_gib / memory.total_gib) * width)
            drawn += mark * (end - len(drawn))
        return f"[{drawn:.<{width}}]"


def _lines(entries: list[str], width: int) -> list[str]:
    """The entries side by side, on as many lines as they need."""
    lines = [""]
    for entry in entries:
        joined = f"{lines[-1]}   {entry}" if lines[-1] else entry
        if len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(entry)
    return lines
