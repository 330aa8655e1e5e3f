"""The launch plan: everything about a start of vLLM, complete before any side effect."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from wizard.budget import Limits
from wizard.compat import Reason
from wizard.memory import MemoryPlan

AdoptedKind = Literal["pid", "container", "compose", "unit", "script", "log"]
EditOrigin = Literal["user", "remedy", "parser finder", "read-back", "tuning", "upgrade"]


class PlanReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a flag, a variable or a file is in the plan."""

    subject: str
    why: str
    source: str


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A long option of ``vllm serve``; ``value`` is None for a switch."""

    flag: str
    value: str | None = None
    more: tuple[str, ...] = ()
    """Further values of an option that takes several."""

    @property
    def words(self) -> tuple[str, ...]:
        """The option as it stands in a command."""
        return (self.flag,) if self.value is None else (self.flag, self.value, *self.more)


class PlanEdit(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a plan that can be shown, applied and taken back.

    ``set`` gives flags a value (None: a switch), ``unset`` removes flags, ``env`` sets variables
    (None: removes the variable).
    """

    origin: EditOrigin
    title: str
    set: Mapping[str, str | None] = {}
    unset: tuple[str, ...] = ()
    env: Mapping[str, str | None] = {}


class AdoptedFrom(msgspec.Struct, frozen=True, kw_only=True):
    """Where the plan of a server was read that somebody else started, and what could not be read there."""

    kind: AdoptedKind
    name: str
    """The process number, container, unit or service, or the file."""
    file: str = ""
    """What has to be changed for another start: compose file, script, unit file; empty: there is none."""
    manager: tuple[str, ...] = ()
    """The program that starts it, with its own options: ``docker``, ``systemctl --user``."""
    folder: str = ""
    """Where it was started; relative paths of the command begin there."""
    secrets: tuple[str, ...] = ()
    """Variables that hold secrets there: their values were left where they are."""
    in_command: tuple[str, ...] = ()
    """Those of them whose value stood in the command itself; they must be set now."""
    open: tuple[str, ...] = ()
    """Words of the command that only the shell or systemd can put values into: left as they are."""
    unread: tuple[str, ...] = ()
    """Sentences about what could not be read."""


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A complete, frozen start of vLLM. Change it only through ``apply`` and ``take_back``."""

    command: tuple[str, ...]
    """How the runtime is called, up to and including ``serve MODEL``."""
    base_options: tuple[Option, ...]
    base_env: Mapping[str, str]
    edits: tuple[PlanEdit, ...] = ()
    runtime_kind: str
    runtime_path: str
    vllm_version: str | None
    model: str
    checkpoint: str
    served_model_name: str
    parser: str | None
    reasoning_parser: str | None
    host: str
    port: int
    api_key_file: str | None = None
    timeout_s: float
    limits: Limits | None
    """None: the window of an adopted server that does not state it."""
    memory: MemoryPlan | None
    reasons: tuple[PlanReason, ...]
    refused: tuple[Reason, ...] = ()
    warnings: tuple[Reason, ...] = ()
    adopted_from: AdoptedFrom | None = None
    """None: planned here."""

    @property
    def options(self) -> tuple[Option, ...]:
        """The options after every edit, in the order they are written."""
        options = list(self.base_options)
        for edit in self.edits:
            options = [option for option in options if option.flag not in edit.unset]
            for flag, value in edit.set.items():
                places = [place for place, option in enumerate(options) if option.flag == flag]
                changed = Option(flag=flag, value=value)
                if places:
                    options[places[0]] = changed
                    options = [option for option in options if option.flag != flag or option is changed]
                else:
                    options.append(changed)
        return tuple(options)

    @property
    def call(self) -> tuple[str, ...]:
        """``command`` as it is started: into a container every variable of the plan is handed by its name."""
        if self.runtime_kind != "container":
            return self.command
        image = self._image
        handed = [f"--env={name}" for name in self.env if f"--env={name}" not in self.command]
        return (*self.command[:image], *handed, *self.command[image:])

    @property
    def _image(self) -> int:
        """Where the image stands in the call of a container; an entrypoint need not be named in it."""
        place = image_place(self.command)
        return place if place < len(self.command) else self.command.index("serve") - 1

    @property
    def inside(self) -> tuple[str, ...]:
        """The words that run in the container of a plan that starts one."""
        entrypoints = [word for word in self.command if word.startswith("--entrypoint=")]
        rest = (
            *self.command[self._image + 1 :],
            *(word for option in self.options for word in option.words),
        )
        return (*(word.partition("=")[2] for word in entrypoints[-1:]), *rest)

    @property
    def argv(self) -> tuple[str, ...]:
        """The argument list that is started."""
        words: list[str] = list(self.call)
        for option in self.options:
            words += option.words
        return tuple(words)

    @property
    def env(self) -> dict[str, str]:
        """The variables the plan adds to the environment, after every edit."""
        variables = dict(self.base_env)
        for edit in self.edits:
            for name, value in edit.env.items():
                if value is None:
                    variables.pop(name, None)
                else:
                    variables[name] = value
        return variables

    @property
    def base_url(self) -> str:
        """The OpenAI base URL a client on this machine uses."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104 - compared, not bound
        scheme = "https" if self.flag("--ssl-certfile") else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}/v1"

    @property
    def id(self) -> str:
        """A short fingerprint of what is started: equal for equal argv and environment."""
        content = msgspec.json.encode((self.argv, sorted(self.env.items())))
        return hashlib.sha256(content).hexdigest()[:12]

    def flag(self, name: str) -> str | None:
        """The effective value of a flag, or None when it is absent or a switch."""
        return next((option.value for option in self.options if option.flag == name), None)


def image_place(words: Sequence[str]) -> int:
    """Where the image stands in the call of a container: the first word after ``--entrypoint=…`` that is no
    option; the number of words where there is none."""
    entrypoints = [place for place, word in enumerate(words) if word.startswith("--entrypoint=")]
    rest = range(entrypoints[-1] + 1 if entrypoints else len(words), len(words))
    return next((place for place in rest if not words[place].startswith("-")), len(words))
