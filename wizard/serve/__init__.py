"""Starts, follows and stops vLLM, and asks a running server who it is."""

from wizard.serve.figures import read_figures
from wizard.serve.follow import follow
from wizard.serve.identity import ended, is_alive
from wizard.serve.port import next_free_port, port_owner, require_free_port
from wizard.serve.probe import normal_url, probe_server
from wizard.serve.process import read_key, start, stop
from wizard.serve.runs import latest_run, load_plan, load_run
from wizard.serve.types import (
    End,
    EngineFigures,
    Event,
    Exited,
    Finding,
    LogLine,
    Measured,
    Milestone,
    Progress,
    Ready,
    Run,
    Server,
    StartedBy,
    Stopped,
)

__all__ = [
    "End",
    "EngineFigures",
    "Event",
    "Exited",
    "Finding",
    "LogLine",
    "Measured",
    "Milestone",
    "Progress",
    "Ready",
    "Run",
    "Server",
    "StartedBy",
    "Stopped",
    "ended",
    "follow",
    "is_alive",
    "latest_run",
    "load_plan",
    "load_run",
    "next_free_port",
    "normal_url",
    "port_owner",
    "probe_server",
    "read_figures",
    "read_key",
    "require_free_port",
    "start",
    "stop",
]
