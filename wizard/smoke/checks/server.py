"""Is it there, under which name, how long is its window, and whom does it let in."""

from __future__ import annotations

from wizard.i18n import _
from wizard.smoke.judge import Judgement
from wizard.smoke.material import material
from wizard.smoke.talk import Talk, user
from wizard.smoke.trouble import Trouble

_STRANGER = "a-name-nobody-serves"
_NO_KEY = "not-the-key"


def models(talk: Talk) -> Judgement:
    """The name the user chose must be one of those served."""
    listed = talk.exchange.models()
    names = ", ".join(listed.names)
    talk.note("GET /v1/models", names)
    name = talk.server.model
    if name not in listed.names:
        return Judgement(
            status="fail",
            detail=_("The name {name} is not served.").format(name=name),
            hint=_("Served here: {names}. Use one of them.").format(names=names or _("nothing")),
        )
    talk.learned.window = listed.window(name) or talk.learned.window
    return Judgement(status="ok", detail=name)


def window(talk: Talk) -> Judgement:
    """The window must hold opencode's own prompt; asks nothing by itself."""
    least, found = material().minimum_window, talk.learned.window
    if found is None:
        return Judgement(
            status="warn",
            detail=_("The server does not say how long its window is."),
            hint=_("Set the limits in opencode by hand, from the server's --max-model-len."),
        )
    if found < least:
        return Judgement(
            status="fail",
            detail=_("The window holds {window} tokens; opencode needs at least {least}.").format(
                window=f"{found:,}", least=f"{least:,}"
            ),
            hint=_("Start vLLM with a larger --max-model-len: opencode's own prompt fills most of this one."),
        )
    return Judgement(status="ok", detail=_("{window} tokens").format(window=f"{found:,}"))


def wrong_model(talk: Talk) -> Judgement:
    """A name nobody serves should be refused: else a typing error goes to another model unnoticed."""
    request = talk.request([user(material().words.chat)], 1) | {"model": _STRANGER}
    try:
        talk.send(request)
    except Trouble as trouble:
        if trouble.code == "model-unknown":
            return Judgement(status="ok", detail=_("A name that is not served is refused."))
        if trouble.status is None or trouble.status >= 500:
            raise
        return Judgement(
            status="ok",
            detail=_("A name that is not served is refused, with status {status}.").format(
                status=trouble.status
            ),
        )
    return Judgement(
        status="warn",
        detail=_("A name that is not served is answered all the same."),
        hint=_("This server takes any name: see for yourself that it serves the model you mean."),
    )


def wrong_key(talk: Talk) -> Judgement:
    """A server that was given a key must refuse others."""
    if not talk.line.has_key:
        return Judgement(status="skip", detail=_("No API key is used."))
    asked = "GET /v1/models " + _("(with another key)")
    try:
        talk.exchange.models(_NO_KEY)
    except Trouble as trouble:
        talk.note(asked, trouble.evidence)
        if trouble.code == "key-refused":
            return Judgement(status="ok", detail=_("Another key is refused."))
        raise
    talk.note(asked, _("answered"))
    return Judgement(
        status="warn",
        detail=_("Another key is let in as well: the server asks for none."),
        hint=_("Anybody who reaches this address may use the model: start vLLM with --api-key."),
    )
