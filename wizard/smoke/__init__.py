"""The live tool-call test: does this server work the way opencode uses it, how fast, and if not, why."""

from wizard.smoke.brakes import brakes_of, release, unlimited_by
from wizard.smoke.rates import CostlyOption, Roofline, Speed, StreamRate
from wizard.smoke.roofline import Hardware, beside_limit, roofline
from wizard.smoke.run import run_smoke
from wizard.smoke.speed import SpeedReading, measure_speed
from wizard.smoke.types import (
    SmokeCheck,
    SmokeReport,
    SmokeStatus,
    SmokeVerdict,
)

__all__ = [
    "CostlyOption",
    "Hardware",
    "Roofline",
    "SmokeCheck",
    "SmokeReport",
    "SmokeStatus",
    "SmokeVerdict",
    "Speed",
    "SpeedReading",
    "StreamRate",
    "beside_limit",
    "brakes_of",
    "measure_speed",
    "release",
    "roofline",
    "run_smoke",
    "unlimited_by",
]
