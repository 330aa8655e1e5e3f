"""Options and variables of vLLM: all of one release, and what came, went or changed between releases."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from wizard.catalog.load import vllm_facts
from wizard.catalog.source import bundled
from wizard.catalog.types import Sourced, VersionText
from wizard.catalog.version import reached
from wizard.errors import UnknownNameError
from wizard.i18n import _


class Flag(Sourced, frozen=True, kw_only=True):
    """An option of ``vllm serve``, or a variable vLLM reads, with its history.

    ``since`` and ``until`` are the first and the last release that know it, None: every supported one.
    ``changed`` is the release from which it means something else or has another default.
    """

    name: str
    """An option followed by a blank and a value speaks of that value only."""
    since: VersionText | None = None
    until: VersionText | None = None
    changed: VersionText | None = None
    instead: str = ""
    """What takes its place once it is gone."""
    notes: str = ""

    def known_to(self, version: str | None) -> bool:
        """Whether this version of vLLM has it; an unknown one counts as the newest."""
        come = self.since is None or reached(version, self.since)
        gone = self.until is not None and not reached(self.until, version or vllm_facts().newest)
        return come and not gone


class RecordedOptions(Sourced, frozen=True, kw_only=True):
    """Every long option of one release, without its dashes; ``switches`` have a ``--no-`` twin."""

    version: VersionText
    options: tuple[str, ...]
    switches: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The options as they are written, twins included."""
        return (
            *(f"--{name}" for name in (*self.options, *self.switches)),
            *(f"--no-{name}" for name in self.switches),
        )


class Spelling(Sourced, frozen=True, kw_only=True):
    """How vLLM takes the words of a command line. Names are without their dashes, save those of ``short``."""

    lists: tuple[str, ...]
    """Options that take several values."""
    repeated: tuple[str, ...]
    """Options that count each time they are given."""
    bare: tuple[str, ...]
    """Switches without a ``--no-`` twin."""
    attached: tuple[str, ...]
    """Short options whose value may follow without a blank."""
    same: Mapping[str, str]
    secret: Mapping[str, str]
    """Options whose value is a secret, and the variable vLLM reads it from as well."""
    short: Mapping[str, str]


class FlagFacts(Sourced, frozen=True, kw_only=True):
    """What is known about options and variables where an installed vLLM cannot be asked."""

    recorded: RecordedOptions
    spelling: Spelling
    namespace: Mapping[str, object]
    """Defaults of arguments, by their names in Python, for logs that repeat all of them."""
    flag: tuple[Flag, ...]
    variable: tuple[Flag, ...]


@functools.cache
def flag_facts() -> FlagFacts:
    """Options and variables of vLLM by version."""
    return bundled("flags.toml", FlagFacts)


def flag_known(name: str, version: str | None) -> bool:
    """Whether this version of vLLM has an option; an unknown version counts as the newest one.

    ``name`` is the option as the table writes it (``--max-model-len auto`` for a value). Raises
    UnknownNameError for an option the table does not hold.
    """
    flags = flag_facts().flag
    flag = next((entry for entry in flags if entry.name == name), None)
    if flag is None:
        raise UnknownNameError(_("option of vLLM"), name, (entry.name for entry in flags))
    return flag.known_to(version)
