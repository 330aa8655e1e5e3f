"""What a person does so that a changed plan runs: exact, for where the server was started from."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

import msgspec

from wizard.i18n import _
from wizard.plan.edit import apply
from wizard.plan.render import shell
from wizard.plan.types import AdoptedFrom, AdoptedKind, LaunchPlan, PlanEdit


class Instruction(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do: a sentence, what goes into a file, commands to type."""

    text: str
    file: str = ""
    content: str = ""
    commands: tuple[str, ...] = ()


def instructions(plan: LaunchPlan, edits: Sequence[PlanEdit] = ()) -> tuple[Instruction, ...]:
    """How the server of a plan is started anew with these edits, in the order in which it is done.

    Nothing of it is done here. Secrets appear by the names of their variables only.
    """
    before = plan
    for edit in edits:
        plan = apply(plan, edit)
    origin = plan.adopted_from
    if origin is None:
        return (_start(plan, _("Start it with this command:")),)
    return (*_KINDS[origin.kind](before, plan, origin), *_about_secrets(origin))


def _about_secrets(origin: AdoptedFrom) -> tuple[Instruction, ...]:
    """What has to be done about secrets, which are no part of a plan."""
    told = []
    kept = [name for name in origin.secrets if name not in origin.in_command]
    if kept:
        text = _("Secrets were left where they are; these variables must hold them: {names}.")
        told.append(Instruction(text=text.format(names=", ".join(kept))))
    if origin.in_command:
        text = _(
            "A secret stood in the command, where everybody on the machine can read it: "
            "let a variable hold it instead: {names}."
        )
        told.append(Instruction(text=text.format(names=", ".join(origin.in_command))))
    return tuple(told)


def _start(plan: LaunchPlan, text: str, folder: str = "") -> Instruction:
    command = shell(plan)
    return Instruction(text=text, commands=(f"cd {shlex.quote(folder)}", command) if folder else (command,))


def _of_process(_before: LaunchPlan, plan: LaunchPlan, origin: AdoptedFrom) -> tuple[Instruction, ...]:
    stop = Instruction(text=_("Stop the server that runs now."), commands=(f"kill {origin.name}",))
    return stop, _start(plan, _("Start it again with this command:"), origin.folder)


def _of_log(_before: LaunchPlan, plan: LaunchPlan, _origin: AdoptedFrom) -> tuple[Instruction, ...]:
    text = _("Start vLLM with this command; with the same variables, and the same call of vLLM, as before.")
    return (_start(plan, text),)


def _of_container(_before: LaunchPlan, plan: LaunchPlan, origin: AdoptedFrom) -> tuple[Instruction, ...]:
    manager, name = shlex.join(origin.manager), shlex.quote(origin.name)
    away = Instruction(
        text=_("A container keeps the command it was made with: take it away."),
        commands=(f"{manager} stop {name}", f"{manager} rm {name}"),
    )
    return away, _start(plan, _("Make it anew with this command:"))


def _of_compose(before: LaunchPlan, plan: LaunchPlan, origin: AdoptedFrom) -> tuple[Instruction, ...]:
    entrypoint, *words = plan.inside
    lines = [f"entrypoint: {_yaml([entrypoint])}", f"command: {_yaml(words)}"]
    text = _("In the service {name} of this file, put these lines in the place of those of the same name:")
    told = [
        Instruction(text=text.format(name=origin.name), file=origin.file, content="\n".join(lines) + "\n")
    ]
    set_now = {name: value for name, value in plan.env.items() if before.env.get(name) != value}
    variables = [f"{name}={value}" for name, value in set_now.items()] + list(origin.in_command)
    if variables:
        content = "environment:\n" + "".join(f"  - {_yaml(entry)}\n" for entry in variables)
        told.append(Instruction(text=_("Add to its variables:"), file=origin.file, content=content))
    gone = [name for name in before.env if name not in plan.env]
    if gone:
        text = _("Take out of its variables: {names}.")
        told.append(Instruction(text=text.format(names=", ".join(gone)), file=origin.file))
    up = (*origin.manager, "-f", origin.file, "up", "--detach", origin.name)
    return (*told, Instruction(text=_("Then make the container anew:"), commands=(shlex.join(up),)))


def _of_unit(before: LaunchPlan, plan: LaunchPlan, origin: AdoptedFrom) -> tuple[Instruction, ...]:
    gone = [name for name in before.env if name not in plan.env]
    lines = ["[Service]"]
    lines += [
        f"Environment={_unit_word(f'{name}={value}')}"
        for name, value in plan.env.items()
        if before.env.get(name) != value
    ]
    lines += [f"UnsetEnvironment={name}" for name in gone]
    if origin.in_command:
        lines.append(f"EnvironmentFile={origin.file.removesuffix('.conf')}.env")
    words = (word if word in origin.open else _started_word(word) for word in plan.argv)
    lines += ["ExecStart=", f"ExecStart={' '.join(words)}"]
    sudo = () if "--user" in origin.manager else ("sudo",)
    manager = shlex.join((*sudo, *origin.manager))
    return (
        Instruction(
            text=_("Write this file; what it does not name stays as it is in the unit:"),
            file=origin.file,
            content="\n".join(lines) + "\n",
        ),
        Instruction(
            text=_("Then let systemd read it, and start the service anew:"),
            commands=(f"{manager} daemon-reload", f"{manager} restart {shlex.quote(origin.name)}"),
        ),
    )


def _of_script(_before: LaunchPlan, plan: LaunchPlan, origin: AdoptedFrom) -> tuple[Instruction, ...]:
    text = _("In this script, write this command in the place of the one that starts vLLM:")
    content = shell(plan)
    for word in origin.open:
        content = content.replace(shlex.quote(word), word)
    return (Instruction(text=text, file=origin.file, content=content + "\n"),)


def _yaml(value: object) -> str:
    """A value for a compose file: JSON is YAML as well, and nothing in it is taken for a variable."""
    return msgspec.json.encode(value).decode().replace("$", "$$")


def _unit_word(word: str) -> str:
    """A word as systemd's ``Environment`` takes it: no specifier in it is replaced."""
    plain = word.replace("%", "%%")
    if plain and not any(sign in plain for sign in " \t\n\"'\\;"):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _started_word(word: str) -> str:
    """A word as systemd's ``ExecStart`` takes it, which replaces variables as well."""
    return _unit_word(word.replace("$", "$$"))


_KINDS: Mapping[AdoptedKind, Callable[[LaunchPlan, LaunchPlan, AdoptedFrom], tuple[Instruction, ...]]] = {
    "pid": _of_process,
    "container": _of_container,
    "compose": _of_compose,
    "unit": _of_unit,
    "script": _of_script,
    "log": _of_log,
}
