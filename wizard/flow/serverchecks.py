"""What is right and wrong with a vLLM: whether it answers, and whether its command lets opencode work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from wizard.adopt import Adopted, adopt, units_of_vllm
from wizard.catalog import find_model, parsers
from wizard.checkpoint import detect_parsers, read_checkpoint
from wizard.errors import KeyRefusedError, WizardError
from wizard.http import is_loopback
from wizard.i18n import _
from wizard.machine import Check, CheckStatus
from wizard.plan import LaunchPlan, PlanEdit, instructions
from wizard.serve import Server, probe_server
from wizard.text import one_line

USUAL_URL = "http://127.0.0.1:8000/v1"
"""Where vLLM listens when nobody says otherwise."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The server of a set-up: where it is looked for, and what it said or why it said nothing."""

    url: str
    server: Server | None = None
    error: WizardError | None = None

    @property
    def answers(self) -> bool:
        """Whether a server is there, be it one that wants a key first."""
        return self.server is not None or isinstance(self.error, KeyRefusedError)


def look_for(url: str, api_key: str | None) -> Found:
    """Ask the server at an address; it is not there or refuses: that is a finding, no error."""
    try:
        return Found(url=url, server=probe_server(url, api_key=api_key))
    except WizardError as error:
        return Found(url=url, error=error)


def server_checks(found: Found | None) -> Iterator[Check]:
    """The server itself, the unit that should have started it, and its command; None: none is known."""
    if found is None:
        yield Check(id="server", status="skip", detail=_("No server runs, and none was named."))
        yield from _idle_units()
        return
    if found.error is not None:
        status: CheckStatus = "warn" if found.answers else "fail"
        yield Check(id="server", status=status, detail=found.error.message, hint=found.error.hint)
    if found.server is not None:
        server = found.server
        detail = _("{url} serves {names}, window {window}").format(
            url=server.base_url, names=", ".join(server.served_names), window=server.max_model_len or "?"
        )
        yield Check(id="server", status="ok", detail=detail)
    yield from _command_checks(found) if found.answers else _idle_units()


def _idle_units() -> Iterator[Check]:
    """Units on this machine that start vLLM: the server may only be stopped."""
    for name, user in units_of_vllm():
        manager = "systemctl --user" if user else "systemctl"
        start = f"{manager} start {name}" if user else f"sudo {manager} start {name}"
        yield Check(
            id=f"service:{name}",
            status="warn",
            detail=_("{unit} starts a vLLM, and none answers.").format(unit=name),
            hint=_("Start it with: {command}").format(command=start),
            command=f"{manager} status {name}",
        )


def _command_checks(found: Found) -> Iterator[Check]:
    adopted = _adopted(found.url)
    if adopted is None:
        detail = _("The command of the server was not read: it runs elsewhere, or for another user.")
        yield Check(id="server-command", status="skip", detail=detail)
        return
    plan = adopted.plan
    detail = _("started by {source}").format(
        source=f"{adopted.adopted_from.kind}:{adopted.adopted_from.name}"
    )
    unread = " ".join(adopted.unread)
    yield Check(id="server-command", status="ok", detail=f"{detail}. {unread}" if unread else detail)
    names = found.server.served_names if found.server is not None else ()
    wanted = expected_parser(plan, names)
    yield _tool_choice(plan, wanted)
    yield _tool_parser(plan, wanted)


def _adopted(base_url: str) -> Adopted | None:
    """The plan of the server at an address of this host; None where it cannot be read."""
    if not is_loopback(base_url):
        return None
    try:
        return adopt(f"port:{urlsplit(base_url).port or 80}")
    except WizardError:
        return None


def _tool_choice(plan: LaunchPlan, wanted: str | None) -> Check:
    id = "tool-choice"
    flags = {option.flag for option in plan.options}
    if "--enable-auto-tool-choice" in flags and plan.parser:
        return Check(id=id, status="ok", detail=_("tool calls are switched on"))
    wanted = wanted or plan.parser
    if "--enable-auto-tool-choice" not in flags:
        detail = _("Without --enable-auto-tool-choice the server refuses every request of opencode.")
    else:
        detail = _("Without --tool-call-parser the server turns no answer of the model into a tool call.")
    if wanted is None:
        hint = _("Add --enable-auto-tool-choice and the --tool-call-parser of this model.")
        return Check(id=id, status="fail", detail=detail, hint=hint)
    changes = {"--enable-auto-tool-choice": None, "--tool-call-parser": wanted}
    return _changed(id, detail, plan, changes)


def _tool_parser(plan: LaunchPlan, wanted: str | None) -> Check:
    """The parser against the one the model needs, by the catalogue or by its own template."""
    id = "tool-parser"
    if plan.parser is None:
        return Check(id=id, status="skip", detail=_("no parser is set"))
    of_its_own = plan.flag("--chat-template") or plan.flag("--tool-parser-plugin")
    if wanted is None or of_its_own:
        detail = _("{parser}; which one this model needs is not known, the smoke test tells.")
        return Check(id=id, status="skip", detail=detail.format(parser=plan.parser))
    if reads_alike(plan.parser, wanted):
        return Check(id=id, status="ok", detail=_("{parser} fits this model").format(parser=plan.parser))
    detail = _("{parser} does not read how this model writes tool calls; {wanted} does.").format(
        parser=one_line(plan.parser, 60), wanted=wanted
    )
    return _changed(id, detail, plan, {"--tool-call-parser": wanted})


def _changed(id: str, detail: str, plan: LaunchPlan, changes: dict[str, str | None]) -> Check:
    """A failed check whose hint is the change, and whose command starts the server with it."""
    told = instructions(plan, [PlanEdit(origin="remedy", title=detail, set=changes)])
    added = " ".join(word for flag, value in changes.items() for word in (flag, value) if word)
    hints = [_("Start it again with {options}.").format(options=added)]
    for step in told:
        if not step.commands:
            hints += [step.text, *filter(None, (step.file, step.content.rstrip()))]
    commands = [command for step in told for command in step.commands]
    return Check(id=id, status="fail", detail=detail, hint="\n".join(hints), command="\n".join(commands))


def expected_parser(plan: LaunchPlan, names: Sequence[str]) -> str | None:
    """The tool-call parser the catalogue names for the served model, else its template; None: not known."""
    for name in (plan.checkpoint, *names):
        entry = find_model(name)
        if entry is not None and entry.tool_parser:
            return entry.tool_parser
    folder = plan.adopted_from.folder if plan.adopted_from is not None else ""
    local = Path(folder) / plan.checkpoint
    try:
        checkpoint = read_checkpoint(str(local) if local.is_dir() else plan.checkpoint, offline=True)
    except WizardError:
        return None
    guess = detect_parsers(checkpoint, version=plan.vllm_version)
    return guess.tool_parser if guess.sureness == "sure" else None


def reads_alike(one: str, other: str) -> bool:
    """Whether two tool-call parsers read the same wire format, by the tables."""
    formats = {entry.name: entry.wire_format for entry in parsers("tool")}
    alike = formats.get(one) == formats.get(other) is not None
    named = (formats.get(one, "") == f"As {other}.", formats.get(other, "") == f"As {one}.")
    return one == other or alike or any(named)
