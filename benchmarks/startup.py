"""How long the wizard takes to its first paint, against an empty Textual application on the same machine.

Each is a fresh process, run in turns; the fastest of each counts. The limit is a ratio of 2.
"""

from __future__ import annotations

import subprocess
import sys
import time

ROUNDS = 7
LIMIT = 2.0

EMPTY = """
from textual.app import App
class Empty(App):
    def on_mount(self): self.call_after_refresh(self.exit)
Empty().run(headless=True, size=(80, 24))
"""

WIZARD = """
from wizard.cli import options
options.use(options.CommonOptions())
from screens.app import WizardApp
from screens.start import StartScreen
StartScreen.on_screen_resume = lambda screen: screen.call_after_refresh(screen.app.exit)
WizardApp().run(headless=True, size=(80, 24))
"""

VERSION = "from wizard.cli import main; main(['--version'])"
BARE = "pass"


def fastest(programs: dict[str, str]) -> dict[str, float]:
    """The shortest time of each program in seconds, measured in turns."""
    best = dict.fromkeys(programs, float("inf"))
    for _round in range(ROUNDS):
        for name, program in programs.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)
            best[name] = min(best[name], time.perf_counter() - started)
    return best


def main() -> int:
    """Print the ratios; 1 when the first paint is over the limit."""
    best = fastest({"empty": EMPTY, "wizard": WIZARD, "version": VERSION, "bare": BARE})
    paint = best["wizard"] / best["empty"]
    print(f"first paint: {paint:.2f} times an empty Textual app (limit {LIMIT:g})")
    print(f"--version:   {best['version'] / best['bare']:.2f} times a bare interpreter")
    return 0 if paint <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
