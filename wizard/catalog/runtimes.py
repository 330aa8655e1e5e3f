"""Where an installed vLLM may be, how it is asked, and which container images hold one."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from wizard.catalog.source import bundled
from wizard.catalog.types import Sourced, VersionText


class ToolEnvironments(Sourced, frozen=True, kw_only=True):
    """A folder with an environment for each tool, unless ``variable`` names another (and ``inside`` it)."""

    variable: str
    inside: str = ""
    folder: str
    """``{data}`` is the folder of XDG_DATA_HOME."""


class VllmCommand(Sourced, frozen=True, kw_only=True):
    """The module that is vLLM's command."""

    module: str


class ContainerRun(Sourced, frozen=True, kw_only=True):
    """What a start of vLLM in a container needs. ``{hub}`` is the folder of downloaded models."""

    run: tuple[str, ...]
    hand_on: tuple[str, ...]
    """Variables whose values go into the container."""
    commands: tuple[str, ...]
    """Parts of a command by which a running container is known to serve vLLM."""
    entrypoint: tuple[str, ...]
    """What the images start by themselves."""


class Adoption(Sourced, frozen=True, kw_only=True):
    """What of the environment of a server belongs to its plan: names with one of these beginnings.

    ``noise`` are patterns of names that images set and nothing reads, ``usual`` values that need not be set.
    """

    variables: tuple[str, ...]
    noise: tuple[str, ...]
    usual: Mapping[str, str]


class Engine(Sourced, frozen=True, kw_only=True):
    """A program that runs containers, and how it hands over the GPUs."""

    name: str
    gpus: str


class Image(Sourced, frozen=True, kw_only=True):
    """Images that hold vLLM. ``version`` is a pattern for tags, with a group ``version`` or ``month``."""

    repository: str
    version: str = ""
    months: Mapping[str, VersionText] = {}


class RuntimeFacts(Sourced, frozen=True, kw_only=True):
    """Where to look for vLLM."""

    places: tuple[str, ...]
    conda_roots: tuple[str, ...]
    conda_list: str
    tools: tuple[ToolEnvironments, ...]
    command: VllmCommand
    adoption: Adoption
    container: ContainerRun
    engine: tuple[Engine, ...]
    image: tuple[Image, ...]


@functools.cache
def runtime_facts() -> RuntimeFacts:
    """Places, container engines and images."""
    return bundled("runtimes.toml", RuntimeFacts)
