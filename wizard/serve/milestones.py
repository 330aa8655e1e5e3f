"""Turns lines of vLLM's log into milestones and progress, by the patterns of the tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wizard.catalog import MilestonePattern, vllm_facts
from wizard.i18n import _
from wizard.serve.types import Milestone, Progress
from wizard.text import one_line


class Milestones:
    """What was reached so far. Each milestone is told once, progress whenever its count changes."""

    def __init__(self) -> None:
        self._stages = [
            (stage, tuple(re.compile(pattern) for pattern in stage.patterns))
            for stage in vllm_facts().milestone
        ]
        self._reached: set[str] = set()
        self._progress: dict[str, tuple[int, int]] = {}
        self.worth_asking = False
        """A line was seen after which the server may answer."""

    def read(self, line: str, seconds: float) -> Iterator[Milestone | Progress]:
        """The events in one line, which was written ``seconds`` after the start."""
        for stage, patterns in self._stages:
            found = next((found for pattern in patterns if (found := pattern.search(line))), None)
            if found is not None:
                self.worth_asking = self.worth_asking or stage.ready
                yield from self._events(stage, found.groupdict(), seconds)

    def _events(
        self, stage: MilestonePattern, groups: dict[str, str | None], seconds: float
    ) -> Iterator[Milestone | Progress]:
        done, total = groups.get("done"), groups.get("total")
        if stage.id not in self._reached:
            self._reached.add(stage.id)
            detail = one_line(groups.get("value") or "", 120)
            yield Milestone(seconds=seconds, id=stage.id, title=_(stage.title), detail=detail)
        if done is not None and total is not None:
            count = (int(done), int(total))
            if self._progress.get(stage.id) != count:
                self._progress[stage.id] = count
                yield Progress(seconds=seconds, id=stage.id, done=count[0], total=count[1])
