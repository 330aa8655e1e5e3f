"""Runs a program in the Python of an installed vLLM."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from wizard.child import Outcome, run_child
from wizard.runtime.containers import ask_image, image_of
from wizard.runtime.interpreter import interpreter_of
from wizard.runtime.types import Runtime


def run_inside(
    runtime: Runtime,
    source: str,
    arguments: Sequence[str],
    variables: Mapping[str, str],
    deadline_s: float,
    cancel: threading.Event | None = None,
) -> Outcome | None:
    """What ``source`` says there, as ``run_child`` tells it; None: no Python is known for this vLLM.

    ``variables`` is the whole environment; what the runtime needs is added to it. In an image it runs in a
    container of its own, with none of this machine's folders and no network.
    """
    added = {**runtime.env, "PYTHONSAFEPATH": "1"}
    whole = {**variables, **added}
    if image_of(runtime.command) is not None:
        return ask_image(runtime.command, source, whole, added, deadline_s, cancel, arguments)
    python = interpreter_of(runtime.command, whole)
    if python is None:
        return None
    return run_child((str(python), "-c", source, *arguments), whole, deadline_s, cancel)
