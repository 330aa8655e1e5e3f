"""A start as it happens: milestones with their time, and the end of the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Log, Static

from screens import figures, wording
from wizard.fetch import FetchProgress, FetchWaiting, progress_words
from wizard.flow import WEIGHTS, LaunchEvent
from wizard.i18n import _
from wizard.serve import Event, LogLine, Milestone, Progress, Ready

DRAIN_S = 0.1
"""How often waiting events are drawn: one line at a time is sixty times slower than in batches."""
KEPT_LINES = 2000
DRAWN_LINES = 400
"""Drawn at once at most, several screens full: a log in a rage must not hold the keys up."""
GAUGE = 20


class LiveStart(Vertical):
    """Takes events from any thread through ``emit`` and draws them in batches."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._waiting: deque[LaunchEvent] = deque()
        self._unread: deque[str] = deque(maxlen=KEPT_LINES)
        """Lines not drawn yet; of a log that runs faster than it can be read the newest ones."""
        self._reached: list[Milestone] = []
        self._counted: dict[str, Progress] = {}
        self._download = ""
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
        self._unread.clear()
        self._reached.clear()
        self._counted.clear()
        self._ready, self.seconds, self._download = False, 0.0, ""
        self.query_one("#milestone-lines", Static).update("")
        self.query_one("#log", Log).clear()

    def enlarge(self, whole: bool) -> None:
        """Give the log all the room, or take it back; a log that stood at its end goes on doing so."""
        log = self.query_one("#log", Log)
        following = log.is_vertical_scroll_end
        self.set_class(whole, "-log")
        if following:
            self.call_after_refresh(log.scroll_end, animate=False, x_axis=False)

    def emit(self, event: LaunchEvent) -> None:
        """An event happened; called from the thread that follows the start."""
        if isinstance(event, LogLine):
            self._unread.append(event.text)
            self.seconds = event.seconds
        else:
            self._waiting.append(event)

    def drain(self) -> None:
        """Draw what has come in since the last time."""
        if not (self._waiting or self._unread):
            return
        events = [self._waiting.popleft() for _number in range(len(self._waiting))]
        self.seconds = next(
            (event.seconds for event in reversed(events) if isinstance(event, Event)), self.seconds
        )
        lines = [self._unread.popleft() for _number in range(len(self._unread))][-DRAWN_LINES:]
        log = self.query_one("#log", Log)
        following = log.is_vertical_scroll_end
        log.write_lines(lines)
        if events:
            self._note(events)
        if following:
            # Milestones take room from the log and old lines fall out of it: its end moves once more.
            self.call_after_refresh(log.scroll_end, animate=False, x_axis=False)

    def _note(self, events: Iterable[LaunchEvent]) -> None:
        for event in events:
            if isinstance(event, Milestone):
                self._reached.append(event)
            elif isinstance(event, Progress):
                self._counted[event.id] = event
            elif isinstance(event, FetchProgress):
                self._download = progress_words(event)
            elif isinstance(event, FetchWaiting):
                self._download = event.text
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
            what = f"{milestone.title:<28} {detail}"
            if milestone.id == WEIGHTS and not over and self._download:
                # Both would not fit beside each other in 80 columns.
                what = self._download
            rest = f"{figures.clock(milestone.seconds):>6}  {what}"
            yield Content.assemble((f"{word:<6}", "bold $text-success" if over else "bold"), rest)


def _gauge(progress: Progress) -> str:
    return f"{figures.bar(progress.done / max(1, progress.total), GAUGE)} {progress.done}/{progress.total}"
