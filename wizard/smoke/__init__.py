"""The live tool-call test: does this server work the way opencode uses it, and if not, why."""

from wizard.smoke.run import run_smoke
from wizard.smoke.types import (
    SmokeCheck,
    SmokeReport,
    SmokeStatus,
    SmokeVerdict,
    Speed,
)

__all__ = [
    "SmokeCheck",
    "SmokeReport",
    "SmokeStatus",
    "SmokeVerdict",
    "Speed",
    "run_smoke",
]
