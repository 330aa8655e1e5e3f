"""What happens at the edges: an answer or a prompt beyond the window, and a stream that is left."""

from __future__ import annotations

import re

from wizard.i18n import _
from wizard.smoke.judge import Judgement
from wizard.smoke.material import material
from wizard.smoke.talk import Talk, described, user
from wizard.smoke.trouble import Trouble

_WORD = " a"
"""One token to every tokenizer."""
_BEYOND = 64
_POLL_S = 0.1


def output_limit(talk: Talk) -> Judgement:
    """opencode asks for as much output as its limit says, however much room the prompt leaves."""
    if talk.learned.window is None:
        return _no_window()
    request = talk.request([user(material().words.chat)], talk.learned.window, stream=True)
    try:
        talk.exchange.leave(request)
    except Trouble as trouble:
        talk.note(described(request), trouble.evidence)
        if trouble.status is None or trouble.status >= 500:
            raise
        return Judgement(
            status="warn",
            detail=_("An answer that may fill the window is refused, not clamped to the room left."),
            hint=_(
                "opencode asks for its whole limit.output every time. With the limits the wizard writes it "
                "compacts before prompt and answer together pass the window."
            ),
        )
    talk.note(described(request), "HTTP 200")
    return Judgement(status="ok", detail=_("Clamped to the room the prompt leaves."))


def over_long(talk: Talk) -> Judgement:
    """A prompt that cannot fit must be refused, in words by which opencode knows that it must compact."""
    if talk.learned.window is None:
        return _no_window()
    sent = talk.learned.window + _BEYOND
    request = talk.request([user(_WORD * sent)], 1)
    try:
        answer = talk.send(request)
    except Trouble as trouble:
        if trouble.status is None or trouble.status >= 500:
            raise
        return _refusal(trouble)
    counted = answer.usage.prompt_tokens if answer.usage else None
    if counted is not None and counted >= sent:
        return Judgement(status="ok", detail=_("The window is longer than the server says."))
    return Judgement(
        status="fail",
        detail=_("A prompt longer than the window was cut without a word: {count} of {sent} tokens.").format(
            count="?" if counted is None else f"{counted:,}", sent=f"{sent:,}"
        ),
        hint=_("Start vLLM without truncation: opencode would lose its instructions and never know."),
    )


def cancelled_stream(talk: Talk) -> Judgement:
    """A stream the client leaves must free its place: opencode leaves one with every press of Esc."""
    before = _running(talk)
    if before is None:
        return Judgement(status="skip", detail=_("The server does not tell how many requests run."))
    request = talk.request([user(material().words.count)], material().max_tokens, stream=True)
    talk.exchange.leave(request)
    talk.note(described(request), "HTTP 200, left after the first piece")
    try:
        while (_running(talk) or 0) > before:
            talk.exchange.pause(_POLL_S)
    except Trouble as trouble:
        if trouble.status is not None:
            raise
        return Judgement(
            status="fail",
            detail=_("A stream that was left goes on: its request still runs."),
            hint=_("Something between keeps the connection open: ask vLLM directly."),
        )
    return Judgement(status="ok", detail=_("A stream that is left ends at once."))


def _refusal(trouble: Trouble) -> Judgement:
    """How opencode would take this refusal."""
    overflow, said = material().overflow, trouble.evidence
    if any(re.search(pattern, said, re.IGNORECASE) for pattern in overflow.recognised):
        return Judgement(status="ok", detail=_("Refused in words that opencode knows: it would compact."))
    if re.search(overflow.transient, said):
        detail = _("Refused in words that opencode takes for a passing fault: it would ask five times more.")
    else:
        detail = _("Refused in words that opencode does not know: it would stop instead of compacting.")
    return Judgement(
        status="warn",
        detail=detail,
        hint=_("Give opencode a limit.context below the window, so that it compacts in time."),
    )


def _running(talk: Talk) -> float | None:
    """How many requests the server works on; None when it does not say."""
    try:
        page = talk.exchange.metrics()
    except Trouble as trouble:
        if trouble.status is None:
            raise
        return None
    counts = re.findall(material().running, page, re.MULTILINE)
    return sum(map(float, counts)) if counts else None


def _no_window() -> Judgement:
    return Judgement(status="skip", detail=_("The server does not say how long its window is."))
