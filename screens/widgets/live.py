"""A start as it happens: milestones with their time, and the end of the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Log, Static

from screens import figures, wording
from wizard.i18n import _
from wizard.serve import Event, LogLine, Milestone, Progress, Ready

DRAIN_S = 0.1
"""How often waiting events are drawn: one line at a time is sixty times slower than in batches."""
KEPT_LINES = 2000
GAUGE = 20


class LiveStart(Vertical):
    """Takes events from any thread through ``emit`` and draws them in batches."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._waiting: deque[Event] = deque()
        self._reached: list[Milestone] = []
        self._counted: dict[str, Progress] = {}
        self.seconds = 0.0
        """When the last event happened, from the start of vLLM."""
        self._ready = False

    def compose(self) -> ComposeResult:
        """Milestones over the log."""
        with VerticalScroll(id="milestones", can_focus=False):
            yield Static(id="milestone-lines", markup=False)
        yield Static(_("log"), id="log-title", markup=False)
        yield Log(id="log", max_lines=KEPT_LINES, highlight=False)

    def on_mount(self) -> None:
        """Look for waiting events all the time."""
        self.set_interval(DRAIN_S, self.drain)

    def reset(self) -> None:
        """A new start: nothing was reached yet."""
        self._waiting.clear()
        self._reached.clear()
        self._counted.clear()
        self._ready, self.seconds = False, 0.0
        self.query_one("#milestone-lines", Static).update("")
        self.query_one("#log", Log).clear()

    def emit(self, event: Event) -> None:
        """An event happened; called from the thread that follows the start."""
        self._waiting.append(event)

    def drain(self) -> None:
        """Draw what has come in since the last time."""
        if not self._waiting:
            return
        events = [self._waiting.popleft() for _number in range(len(self._waiting))]
        self.seconds = events[-1].seconds
        lines = [event.text for event in events if isinstance(event, LogLine)]
        log = self.query_one("#log", Log)
        following = log.is_vertical_scroll_end
        log.write_lines(lines)
        if len(lines) < len(events):
            self._note(event for event in events if not isinstance(event, LogLine))
        if following:
            # Milestones take room from the log and old lines fall out of it: its end moves once more.
            self.call_after_refresh(log.scroll_end, animate=False, x_axis=False)

    def _note(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Milestone):
                self._reached.append(event)
            elif isinstance(event, Progress):
                self._counted[event.id] = event
            elif isinstance(event, Ready):
                self._ready = True
        self.query_one("#milestone-lines", Static).update(Content("\n").join(self._lines()))
        self.query_one("#milestones", VerticalScroll).scroll_end(animate=False)

    def _lines(self) -> Iterable[Content]:
        """What is over says OK; the last one goes on until the server answers."""
        for number, milestone in enumerate(self._reached, 1):
            progress = self._counted.get(milestone.id)
            counting = progress is not None and progress.done < progress.total
            over = self._ready or (number < len(self._reached) and not counting)
            word = wording.status_word("ok") if over else ">>"
            detail = milestone.detail if progress is None else _gauge(progress)
            rest = f"{figures.clock(milestone.seconds):>6}  {milestone.title:<28} {detail}"
            yield Content.assemble((f"{word:<6}", "bold $text-success" if over else "bold"), rest)


def _gauge(progress: Progress) -> str:
    return f"{figures.bar(progress.done / max(1, progress.total), GAUGE)} {progress.done}/{progress.total}"
