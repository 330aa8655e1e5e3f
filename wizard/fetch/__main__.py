"""The process that talks to the hub: ``look`` prints a plan, ``run`` downloads one; events go to stdout.

A process of its own, because huggingface_hub reads its variables when it is imported, because a download must
outlive the terminal it was begun in, and because ending it is then the whole of cancelling it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from wizard import i18n
from wizard.fetch.types import FetchEvent, FetchPlan, Order

_writing = threading.Lock()


def _emit(event: FetchEvent) -> None:
    line = msgspec.json.encode(event) + b"\n"
    with _writing:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def _look(argument: str) -> FetchEvent:
    from wizard.fetch.hub import look

    return look(msgspec.json.decode(argument, type=Order), _emit)


def _run(argument: str) -> FetchEvent:
    from wizard.fetch.download import download

    return download(msgspec.json.decode(Path(argument).read_bytes(), type=FetchPlan), _emit)


def main(work: str, argument: str, language: str, checkpoint: str, folder: str) -> None:
    """Do one thing and say how it ended; ends at once then, whatever other threads wait for."""
    from wizard.fetch.trouble import explain

    i18n.use(language)
    works: dict[str, Callable[[str], FetchEvent]] = {"look": _look, "run": _run}
    try:
        last = works[work](argument)
    except Exception as error:  # noqa: BLE001 - put into words, whatever it is
        last = explain(error, checkpoint, Path(folder))
    _emit(last)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
