"""What went wrong between us, the hub and the disk, in words, and whether asking again may help.

For the process that talks to the hub: huggingface_hub and its HTTP client are imported there.
"""

from __future__ import annotations

import email.utils
import errno
import time
from pathlib import Path

from wizard.catalog import fetch_facts
from wizard.fetch.store import free_bytes
from wizard.fetch.types import FetchFailed
from wizard.i18n import _
from wizard.text import covered, one_line

_ASK_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_GIB = 1 << 30


class GivenUpError(Exception):
    """What asking again cannot cure; ``failed`` says why."""

    def __init__(self, failed: FetchFailed) -> None:
        super().__init__(failed.message)
        self.failed = failed


def endpoint() -> str:
    """The hub or the mirror in use, for show: without a password in its address."""
    from huggingface_hub import constants

    return covered(one_line(constants.ENDPOINT))


def passes(error: BaseException) -> bool:
    """Whether the same request may work in a while: a cut or silent connection, a busy server."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    if isinstance(error, LocalEntryNotFoundError) and error.__cause__ is not None:
        return passes(error.__cause__)
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in _ASK_AGAIN
    return isinstance(error, httpx2.TransportError)


def asked_to_wait_s(error: BaseException) -> float | None:
    """How long the server asks us to wait (``Retry-After``, seconds or a date); None when it does not."""
    from huggingface_hub.errors import HfHubHTTPError

    asked = error.response.headers.get("Retry-After", "") if isinstance(error, HfHubHTTPError) else ""
    if asked.isdecimal():
        return float(asked)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(asked).timestamp() - time.time())
    except ValueError:
        return None


def named(error: BaseException) -> str:
    """A short name for a trouble that may pass."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    if isinstance(error, LocalEntryNotFoundError) and error.__cause__ is not None:
        return named(error.__cause__)
    if isinstance(error, HfHubHTTPError):
        return _("the server answers {status}").format(status=error.response.status_code)
    if isinstance(error, httpx2.TimeoutException):
        return _("the server is silent")
    if isinstance(error, httpx2.ReadError | httpx2.RemoteProtocolError):
        return _("the connection was cut")
    return covered(one_line(str(error), 120)) or type(error).__name__


def explain(error: BaseException, checkpoint: str, folder: Path) -> FetchFailed:
    """Why it does not go on, and what to do; whatever it is, what came so far stays on the disk."""
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    if isinstance(error, GivenUpError):
        return error.failed
    if isinstance(error, LocalEntryNotFoundError) and error.__cause__ is not None:
        return explain(error.__cause__, checkpoint, folder)
    if isinstance(error, HfHubHTTPError):
        return _refused_by_hub(error, checkpoint)
    if passes(error):
        return FetchFailed(
            message=_("{endpoint} cannot be reached: {reason}.").format(
                endpoint=endpoint(), reason=named(error)
            ),
            hint=_(
                "Check the network, https_proxy, or HF_ENDPOINT for a mirror; then run it again: it goes on "
                "from where it stopped."
            ),
        )
    if isinstance(error, OSError) and error.errno is not None:
        return _refused_by_disk(error, folder)
    return FetchFailed(
        message=_("{endpoint} answers not as a hub does: {reason}.").format(
            endpoint=endpoint(), reason=covered(one_line(f"{type(error).__name__}: {error}", 200))
        ),
        hint=_("Check HF_ENDPOINT, and whether a proxy or a login page answers in its place."),
    )


def _refused_by_hub(error: BaseException, checkpoint: str) -> FetchFailed:
    from huggingface_hub import get_token
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    page = f"{endpoint()}/{checkpoint}"
    token = _("A token is given as HF_TOKEN, or stored with `hf auth login`; get one at {page}.").format(
        page=fetch_facts().hub.tokens
    )
    if isinstance(error, GatedRepoError):
        message = _("{checkpoint} is gated: its terms must be accepted first.").format(checkpoint=checkpoint)
        accept = _("Accept them at {page} with your account.").format(page=page)
        seen = _("The token in use does not belong to an account that did.") if get_token() else token
        return FetchFailed(message=message, hint=f"{accept} {seen}")
    if isinstance(error, RevisionNotFoundError):
        return FetchFailed(
            message=_("{page} has no such revision.").format(page=page),
            hint=_("Leave --revision out of the options for vLLM."),
        )
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
    if isinstance(error, RepositoryNotFoundError) or status == 404:
        private = _("If it is private, a token is needed. {token}").format(token=token)
        return FetchFailed(
            message=_("There is no {checkpoint} at {endpoint}, or it is private.").format(
                checkpoint=checkpoint, endpoint=endpoint()
            ),
            hint=_("Check the name at {page}.").format(page=page) + " " + private,
        )
    if status in (401, 403):
        return FetchFailed(
            message=_("{endpoint} refuses {checkpoint} with {status}.").format(
                endpoint=endpoint(), checkpoint=checkpoint, status=status
            ),
            hint=_("The token is wrong, has expired, or lacks the right to read it. {token}").format(
                token=token
            )
            if get_token()
            else token,
        )
    return FetchFailed(
        message=_("{endpoint} answers {status} for {checkpoint}.").format(
            endpoint=endpoint(), status=status, checkpoint=checkpoint
        ),
        hint=_("Run it again later: it goes on from where it stopped."),
    )


def _refused_by_disk(error: OSError, folder: Path) -> FetchFailed:
    if error.errno in _NO_ROOM:
        return FetchFailed(
            message=_("The disk is full: {free:.1f} GiB are free at {folder}.").format(
                free=free_bytes(folder) / _GIB, folder=folder
            ),
            hint=_(
                "Free some space and run it again: it goes on from where it stopped. HF_HOME moves the cache."
            ),
        )
    return FetchFailed(
        message=_("Cannot write {folder}: {reason}.").format(
            folder=error.filename or folder, reason=error.strerror
        ),
        hint=_("Make it yours (chown -R), or point HF_HOME to a folder you can write."),
    )
