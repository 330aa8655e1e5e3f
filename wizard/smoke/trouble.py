"""Why a request got no usable answer: refused, broken off, too slow; each with what to do about it."""

from __future__ import annotations

import re

import msgspec

from wizard.errors import ServerError
from wizard.i18n import N_, _
from wizard.smoke.material import material
from wizard.text import one_line

_EXPLAINED = {
    "auto-tools-off": (
        N_("The server was started without tool calling."),
        N_("Start vLLM with --enable-auto-tool-choice and the --tool-call-parser of the model."),
    ),
    "no-chat-template": (
        N_("The model has no chat template: it answers no chat at all."),
        N_("Start vLLM with --chat-template, or choose an instruct checkpoint."),
    ),
    "model-unknown": (
        N_("The server does not know a model of this name."),
        N_("Use the name after --served-model-name exactly, upper and lower case included."),
    ),
    "wrong-path": (
        N_("The server has no such path."),
        N_("The base URL must end with /v1, once, as vLLM's does."),
    ),
    "key-refused": (
        N_("The server refused the API key."),
        N_("Give the key vLLM was started with (--api-key or VLLM_API_KEY)."),
    ),
    "output-over-window": (
        N_("The answer asked for is longer than the server's whole window."),
        N_("Start vLLM with a larger --max-model-len."),
    ),
    "prompt-over-window": (
        N_("The prompt does not fit in the server's window."),
        N_("Start vLLM with a larger --max-model-len."),
    ),
    "redirected": (
        N_("The server sends the request on to another address."),
        N_("That is not followed, so that a key stays with the host you named. Give the final address."),
    ),
    "gateway": (
        N_("A proxy or gateway answered in the place of vLLM."),
        N_("Ask vLLM directly, or look at the proxy: it gets no answer from vLLM, or too late."),
    ),
    "throttled": (
        N_("The server takes no more requests at the moment."),
        N_("Something before vLLM limits them: ask vLLM directly, or try again later."),
    ),
    "engine-dead": (
        N_("vLLM's engine died while it answered."),
        N_("Look for the cause in its log, and in the kernel's for an out-of-memory kill."),
    ),
    "not-ready": (
        N_("The server is not ready, or its engine is dead."),
        N_("Wait for its start to end, or start it again."),
    ),
}
"""What each code of smoke.toml means to a person, and what to do."""


class Trouble(ServerError):
    """A request without a usable answer. ``status``: HTTP's, when the server refused it.

    ``ends_test``: the next requests cannot do better.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        hint: str,
        *,
        status: int | None = None,
        ends_test: bool = False,
        evidence: str = "",
    ) -> None:
        super().__init__(detail, hint)
        self.code = code
        self.status = status
        self.ends_test = ends_test
        self.evidence = evidence


class Cancelled(Exception):
    """The user asked for the end of the test."""


def refused(status: int, text: str, names: tuple[str, ...] = ()) -> Trouble:
    """The trouble behind an error reply, or behind an error inside a stream (status 200).

    ``names`` are the names the server serves, offered when it does not know the one that was asked for.
    """
    said = one_line(_message(text))
    for known in material().error:
        # Inside a stream the status was sent long before the error: only the text tells.
        status_fits = not known.status or status in known.status or (status == 200 and bool(known.pattern))
        if status_fits and re.search(known.pattern, said):
            detail, hint = _explained(known.code, names)
            evidence = f"HTTP {status} {said}"
            return Trouble(known.code, detail, hint, status=status, ends_test=known.ends, evidence=evidence)
    return Trouble(
        "refused",
        _("The server refused the request with status {status}.").format(status=status),
        _("Its own words are in the evidence; its log says more."),
        status=status,
        evidence=f"HTTP {status} {said}",
    )


def unreachable(base_url: str, reason: str) -> Trouble:
    """Nothing answers at the address."""
    return Trouble(
        "unreachable",
        _("Nothing answers at {url}.").format(url=base_url),
        _("Check that vLLM is running and ready, and that address and port are right."),
        ends_test=True,
        evidence=one_line(reason),
    )


def broken_off(reason: str) -> Trouble:
    """The connection was closed in the middle of an answer."""
    return Trouble(
        "broken-off",
        _("The server closed the connection in the middle of its answer."),
        _("It probably died: look at the end of its log, and at the kernel's log for an out-of-memory kill."),
        evidence=one_line(reason),
    )


def too_slow(deadline_s: float) -> Trouble:
    """No complete answer within the deadline of the check."""
    return Trouble(
        "too-slow",
        _("No complete answer within {seconds:.0f} seconds.").format(seconds=deadline_s),
        _("The server hangs or is busy with other requests: look at its log, or try again when it is idle."),
        ends_test=True,
    )


def unreadable(text: str, reason: str) -> Trouble:
    """An answer that is not what the OpenAI interface promises."""
    return Trouble(
        "unreadable",
        _("The answer is not the JSON that the OpenAI interface promises."),
        _("Check that the address is vLLM's own and not that of a proxy or of another program."),
        evidence=one_line(f"{reason}: {text}"),
    )


def unfinished(evidence: str) -> Trouble:
    """A stream that ended without saying why."""
    return Trouble(
        "unfinished",
        _("The stream ended without a finish reason: opencode would ask again without end."),
        _("Look at the end of vLLM's log; a proxy in between may cut streams, too."),
        evidence=evidence,
    )


def _message(text: str) -> str:
    """The sentence in vLLM's error object, or the text as it is."""
    try:
        body = msgspec.json.decode(text)
        error = body["error"]
        return str(error["message"] if isinstance(error, dict) else error)
    except (msgspec.DecodeError, KeyError, TypeError):
        return text


def _explained(code: str, names: tuple[str, ...]) -> tuple[str, str]:
    """What a known refusal means, and its cure."""
    detail, hint = _EXPLAINED[code]
    if code == "model-unknown" and names:
        return _(detail), _("Served here: {names}. Use one of them.").format(names=", ".join(names))
    return _(detail), _(hint)
