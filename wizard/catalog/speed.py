"""What is measured of a served model's speed, when a limit can be computed, and which options cost some."""

from __future__ import annotations

import functools
from typing import Annotated

import msgspec

from wizard.catalog.source import bundled
from wizard.catalog.types import Positive, Size, Sourced, VersionText
from wizard.catalog.version import reached

Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class SpeedRequests(Sourced, frozen=True, kw_only=True):
    """What is asked to measure, tokens, and how long each part may take, seconds."""

    short_words: Positive
    decode_tokens: Positive
    decode_s: Size
    prompt_tokens: Positive
    prompt_s: Size
    streams: Positive
    """How many requests at once, where nobody said how many people there are."""
    most_streams: Positive
    stream_tokens: Positive
    streams_s: Size
    least_tokens: Positive
    """Fewer tokens after the first give no rate."""
    patience_s: Size
    """How long a silent server is waited for beyond the time of a request."""


class SpeedPrompt(Sourced, frozen=True, kw_only=True):
    """What the model is asked to do, and the words a prompt is filled with."""

    task: str
    words: tuple[str, ...]
    tokens_a_word: Size


class Unlimited(Sourced, frozen=True, kw_only=True):
    """An option with which one reading of the weights is not one token, and why, marked for translation."""

    flag: str
    why: str


class Brake(Sourced, frozen=True, kw_only=True):
    """An option, or a variable, that trades speed for safety; ``title`` is marked for translation.

    ``price_min`` to ``price_max`` is the share of a stream's tokens a second it costs, where it is known.
    """

    id: str
    title: str
    flag: str | None = None
    """A key of a JSON option stands behind a dot."""
    short: str | None = None
    """Another way to write the flag; its value may follow without a blank."""
    variable: str | None = None
    values: tuple[str, ...] = ()
    """It brakes with one of these, in capitals or not; empty: with any value, or as a switch."""
    several_gpus: bool = False
    """It costs nothing on a single GPU."""
    price_min: Share | None = None
    price_max: Share | None = None
    since: VersionText | None = None

    def known_to(self, version: str | None) -> bool:
        """Whether it brakes this version of vLLM; an unknown one counts as the newest."""
        return self.since is None or reached(version, self.since)


class SpeedFacts(Sourced, frozen=True, kw_only=True):
    """The whole file."""

    least_gain: Share
    """A smaller gain in tokens a second may be chance."""
    measure: SpeedRequests
    rehearsal: SpeedRequests
    """For the stand-in server, which only keeps a pace."""
    prompt: SpeedPrompt
    unlimited: tuple[Unlimited, ...]
    brake: tuple[Brake, ...]


@functools.cache
def speed_facts() -> SpeedFacts:
    """What is known about speed."""
    return bundled("speed.toml", SpeedFacts)
