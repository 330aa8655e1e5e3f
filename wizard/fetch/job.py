"""A download as a process that outlives whoever began it: started once, followed by many, ended by any."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from wizard import paths
from wizard.catalog import fetch_facts
from wizard.child import run_child
from wizard.errors import FetchError, RefusedError, UsageError
from wizard.fetch.store import (
    caches,
    environment,
    is_hub_id,
    is_offline,
    presence,
    uses_modelscope,
)
from wizard.fetch.types import (
    Fetched,
    FetchEvent,
    FetchFailed,
    FetchPlan,
    FetchProgress,
    FetchWaiting,
    Job,
    Order,
)
from wizard.i18n import _, language
from wizard.text import inert

_GIB = 1 << 30
_POLL_S = 0.2
_END_S = 5.0
_SAME_START_S = 1.0
_QUIET = {
    # Its own fast transport keeps nothing of a file that was not finished.
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_VERBOSITY": "critical",
    "PYTHONWARNINGS": "ignore",
}

Event = FetchPlan | FetchProgress | FetchWaiting | Fetched | FetchFailed
_decode = msgspec.json.Decoder(Event).decode


def look(order: Order, cancel: threading.Event | None = None) -> FetchPlan:
    """What is missing of a checkpoint and whether it fits. Nothing is written.

    Raises RefusedError for what cannot be fetched (offline, ModelScope, not a hub id), FetchError when the
    hub cannot be asked, or refuses.
    """
    _refuse_without_hub(order)
    argument = msgspec.json.encode(order).decode()
    words = _command("look", argument, order, caches(order)[0])
    outcome = run_child(words, _variables(order), fetch_facts().download.look_s, cancel)
    events = [_decode(line) for line in outcome.output.splitlines() if line.startswith("{")]
    last = events[-1] if events else None
    if isinstance(last, FetchPlan):
        return last
    if isinstance(last, FetchFailed):
        raise _failure(last)
    reason = outcome.cut_short or inert(
        outcome.errors.strip().splitlines()[-1] if outcome.errors.strip() else "?"
    )
    raise FetchError(
        _("What is missing of {checkpoint} could not be found out: {reason}").format(
            checkpoint=order.checkpoint, reason=reason
        ),
        _("Check the network, https_proxy, or HF_ENDPOINT for a mirror."),
    )


def require_room(plan: FetchPlan) -> None:
    """Raises RefusedError, with the figures, when the file system has no room for what is missing."""
    if plan.fits:
        return
    raise RefusedError(
        _("{checkpoint} needs {needed:.1f} GiB more, and {free:.1f} GiB are free at {folder}.").format(
            checkpoint=plan.checkpoint,
            needed=plan.needed_bytes / _GIB,
            free=plan.free_bytes / _GIB,
            folder=plan.folder,
        ),
        _("Free some space, choose a smaller model, or put the cache on another disk with HF_HOME."),
    )


def start(plan: FetchPlan, order: Order) -> Job:
    """Begin a download, or find the one of the same checkpoint that runs already.

    It has a session of its own and writes to a file, so that it lives on when the terminal goes. Raises
    RefusedError when there is no room, UsageError when our own folder cannot be written.
    """
    # Only where vLLM itself runs: the commands around a server elsewhere work on Windows too.
    import fcntl

    folder = _folder(order)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = running(order)
            if found is not None:
                return found
            require_room(plan)
            return _spawn(plan, order, folder)
    except OSError as error:
        raise UsageError(
            _("Cannot write {path}: {reason}.").format(path=folder, reason=error.strerror or error),
            _("Free some space or choose another folder."),
        ) from error


def running(order: Order) -> Job | None:
    """The download of this checkpoint that goes on now, begun here or elsewhere by this user."""
    try:
        job = msgspec.json.decode((_folder(order) / "job.json").read_bytes(), type=Job)
    except (OSError, msgspec.MsgspecError):
        return None
    return job if is_alive(job) else None


def is_alive(job: Job) -> bool:
    """Whether the process of a download lives: the same process, not a later one with its number."""
    import psutil

    with contextlib.suppress(ChildProcessError):
        os.waitpid(job.pid, os.WNOHANG)
    try:
        process = psutil.Process(job.pid)
        same = abs(process.create_time() - job.process_started) <= _SAME_START_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def follow(job: Job, cancel: threading.Event) -> Iterator[FetchEvent]:
    """What happens to a download until it is done, or ``cancel`` is set; of progress only the latest.

    Raises FetchError when it failed or its process died.
    """
    with Path(job.events).open("rb") as file:
        rest = b""
        while not cancel.is_set():
            alive = is_alive(job)
            rest += file.read()
            *lines, rest = rest.split(b"\n")
            events = [_decode(line) for line in lines]
            for event, after in itertools.zip_longest(events, events[1:]):
                if isinstance(event, FetchFailed):
                    raise _failure(event)
                if not (isinstance(event, FetchProgress) and isinstance(after, FetchProgress)):
                    yield event
                if isinstance(event, Fetched):
                    return
            if not alive:
                raise FetchError(
                    _("The download of {checkpoint} was ended from outside.").format(
                        checkpoint=job.checkpoint
                    ),
                    _("What came is kept: run it again, and it goes on. Its own words: {log}").format(
                        log=_log(job.folder)
                    ),
                )
            cancel.wait(_POLL_S)


def stop(job: Job) -> None:
    """End a download; what came of it stays on the disk, and the next one goes on from there."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not is_alive(job):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(job.pid, number)
        ends = time.monotonic() + _END_S
        while is_alive(job) and time.monotonic() < ends:
            time.sleep(0.02)


def _refuse_without_hub(order: Order) -> None:
    if uses_modelscope(order):
        raise RefusedError(
            _("vLLM is told to take models from ModelScope (VLLM_USE_MODELSCOPE); this knows the hub only."),
            _("Unset VLLM_USE_MODELSCOPE, or download with: modelscope download --model {checkpoint}").format(
                checkpoint=order.checkpoint
            ),
        )
    if paths.expanded(order.checkpoint).is_dir():
        raise RefusedError(
            _("The folder {checkpoint} does not hold all of its weights.").format(
                checkpoint=order.checkpoint
            ),
            _("Put the missing files there, or name the model as OWNER/NAME to download it."),
        )
    if not is_hub_id(order.checkpoint):
        raise RefusedError(
            _("{checkpoint} is neither a folder nor a repository of the hub.").format(
                checkpoint=order.checkpoint
            ),
            _("Check the spelling of the folder, or name it as OWNER/NAME."),
        )
    if is_offline(order):
        found = presence(order)
        raise RefusedError(
            _(
                "{checkpoint} is not whole on this disk ({size:.1f} GiB are there), and this is offline."
            ).format(checkpoint=order.checkpoint, size=found.bytes / _GIB),
            _(
                "Leave out --offline and HF_HUB_OFFLINE, or copy it from another machine's cache to {cache}."
            ).format(cache=caches(order)[0]),
        )


def _spawn(plan: FetchPlan, order: Order, folder: Path) -> Job:
    import psutil

    file = folder / "plan.json"
    paths.write_atomic(file, msgspec.json.encode(plan))
    paths.write_atomic(folder / "events.jsonl", msgspec.json.encode(plan) + b"\n")
    words = _command("run", str(file), order, Path(plan.folder))
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(folder / "events.jsonl"), os.O_WRONLY | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, str(_log(folder)), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
    ]
    began = time.time()
    # A Popen object would have to be kept until its process ends, and this one is meant to outlive us.
    pid = os.posix_spawn(
        words[0],
        words,
        _variables(order),
        file_actions=actions,
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE,),
    )
    with contextlib.suppress(psutil.Error):
        began = psutil.Process(pid).create_time()
    job = Job(checkpoint=order.checkpoint, folder=str(folder), pid=pid, process_started=began)
    paths.write_atomic(folder / "job.json", msgspec.json.encode(job))
    return job


def _command(work: str, argument: str, order: Order, folder: Path) -> list[str]:
    return [sys.executable, "-m", "wizard.fetch", work, argument, language(), order.checkpoint, str(folder)]


def _variables(order: Order) -> dict[str, str]:
    return {**environment(order), **_QUIET}


def _folder(order: Order) -> Path:
    """One folder for a checkpoint and the place it goes to."""
    place = "\n".join([order.checkpoint, order.revision, *map(str, caches(order))])
    name = order.checkpoint.replace("/", "--")
    return paths.state_dir() / "fetch" / f"{name}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"


def _log(folder: Path | str) -> Path:
    return Path(folder) / "fetch.log"


def _failure(event: FetchFailed) -> FetchError:
    return FetchError(event.message, event.hint)
