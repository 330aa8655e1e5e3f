"""The launch plan: everything about a start of vLLM, complete before any side effect."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

import msgspec

from wizard.budget import Limits
from wizard.compat import Reason
from wizard.memory import MemoryPlan

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
    limits: Limits
    memory: MemoryPlan | None
    reasons: tuple[PlanReason, ...]
    refused: tuple[Reason, ...] = ()
    warnings: tuple[Reason, ...] = ()

    @property
    def options(self) -> tuple[Option, ...]:
        """The options after every edit, in the order they are written."""
        options = {option.flag: option for option in self.base_options}
        for edit in self.edits:
            for flag in edit.unset:
                options.pop(flag, None)
            for flag, value in edit.set.items():
                options[flag] = Option(flag=flag, value=value)
        return tuple(options.values())

    @property
    def call(self) -> tuple[str, ...]:
        """``command`` as it is started: into a container every variable of the plan is handed by its name."""
        if self.runtime_kind != "container":
            return self.command
        image = self.command.index("serve") - 1
        handed = [f"--env={name}" for name in self.env if f"--env={name}" not in self.command]
        return (*self.command[:image], *handed, *self.command[image:])

    @property
    def argv(self) -> tuple[str, ...]:
        """The argument list that is started."""
        words: list[str] = list(self.call)
        for option in self.options:
            words.append(option.flag)
            if option.value is not None:
                words.append(option.value)
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
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/v1"

    @property
    def id(self) -> str:
        """A short fingerprint of what is started: equal for equal argv and environment."""
        content = msgspec.json.encode((self.argv, sorted(self.env.items())))
        return hashlib.sha256(content).hexdigest()[:12]

    def flag(self, name: str) -> str | None:
        """The effective value of a flag, or None when it is absent or a switch."""
        return next((option.value for option in self.options if option.flag == name), None)
