"""Which files of a repository vLLM loads, and how patient a download of them is."""

from __future__ import annotations

import functools

from wizard.catalog.source import bundled
from wizard.catalog.types import Size, Sourced, VersionText


class WeightFormat(Sourced, frozen=True, kw_only=True):
    """A way weights are stored: the pattern of their names, and the file that lists them, if there is one.

    Chosen by itself from ``since`` on; before, only when ``--load-format`` names it.
    """

    name: str
    since: VersionText
    weights: str
    index: str | None = None


class DownloadFacts(Sourced, frozen=True, kw_only=True):
    """How a download is done. Seconds, binary GiB; ``spare_share`` is free room beyond what is missing."""

    spare_share: float
    workers: int
    span_gib: Size
    silent_s: Size
    patience_s: Size
    pause_s: Size
    longest_pause_s: Size
    look_s: Size
    report_s: Size


class HubFacts(Sourced, frozen=True, kw_only=True):
    """Addresses of the hub: the one used without a mirror, and the page that gives out tokens."""

    endpoint: str
    tokens: str


class FetchFacts(Sourced, frozen=True, kw_only=True):
    """What is fetched, from where, and how."""

    not_weights: tuple[str, ...]
    beside: tuple[str, ...]
    ignored: tuple[str, ...]
    descriptions: tuple[str, ...]
    format: tuple[WeightFormat, ...]
    download: DownloadFacts
    hub: HubFacts


@functools.cache
def fetch_facts() -> FetchFacts:
    """What vLLM loads of a repository, and the numbers of a download."""
    return bundled("fetch.toml", FetchFacts)
