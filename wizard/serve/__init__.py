"""PLACEHOLDER"""

from wizard.serve.types import (
    Event,
    Exited,
    Finding,
    LogLine,
    Milestone,
    Progress,
    Ready,
    Run,
    Server,
)

__all__ = [
    "Event",
    "Exited",
    "Finding",
    "LogLine",
    "Milestone",
    "Progress",
    "Ready",
    "Run",
    "Server",
]
