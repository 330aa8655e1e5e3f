"""What came of the steps in words: server, live test, configuration, proof, diagnosis, and the last sheet.

Like ``screens.wording``: pure, plain text, for both front ends.
"""

from __future__ import annotations

from screens.estimates import compared_lines
from screens.figures import count
from wizard.diagnosis import Diagnosis, Finding
from wizard.flow import Journey, receipt_path
from wizard.i18n import _
from wizard.opencode import OpencodeChange, Proof
from wizard.serve import Server
from wizard.smoke import SmokeReport


def server_line(server: Server) -> str:
    """Address, name, window and version of a running server."""
    parts = [server.base_url, server.model, _("window {tokens}").format(tokens=count(server.max_model_len))]
    if server.version:
        parts.append(f"vLLM {server.version}")
    return " · ".join(parts)


def smoke_summary(report: SmokeReport) -> str:
    """The verdict of the live test in one sentence."""
    verdicts = {
        "pass": _("PASS: tool calls work with this server."),
        "fail": _("FAIL: opencode would not work with this server."),
        "inconclusive": _("INCONCLUSIVE: the model did not show whether its calls arrive."),
    }
    return verdicts[report.verdict]


def change_lines(change: OpencodeChange) -> tuple[str, ...]:
    """Where opencode's configuration is written, what lies over it, and how it is kept."""
    actions = {
        "created": _("new file"),
        "updated": _("your file, changed"),
        "unchanged": _("already as it should be"),
        "refused": _("not touched"),
    }
    lines = [f"{change.path}  ({actions[change.action]})"]
    lines.append(_("Overridden by: {names}").format(names=", ".join(change.overridden_by) or _("nothing")))
    if change.backup:
        lines.append(_("Backup: {path}").format(path=change.backup))
    if change.beside:
        names = ", ".join(file.path.replace("\\", "/").rpartition("/")[2] for file in change.beside)
        lines.append(_("Also written: {names}").format(names=names))
    if change.contacts:
        lines.append(_("Nothing leaves the house, save for what ? names."))
    return (*lines, *change.warnings)


def why_lines(change: OpencodeChange) -> tuple[str, ...]:
    """Why each key is set, with its source; and whom opencode may contact, where nothing was to go out."""
    lines = [
        _("{key}: {why} [{source}]").format(key=reason.key, why=reason.why, source=reason.source)
        for reason in change.reasons
    ]
    beside = [_("{path}: {purpose}").format(path=file.path, purpose=file.purpose) for file in change.beside]
    return (*change.contacts, *beside, *lines)


def confirmed_lines(change: OpencodeChange) -> tuple[str, ...]:
    """What the installed opencode makes of the configuration."""
    told = change.confirmed
    return () if told is None else tuple(line for line in (told.detail, told.hint) if line)


def proof_lines(proof: Proof) -> tuple[str, ...]:
    """What the real opencode did with the configuration."""
    words = {"passed": _("PROVED"), "failed": _("NOT PROVED"), "skipped": _("SKIPPED")}
    version = f" (opencode {proof.opencode_version})" if proof.opencode_version else ""
    return tuple(line for line in (f"{words[proof.status]}{version}: {proof.detail}", proof.hint) if line)


def in_place(journey: Journey) -> bool:
    """Whether opencode's configuration is as it should be on disk."""
    change = journey.change
    return change is not None and change.action != "refused" and not change.pending


def done_lines(journey: Journey) -> tuple[str, ...]:
    """The sentence to type, what runs where, and how to stop and undo it."""
    lines = []
    change, server, run = journey.change, journey.server, journey.run
    if change is not None and in_place(journey):
        typed = _("After a real set-up you would type in a project of yours:")
        typed = typed if journey.simulated else _("Type this in a project of yours:")
        lines += [typed, f"  cd project; {change.command}", ""]
    if server is not None:
        lines.append(_("vLLM answers at {url} as {model}.").format(url=server.base_url, model=server.model))
    lines += compared_lines(journey)
    if run is not None:
        lines.append(_("Its log:        {path}").format(path=run.log))
    if change is not None and in_place(journey):
        lines.append(_("Configuration:  {path}").format(path=change.path))
    if journey.simulated:
        lines += ["", _("The stand-in for vLLM is stopped when you leave. Everything it wrote lies in:")]
        lines.append(f"  {journey.scratch}")
    else:
        lines += [_("Receipt:        {path}").format(path=receipt_path(journey)), ""]
        if run is not None:
            lines.append(_("Stop vLLM:      {command}").format(command="vllm-opencode stop"))
        if change is not None and change.touched:
            lines.append(_("Undo all:       {command}").format(command="vllm-opencode undo"))
    proof = proof_lines(journey.proof) if journey.proof else ()
    return (*lines, "", *proof)


def diagnosis_line(diagnosis: Diagnosis) -> str:
    """The verdict on a text."""
    verdicts = {
        "healthy": _("HEALTHY: the text shows no fault."),
        "failed": _("FAILED: here is why."),
        "unknown": _("FAILED, and the cause is not known."),
        "incomplete": _("INCOMPLETE: the text ends before one can tell."),
    }
    read = _("{lines} lines read").format(lines=count(diagnosis.lines))
    return f"{verdicts[diagnosis.verdict]} ({read})"


def finding_lines(finding: Finding) -> tuple[str, ...]:
    """Cause, evidence and remedies of one fault, best remedy first."""
    lines = [finding.cause]
    lines += [
        _("  line {number}  {text}").format(number=count(seen.line), text=seen.text)
        for seen in finding.evidence
    ]
    if finding.remedies:
        lines += ["", _("What helps, best first")]
    for number, remedy in enumerate(finding.remedies, 1):
        lines.append(f"  {number}  {remedy.title}" + (f"  ({remedy.effect})" if remedy.effect else ""))
        lines += [f"       {command}" for command in remedy.commands]
        if remedy.until:
            lines.append("       " + _("Until {condition}.").format(condition=remedy.until))
    lines += [_("Will not help: {what}").format(what=text) for text in finding.will_not_help]
    return (*lines, *_instruction_lines(finding))


def _instruction_lines(finding: Finding) -> list[str]:
    """How the best remedy that changes the command is applied, where the server was started."""
    remedy = next((remedy for remedy in finding.remedies if remedy.instructions), None)
    if remedy is None:
        return []
    lines = ["", _("To apply it: {title}").format(title=remedy.title)]
    for told in remedy.instructions:
        lines += [f"  {told.text}", *([f"    {told.file}"] if told.file else [])]
        lines += [f"    {line}" for line in told.content.splitlines()]
        lines += [f"    $ {line}" for command in told.commands for line in command.splitlines()]
    return lines
