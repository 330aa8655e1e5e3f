"""How a step is left, for both front ends. The order of the steps itself is the flow's."""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from wizard import flow
from wizard.flow import Journey
from wizard.i18n import _
from wizard.serve import is_alive


class Move(Enum):
    """How a step was left. ``GO``: the journey itself already stands at the step to show."""

    NEXT = auto()
    BACK = auto()
    SKIP = auto()
    GO = auto()


class Outcome(msgspec.Struct, frozen=True):
    """What a step hands back."""

    move: Move
    journey: Journey

    @property
    def at_end(self) -> bool:
        """Whether the last step of the road was finished."""
        return self.move is Move.NEXT and self.journey.step is self.journey.road[-1]

    @property
    def moved(self) -> Journey:
        """The journey at the step to show now."""
        match self.move:
            case Move.NEXT:
                return flow.advance(self.journey)
            case Move.BACK:
                return flow.back(self.journey)
            case Move.SKIP:
                return flow.skip(self.journey)
            case Move.GO:
                return self.journey


def worth_keeping(journey: Journey) -> bool:
    """Whether there is anything for a receipt: nothing is kept before anything is known."""
    return journey.machine is not None or journey.server is not None


def runs_here(journey: Journey) -> bool:
    """Whether a vLLM that was started here would go on after leaving."""
    return journey.run is not None and is_alive(journey.run)


def goes_on(journey: Journey) -> str:
    """The last line in the terminal: what still runs, and how to stop it."""
    url = journey.run.base_url if journey.run else ""
    return _("vLLM goes on at {url}. Stop it with: vllm-opencode stop").format(url=url)
