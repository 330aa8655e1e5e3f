"""What happens, told for a person or as JSON: events of a start, checks of the smoke test, findings."""

from __future__ import annotations

from collections.abc import Iterator

from wizard import diagnosis
from wizard.cli import output
from wizard.cli.fetching import show_fetch
from wizard.cli.options import current
from wizard.diagnosis import edit_of
from wizard.fetch import FetchEvent
from wizard.flow import CheckEvent, Cured, Found, LaunchEvent
from wizard.i18n import _
from wizard.plan import describe
from wizard.serve import Exited, Finding, LogLine, Measured, Milestone, Progress, Ready
from wizard.smoke import SmokeCheck


def show_event(happened: LaunchEvent) -> None:
    """An event for whoever asked: a JSON line, or a line for a person. Log lines only with -v."""
    if isinstance(happened, FetchEvent):
        show_fetch(happened)
        return
    if isinstance(happened, LogLine) and not current().verbose:
        return
    if current().json:
        output.event(happened)
        return
    stamp = f"{int(happened.seconds) // 60}:{int(happened.seconds) % 60:02}"
    if isinstance(happened, Finding):
        _say_finding(happened, stamp)
        return
    match happened:
        case Milestone(title=title, detail=detail):
            output.say(f"{stamp:>6}  OK    {_(title)}  {detail}")
        case Progress(id=stage, done=done, total=total):
            output.say(f"{stamp:>6}  >>    {stage} {done}/{total}")
        case Ready(base_url=url, served_names=names, max_model_len=window):
            output.say(f"{stamp:>6}  OK    {url}  {', '.join(names)}  {window or '?'}")
        case Measured():
            _say_measured(happened, stamp)
        case Cured():
            _say_cured(happened)
        case Exited(code=code):
            output.say(f"{stamp:>6}        " + _("ended with exit code {code}").format(code=code))
        case LogLine(text=text):
            output.say(text)
        case _:
            pass


def _say_finding(said: Finding, stamp: str) -> None:
    """A failure while it shows; of a known fault also its line, and what helps with its price."""
    output.say(f"{stamp:>6}  FAIL  {said.text}")
    if isinstance(said, Found):
        for line in finding_lines(said.finding):
            output.say(f"{'':>14}{line}")


def finding_lines(finding: diagnosis.Finding) -> Iterator[str]:
    """The evidence of a fault and its remedies, best first: what each changes, costs, and until when."""
    for seen in finding.evidence:
        yield _("line {number}: {text}").format(number=seen.line, text=seen.text)
    for number, remedy in enumerate(finding.remedies, start=1):
        yield f"{number}  {remedy.title}" + (f"  ({remedy.effect})" if remedy.effect else "")
        edit = edit_of(remedy)
        until = _("Until {condition}.").format(condition=remedy.until) if remedy.until else ""
        for line in (*(describe(edit) if edit else ()), *remedy.commands, until):
            if line:
                yield f"     {line}"


def _say_cured(cured: Cured) -> None:
    output.say(
        _("Cure {attempt} of at most {limit}: {remedy}").format(
            attempt=cured.attempt, limit=cured.limit, remedy=cured.remedy
        )
    )
    for line in (*cured.difference, cured.effect):
        if line:
            output.say(f"      {line}")


def show_check_event(check: SmokeCheck) -> None:
    """A smoke check of a start: a JSON line, or a line for a person."""
    if current().json:
        output.event(CheckEvent(check=check))
    else:
        show_check(check)


def _say_measured(told: Measured, stamp: str) -> None:
    """vLLM's own figures beside the estimate, and the longer window they leave room for."""
    names = {"available_kv_gib": _("KV cache, GiB"), "cache_tokens": _("KV cache, tokens")}
    for name, title in names.items():
        truth, expected = getattr(told.vllm, name), told.estimate.get(name)
        if truth is not None:
            text = _("{title}: {truth:,}, expected {expected}")
            shown = "-" if expected is None else f"{round(expected, 2):,}"
            output.say(f"{stamp:>6}        " + text.format(title=title, truth=truth, expected=shown))
    if told.longer is not None:
        text = _("There is room for a longer window: --max-model-len {window}")
        output.say(f"{stamp:>6}        " + text.format(window=told.longer))


def show_check(check: SmokeCheck) -> None:
    """A smoke check for a person, as it comes in."""
    words = {"ok": _("OK"), "warn": _("WARN"), "fail": _("FAIL"), "skip": _("SKIP")}
    kind = "" if check.required else _(" (informative)")
    output.say(f"{words[check.status]:<5} {check.title}{kind}: {check.detail}")
    if check.status == "fail":
        for line in (*check.evidence.splitlines(), check.hint):
            if line:
                output.say(f"      {line}")
