"""The physical limit of decoding: what must be read from memory for a token, over how fast it can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from wizard.catalog import Origin
from wizard.memory import EngineSettings, cache_layout, read_bytes, read_share
from wizard.smoke.rates import Roofline, Speed, StreamRate
from wizard.smoke.speed import SpeedReading

_GIB = 1 << 30


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is served with: the memory's bandwidth of one GPU (decimal GB/s), weights and shape.

    ``weights_gib`` are those of all GPUs together; ``bits`` is what a quantized weight takes.
    """

    bandwidth_gbs: float
    tensor_parallel_size: int
    weights_gib: float
    bits: float
    config: Mapping[str, object]
    settings: EngineSettings
    active_share: float | None = None
    """Of all weights, as the table has it, for a model whose weights cannot be counted."""


def roofline(hardware: Hardware, *, streams: int = 1, context: int = 0) -> Roofline | None:
    """The limit for so many streams of ``context`` tokens each; None where reading cannot be counted.

    GPUs that hold a part of every layer read at the same time; stages of a pipeline do not: a token goes
    through one after the other.
    """
    share, origin = _share(hardware, streams)
    layout = cache_layout(hardware.config)
    if share is None or (layout is None and streams > 1):
        return None
    cache = 0.0 if layout is None else read_bytes(layout, hardware.settings, context)
    weights = hardware.weights_gib * _GIB * share / hardware.tensor_parallel_size
    read = weights + streams * cache
    return Roofline(
        tokens_per_second=streams * hardware.bandwidth_gbs * 1e9 / read,
        streams=streams,
        gigabytes=read / 1e9,
        bandwidth_gbs=hardware.bandwidth_gbs,
        gpus=hardware.tensor_parallel_size,
        origin=origin,
    )


def _share(hardware: Hardware, streams: int) -> tuple[float | None, Origin]:
    """What a step reads of the weights. Which experts several streams share can only be assumed."""
    one = read_share(hardware.config, hardware.bits)
    if one is None:
        return (hardware.active_share if streams == 1 else None), "computed"
    if streams == 1:
        return one, "computed"
    several = read_share(hardware.config, hardware.bits, streams)
    return several, "computed" if several == one else "assumed"


def beside_limit(measured: SpeedReading, hardware: Hardware) -> Speed:
    """The measured figures with their limits, and the share of the possible that was reached."""
    speed = measured.speed
    single = roofline(hardware, context=measured.single_context)
    origins: dict[str, Origin] = dict(speed.origins)
    if single is not None:
        origins |= dict.fromkeys(("roofline_tps", "share"), single.origin)
    return msgspec.structs.replace(
        speed,
        roofline=single,
        roofline_tps=None if single is None else round(single.tokens_per_second, 1),
        share=_part(speed.decode_tps, single),
        streams=_with_limits(speed.streams, measured, hardware),
        origins=origins,
    )


def _with_limits(
    rates: Sequence[StreamRate], measured: SpeedReading, hardware: Hardware
) -> tuple[StreamRate, ...]:
    found = []
    for rate in rates:
        context = measured.single_context if rate.streams == 1 else measured.streams_context
        limit = roofline(hardware, streams=rate.streams, context=context)
        found.append(
            msgspec.structs.replace(
                rate,
                roofline_tps=None if limit is None else round(limit.tokens_per_second, 1),
                share=_part(rate.decode_tps, limit),
                origin=None if limit is None else limit.origin,
            )
        )
    return tuple(found)


def _part(rate: float | None, limit: Roofline | None) -> float | None:
    return None if rate is None or limit is None else round(rate / limit.tokens_per_second, 3)
