"""Commands around the client and after the set-up: configure, diagnose, undo, report."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from wizard.cli import output
from wizard.cli.events import finding_lines
from wizard.cli.journeys import consent, journey
from wizard.cli.looking import AnswersOption, say_instructions
from wizard.cli.options import current
from wizard.cli.serving import default_url
from wizard.diagnosis import Diagnosis, Finding
from wizard.errors import UsageError
from wizard.flow import (
    Journey,
    client_missing,
    confirm_configuration,
    connect,
    examine_trouble,
    install_client,
    is_asked,
    last_verdict,
    named_source,
    need,
    plan_configuration,
    plan_exported,
    save_progress,
    write_configuration,
)
from wizard.flow import diagnose as diagnose_flow
from wizard.flow import undo as undo_flow
from wizard.i18n import _
from wizard.opencode import OpencodeChange, install_command
from wizard.plan import document as plan_document
from wizard.report import write_report


def configure(
    base_url: Annotated[
        str | None, typer.Option("--base-url", help=_("Address of a running vLLM, with /v1."))
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help=_("Served name, or a model of the catalogue."))
    ] = None,
    provider: Annotated[
        str | None, typer.Option("--provider", help=_("Id of the provider in opencode's configuration."))
    ] = None,
    context: Annotated[
        int | None, typer.Option("--context", help=_("Tell opencode a shorter window, tokens."))
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option("--output", help=_("opencode's longest answer, tokens."))
    ] = None,
    extra_prompt_tokens: Annotated[
        int | None,
        typer.Option(
            "--extra-prompt-tokens", help=_("What your instructions and MCP servers add to every prompt.")
        ),
    ] = None,
    trim_tools: Annotated[
        bool,
        typer.Option("--trim-tools", help=_("Deny the tools a coding job can do without: a small window.")),
    ] = False,
    api_key_file: Annotated[
        str | None, typer.Option("--api-key-file", help=_("File that holds the key."))
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option("--api-key-env", help=_("Variable that holds the key."))
    ] = None,
    path: Annotated[Path | None, typer.Option("--path", help=_("Write this file."))] = None,
    project: Annotated[
        Path | None,
        typer.Option(
            "--project", help=_("Write into this project's folder instead of the global configuration.")
        ),
    ] = None,
    printing: Annotated[
        bool, typer.Option("--print", help=_("Print the whole new file and write nothing."))
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export", help=_("Write file, key and instructions for other machines into this folder.")
        ),
    ] = None,
    install: Annotated[
        bool, typer.Option("--install-opencode", help=_("Install opencode with npm if it is missing."))
    ] = False,
    private: Annotated[
        bool,
        typer.Option("--private", help=_("Nothing leaves the house: no sharing, no updates, no web tools.")),
    ] = False,
    globals: Annotated[
        str | None,
        typer.Option("--globals", help=_("Also set keys that touch all providers: yes, no or ask.")),
    ] = None,
    unproven: Annotated[bool, typer.Option("--unproven", help=_("Also after a failed smoke test."))] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=_("Show what would be done."))] = False,
    yes: Annotated[bool, typer.Option("--yes", help=_("Go on without asking."))] = False,
    answers: AnswersOption = None,
) -> int:
    """opencode's configuration. 0: written, unchanged or shown; 1: refused, or read otherwise by opencode."""
    if sum(place is not None for place in (path, project, export)) > 1:
        raise UsageError(_("--path, --project and --export exclude each other."), _("Give one of them."))
    if globals not in (None, "yes", "no", "ask"):
        raise UsageError(_("--globals takes yes, no or ask, not {value}.").format(value=globals))
    start = journey(
        answers,
        start={
            "mode": "connect",
            "base_url": default_url(answers) if base_url is None else base_url,
            "api_key_env": api_key_env,
        },
        model={"served_name": model},
        budget={
            "output": output_tokens,
            "extra_prompt_tokens": extra_prompt_tokens,
            "trim_tools": trim_tools or None,
        },
        serve={"api_key_file": api_key_file},
        opencode={
            "provider": provider,
            "context": context,
            "path": None if path is None else str(path),
            "project": None if project is None else str(project),
            "private": private or None,
            "globals": globals,
        },
    )
    connected = connect(start) if printing else _with_client(connect(start), install and not dry_run)
    if export is None:
        planned = plan_configuration(connected, unproven=unproven)
    else:
        planned = plan_exported(connected, export, unproven=unproven)
    change = need(planned.change)
    if printing:
        output.raw(change.after)
        return 0
    if not current().json:
        _say_change(change)
    tested = last_verdict(planned)
    if tested is None:
        output.say(_("No smoke test was made: `vllm-opencode smoke` proves that tool calls work."))
    elif tested.verdict != "fail":
        output.say(_("Smoke test of {when}: {verdict}.").format(when=tested.tested, verdict=tested.verdict))
    if not dry_run and change.pending:
        consent(_("Write {path}?").format(path=change.path), yes)
        planned = write_configuration(planned)
        save_progress(planned, finished=True)
    change = need((confirm_configuration(planned) if export is None else planned).change)
    if current().json:
        output.document(_public(change))
    elif change.action != "refused" and not change.pending:
        _say_written(change)
    wrong = change.confirmed is not None and not change.confirmed.agrees
    return 1 if change.action == "refused" or wrong else 0


def _with_client(start: Journey, install: bool) -> Journey:
    """The journey with an opencode, where one was asked for; else a word on how to get one."""
    if not client_missing(start):
        return start
    if install:
        output.say(_("Installing opencode: {command}").format(command=" ".join(install_command())))
        return install_client(start, threading.Event())
    output.say(_("opencode is not installed here; --install-opencode installs it with npm."))
    return start


def _say_change(change: OpencodeChange) -> None:
    words = {
        "created": _("a new file"),
        "updated": _("to be changed"),
        "unchanged": _("nothing to change"),
        "refused": _("refused"),
    }
    output.say(f"{change.path}: {words[change.action]}")
    output.say(change.diff)
    for reason in change.reasons if change.diff else ():
        output.say(_("Why {key}: {why}").format(key=reason.key, why=reason.why))
    for file in change.beside:
        output.say(_("Also written: {path} ({purpose})").format(path=file.path, purpose=file.purpose))
    for warning in change.warnings:
        output.say(_("Note: {text}").format(text=warning))
    for contact in change.contacts:
        output.say(_("Contact: {text}").format(text=contact))
    for override in change.overridden_by:
        output.say(_("Overridden by: {text}").format(text=override))
    if change.backup:
        output.say(_("Backup: {path}").format(path=change.backup))


def _say_written(change: OpencodeChange) -> None:
    if change.written:
        output.say(_("Written: {path}").format(path=change.path))
    confirmed = change.confirmed
    if confirmed is not None:
        output.say(f"{confirmed.detail} {confirmed.hint}".rstrip())
    output.say(_("Start with: {command}").format(command=change.command))


def _public(change: OpencodeChange) -> dict[str, object]:
    """The change without the bytes of the file, which may hold keys of other providers."""
    names = ("path", "action", "diff", "backup", "provider", "model", "limit", "overridden_by", "warnings")
    more = ("written", "reasons", "contacts", "command", "confirmed")
    beside = [{"path": file.path, "purpose": file.purpose, "written": file.written} for file in change.beside]
    return {name: getattr(change, name) for name in (*names, *more)} | {"beside": beside}


def diagnose(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help=_("A log, docker:NAME, unit:NAME, port:N, symptom:ID, or - for standard input."),
        ),
    ],
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            help=_("A plan.json of a run, or what plan --format json printed: remedies for that command."),
        ),
    ] = None,
    vllm_version: Annotated[
        str | None, typer.Option("--vllm-version", help=_("Version of vLLM the text is from."))
    ] = None,
    exit_code: Annotated[
        int | None, typer.Option("--exit-code", help=_("Exit code of the process, where the log is silent."))
    ] = None,
) -> int:
    """Cause and cure of a log. 0: healthy; 1: findings; 3: failed or incomplete, cause unknown."""
    named = named_source(file)
    if is_asked(named):
        found = need(examine_trouble(journey(start={"mode": "troubleshoot", "log": named})).diagnosis)
    else:
        found = diagnose_flow(
            named, plan=plan, vllm_version=vllm_version, exit_code=exit_code, simulate=current().simulate
        )
    if current().json:
        output.document(_diagnosis_document(found))
    else:
        _say_diagnosis(found)
    recognised = any(finding.severity != "info" for finding in found.findings)
    if found.verdict in ("unknown", "incomplete"):
        return 3
    return 1 if recognised else 0


def _say_diagnosis(found: Diagnosis) -> None:
    words = {
        "healthy": _("nothing is wrong"),
        "failed": _("a failure, and its cause is known"),
        "unknown": _("a failure of unknown cause"),
        "incomplete": _("it ends before one can tell; give the whole log"),
    }
    output.say(_("{lines} lines read: {verdict}.").format(lines=found.lines, verdict=words[found.verdict]))
    for finding in found.findings:
        output.say()
        _say_finding(finding)

    _say_instructions(found)


def _diagnosis_document(found: Diagnosis) -> dict[str, object]:
    """The diagnosis; the plan its remedies are for as ``plan --json`` writes it."""
    document: dict[str, object] = msgspec.to_builtins(msgspec.structs.replace(found, plan=None))
    told = {} if found.plan is None else plan_document(found.plan)
    return {**document, "plan": told.get("plan"), "adopted_from": told.get("adopted_from")}


def _say_instructions(found: Diagnosis) -> None:
    """How the best remedy that changes the command is applied, where the server was started."""
    remedies = [remedy for finding in found.findings for remedy in finding.remedies if remedy.instructions]
    for remedy in remedies[:1]:
        output.say()
        output.say(_("To apply it: {title}").format(title=_(remedy.title)))
        say_instructions(remedy.instructions)


def _say_finding(finding: Finding) -> None:
    output.say(f"{finding.severity.upper()}  {finding.title}  [{finding.fault}]")
    output.say(f"  {finding.cause}")
    for line in finding_lines(finding):
        output.say(f"  {line}")
    for text in finding.will_not_help:
        output.say("  " + _("Will not help: {what}").format(what=text))


def undo(
    listing: Annotated[bool, typer.Option("--list", help=_("Show what would be taken back."))] = False,
) -> int:
    """Take back what the last set-up changed. 0: all of it; 1: something was kept."""
    reverted, kept = undo_flow(listing)
    if current().json:
        output.document({"reverted": reverted, "kept": kept})
    else:
        for entry in reverted:
            output.say(
                _("Would revert {path}").format(path=entry.path)
                if listing
                else _("Reverted {path}").format(path=entry.path)
            )
        for left in kept:
            output.say(_("Kept {path}: {why}").format(path=left.path, why=left.why))
        if not reverted and not kept:
            output.say(_("Nothing to take back."))
    return 1 if kept else 0


def report(file: Annotated[Path | None, typer.Option("--output", help=_("Write it here."))] = None) -> int:
    """A redacted sheet about the last set-up."""
    path = write_report(file)
    if current().json:
        output.document({"path": str(path)})
    else:
        output.say(_("Written: {path}. Read it before you send it.").format(path=path))
    return 0
