"""How fast a server answers, beside how fast it could: the figures."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from wizard.catalog import Origin


class CostlyOption(msgspec.Struct, frozen=True, kw_only=True):
    """A conservative option, or variable, of a plan, and the share of a stream's tokens a second it costs.

    ``price_min`` and ``price_max`` are None where nobody published them.
    """

    id: str
    option: str
    title: str
    price_min: float | None = None
    price_max: float | None = None
    source: str


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """The most a step can give when nothing but reading weights and cache from memory takes time.

    ``gigabytes`` (decimal) are read by each of ``gpus`` for a step of ``streams`` tokens, one a stream.
    """

    tokens_per_second: float
    """Of all streams together."""
    streams: int
    gigabytes: float
    bandwidth_gbs: float
    gpus: int
    origin: Origin
    """``assumed`` where streams are taken to spread evenly over the experts of a model."""


class StreamRate(msgspec.Struct, frozen=True, kw_only=True):
    """Decoding with so many streams at once, tokens a second of all together."""

    streams: int
    decode_tps: float | None
    roofline_tps: float | None = None
    share: float | None = None
    origin: Origin | None = None
    """Of the limit."""


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of one server. A figure is None where it could not be had; ``note`` says why.

    ``ttft_ms`` and ``prefill_tps`` belong to a prompt of ``prompt_tokens`` tokens that no cache held.
    """

    ttft_ms: float | None = None
    decode_tps: float | None = None
    """Of a single stream."""
    prefill_tps: float | None = None
    prompt_tokens: int | None = None
    short_ttft_ms: float | None = None
    """To the first token after a prompt of a few words."""
    streams: tuple[StreamRate, ...] = ()
    roofline_tps: float | None = None
    """The physical limit of ``decode_tps``."""
    share: float | None = None
    """``decode_tps`` as a part of ``roofline_tps``."""
    roofline: Roofline | None = None
    brakes: tuple[CostlyOption, ...] = ()
    origins: Mapping[str, Origin] = {}
    note: str = ""
    """Why figures are missing, and what was left out of the limit."""
