"""What goes on right now, in words, with the time it has taken."""

from __future__ import annotations

from time import monotonic

from textual.widgets import Static

from screens import figures


class Status(Static):
    """One line: nothing, a sentence, or a sentence with seconds that count while work goes on."""

    def __init__(self) -> None:
        super().__init__(markup=False, id="status")
        self._words = ""
        self._began = 0.0

    def on_mount(self) -> None:
        """Count once a second; the timer rests while nothing goes on."""
        self._timer = self.set_interval(1.0, self._tick, pause=True)

    def begin(self, words: str) -> None:
        """Work begins: ``words`` say which."""
        self._words, self._began = words, monotonic()
        self._timer.resume()
        self._tick()

    def end(self, words: str = "") -> None:
        """Work ended; ``words`` say how, or nothing is left to say."""
        self._timer.pause()
        self._words = ""
        self.update(words)

    def _tick(self) -> None:
        self.update(f"{self._words}  {figures.clock(monotonic() - self._began)}")
