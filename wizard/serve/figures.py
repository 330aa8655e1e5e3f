"""What a running vLLM says about its memory: in the lines of its log, and in its metrics."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from wizard.catalog import vllm_facts
from wizard.http import TooLateError, bounded, client, server_root
from wizard.serve.tail import LogTail
from wizard.serve.types import EngineFigures

_INFO = re.compile(r"^vllm:cache_config_info\{(?P<labels>.*)\} ", re.MULTILINE)
_LABEL = re.compile(r'(?P<name>\w+)="(?P<value>[^"]*)"')
_LABELS = {
    "kv_cache_size_tokens": "cache_tokens",
    "kv_cache_max_concurrency": "max_concurrency",
    "block_size": "block_size",
    "num_gpu_blocks": "num_blocks",
    "gpu_memory_utilization": "gpu_memory_utilization",
}
"""Labels of the metric that describes the cache, and the figure each is."""
_WHOLE = ("cache_tokens", "window", "block_size", "num_blocks")
_PAGE_LIMIT = 8 << 20


def read_figures(base_url: str, log: str | None = None, timeout_s: float = 5.0) -> EngineFigures:
    """The figures of the server at this address; its log, where it is at hand, knows more than its metrics.

    Metrics need no key. A server that cannot be asked and a log that cannot be read state nothing: that is no
    error here.
    """
    stated = figures_in_metrics(_metrics(base_url, timeout_s))
    if log is None:
        return stated
    told = figures_in_log(text for _number, text in LogTail(Path(log)).read(final=True))
    known = {name: value for name, value in msgspec.structs.asdict(stated).items() if value is not None}
    return msgspec.structs.replace(told, **known)


def figures_in_log(lines: Iterable[str]) -> EngineFigures:
    """The figures in a log of any version; of those of several workers the one that holds for all."""
    patterns = [
        (re.compile(pattern), min if entry.keep == "smallest" else max)
        for entry in vllm_facts().figure
        for pattern in entry.patterns
    ]
    found: dict[str, float] = {}
    for line in lines:
        for pattern, keep in patterns:
            match = pattern.search(line)
            for name, text in match.groupdict().items() if match else ():
                value = None if text is None else _number(text)
                if value is not None:
                    found[name] = keep(found.get(name, value), value)
    return _figures(found)


def figures_in_metrics(page: str) -> EngineFigures:
    """The figures in a page of metrics; of several engines the first one's."""
    info = _INFO.search(page)
    if info is None:
        return EngineFigures()
    labels = {label["name"]: label["value"] for label in _LABEL.finditer(info["labels"])}
    stated = {name: _number(labels[label]) for label, name in _LABELS.items() if label in labels}
    return _figures({name: value for name, value in stated.items() if value is not None})


def _figures(found: Mapping[str, float]) -> EngineFigures:
    return msgspec.convert(
        {name: int(value) if name in _WHOLE else value for name, value in found.items()}, EngineFigures
    )


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _metrics(base_url: str, timeout_s: float) -> str:
    import httpx

    def ask() -> httpx.Response:
        with client(server_root(base_url), timeout_s=timeout_s) as http:
            return http.get("/metrics")

    try:
        answer = bounded(ask, time.monotonic() + timeout_s)
    except (httpx.HTTPError, TooLateError):
        return ""
    return answer.text[:_PAGE_LIMIT] if answer.status_code == httpx.codes.OK else ""
