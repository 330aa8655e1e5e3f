"""Brings the files of a plan, several at once, each from where it stopped, and proves them by their hash.

Only the bytes are ours, for huggingface_hub removes what it has of a file when it is interrupted. It
knows the addresses and the token, and puts a finished blob into its cache.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING

from wizard.catalog import fetch_facts
from wizard.fetch.hub import partial
from wizard.fetch.patience import Patience
from wizard.fetch.store import repository
from wizard.fetch.trouble import GivenUpError
from wizard.fetch.types import Fetched, FetchEvent, FetchFailed, FetchPlan, FetchProgress, File
from wizard.i18n import _

if TYPE_CHECKING:
    import httpx2

_GIB = 1 << 30
_SHA256_LENGTH = 64
_WINDOW_S = 10.0

Emit = Callable[[FetchEvent], None]


def download(plan: FetchPlan, emit: Emit) -> Fetched:
    """Bring everything that is missing; progress is told all the time. Raises what stopped it."""
    facts = fetch_facts().download
    began = time.monotonic()
    pace: deque[tuple[float, int]] = deque()
    pool = ThreadPoolExecutor(facts.workers)
    try:
        pending = {pool.submit(_bring, plan, file, emit) for file in plan.files}
        while pending:
            done, pending = wait(pending, facts.report_s, FIRST_EXCEPTION)
            for finished in done:
                finished.result()
            emit(_progress(plan, pace))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return Fetched(
        checkpoint=plan.checkpoint,
        folder=plan.folder,
        total_bytes=plan.total_bytes,
        downloaded_bytes=plan.missing_bytes,
        seconds=round(time.monotonic() - began, 1),
    )


def _progress(plan: FetchPlan, pace: deque[tuple[float, int]]) -> FetchProgress:
    """How much lies on the disk, and how fast that grew of late."""
    there = sum(min(file.size or 0, _on_disk(plan, file)) for file in plan.files)
    done = plan.total_bytes - sum(file.size or 0 for file in plan.files) + there
    now = time.monotonic()
    pace.append((now, done))
    while now - pace[0][0] > _WINDOW_S:
        pace.popleft()
    since, before = pace[0]
    speed = (done - before) / (now - since) if now > since else None
    left = plan.total_bytes - done
    return FetchProgress(
        done=done,
        total=plan.total_bytes,
        bytes_per_s=None if speed is None else round(max(0.0, speed)),
        seconds_left=round(left / speed) if speed and speed > 0 else None,
    )


def _blob(plan: FetchPlan, file: File) -> Path:
    return repository(Path(file.cache), plan.checkpoint) / "blobs" / (file.etag or "")


def _on_disk(plan: FetchPlan, file: File) -> int:
    blob = _blob(plan, file)
    return (
        0 if file.etag is None else next((_size(path) for path in (blob, partial(blob)) if path.exists()), 0)
    )


def _bring(plan: FetchPlan, file: File, emit: Emit) -> None:
    """One file: its bytes, their proof, and its place in the cache, which huggingface_hub gives it."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined] # exported, but not marked so

    patience = Patience(emit)
    blob = _blob(plan, file)
    if file.etag and file.size:
        blob.parent.mkdir(parents=True, exist_ok=True)
        # The lock is huggingface_hub's own: neither it nor another of us writes the same blob meanwhile.
        lock = Path(file.cache) / ".locks" / blob.parents[1].name / f"{file.etag}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(lock):
            if not blob.exists():
                _bring_blob(plan, file, blob, patience)
    while True:
        try:
            hf_hub_download(plan.checkpoint, file.path, revision=plan.revision, cache_dir=file.cache)
            return
        except Exception as error:  # noqa: BLE001 - raised again unless it passes
            patience.wait(error)


def _bring_blob(plan: FetchPlan, file: File, blob: Path, patience: Patience) -> None:
    """The bytes of a file, proved; what arrived wrong is asked for once more, from the beginning."""
    part = partial(blob)
    for _attempt in range(2):
        _bring_bytes(plan, file, part, patience)
        if _is_proved(part, file.etag or ""):
            part.replace(blob)
            return
        part.unlink()
    raise GivenUpError(
        FetchFailed(
            message=_("{file} arrived twice with other content than the hub names.").format(file=file.path),
            hint=_("Something on the way changes it: check HF_ENDPOINT and proxies. The rest is kept."),
        )
    )


def _bring_bytes(plan: FetchPlan, file: File, part: Path, patience: Patience) -> None:
    """Asks until everything is there. Only more than ever before counts as progress: a server that begins
    anew each time must not keep us for ever."""
    size, most = file.size or 0, 0
    while (have := _size(part)) != size:
        if have > size:
            part.unlink()
            continue
        try:
            _ask(plan, file, part, have)
        except Exception as error:  # noqa: BLE001 - raised again unless it passes
            if _size(part) > max(most, have):
                most = _size(part)
                patience.renew()
            patience.wait(error)


def _ask(plan: FetchPlan, file: File, part: Path, have: int) -> None:
    """One request for what is missing, of a span at most; what arrives is on the disk at once."""
    import httpx2
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import (  # type: ignore[attr-defined] # documented there, but not marked so
        build_hf_headers,
        get_session,
        hf_raise_for_status,
    )

    facts = fetch_facts().download
    size = file.size or 0
    last = min(size, have + int(facts.span_gib * _GIB)) - 1
    headers = {**build_hf_headers(), "Range": f"bytes={have}-{last}", "Accept-Encoding": "identity"}
    address = hf_hub_url(plan.checkpoint, file.path, revision=plan.revision)
    silent = httpx2.Timeout(facts.silent_s)
    with get_session().stream(
        "GET", address, headers=headers, timeout=silent, follow_redirects=True
    ) as response:
        if response.status_code == httpx2.codes.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            part.unlink()
            return
        hf_raise_for_status(response)
        with part.open("ab", buffering=0) as out:
            if not _continues(response, have):
                out.truncate(0)
                have = 0
            for chunk in response.iter_raw():
                have += out.write(chunk[: size - have])
                if have >= size:
                    break
            os.fsync(out.fileno())
    if have < last + 1:
        raise httpx2.RemoteProtocolError(_("the answer was shorter than asked for"))


def _continues(response: httpx2.Response, have: int) -> bool:
    """Whether the answer begins where we stopped; a server may ignore the question and send everything."""
    start = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return response.status_code == 206 and start == str(have)


def _is_proved(path: Path, etag: str) -> bool:
    """Whether the content is what the hub calls by this name: a SHA-256, or git's SHA-1 of a small file."""
    with path.open("rb") as file:
        if len(etag) == _SHA256_LENGTH:
            return hashlib.file_digest(file, "sha256").hexdigest() == etag
        content = file.read()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest() == etag


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
