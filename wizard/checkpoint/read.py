"""Finds a checkpoint in a folder, in the Hugging Face cache or on the hub, and reads what it says."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from importlib import resources
from pathlib import Path

import msgspec

from wizard.checkpoint.derive import derive
from wizard.checkpoint.files import LARGEST, SMALL, Files, folder_files
from wizard.checkpoint.hub import MARK
from wizard.checkpoint.types import Checkpoint
from wizard.child import run_child
from wizard.errors import RefusedError, UsageError, WizardError
from wizard.i18n import _
from wizard.machine import models_folder
from wizard.text import one_line

_HUB_ID = re.compile(r"\w[\w.-]{0,95}(?:/\w[\w.-]{0,95})?")


class _Answer(msgspec.Struct):
    """What ``hub.py`` says."""

    sizes: dict[str, int] = {}
    parameters: int | None = None
    problem: str = ""
    text: str = ""


def read_checkpoint(
    name_or_path: str,
    *,
    offline: bool = False,
    deadline_s: float = 30.0,
    cancel: threading.Event | None = None,
) -> Checkpoint:
    """A local folder, or a hub id: as it lies in the Hugging Face cache, else as the hub has it.

    Changes nothing: what the hub sends goes into a folder that is deleted again. Only small files are read,
    never weights. Raises UsageError when there is no such checkpoint, CorruptDataError when its files are
    damaged, RefusedError when the hub wants a token, cannot be reached or ``offline`` forbids to ask it.
    """
    folder = os.path.expanduser(name_or_path)  # noqa: PTH111 - pathlib raises for names too long to exist
    if os.path.isdir(folder):  # noqa: PTH112
        return derive(folder_files(name_or_path, "folder", Path(folder)))
    if not _HUB_ID.fullmatch(name_or_path):
        raise UsageError(
            _("{name} is neither a folder nor the id of a model on the hub.").format(
                name=one_line(name_or_path)
            ),
            _("An id has the form organisation/model."),
        )
    cached = _cached(name_or_path)
    if cached is not None and (offline or cached.weights()):
        return derive(cached)
    if offline:
        raise RefusedError(
            _("{name} is not in the Hugging Face cache, and offline the hub was not asked.").format(
                name=name_or_path
            ),
            _("Name the folder it lies in, or leave --offline out."),
        )
    with tempfile.TemporaryDirectory(prefix="vllm-opencode-") as scratch:
        try:
            return derive(_from_hub(name_or_path, Path(scratch), deadline_s, cancel))
        except RefusedError as error:
            if cached is None:
                raise
            note = _("Read from the cache alone: {reason}").format(reason=error.message)
            return derive(msgspec.structs.replace(cached, notes=(note,)))


def _cached(repository: str) -> Files | None:
    """The snapshot that ``main`` names, as huggingface_hub lays them out; None when there is none to use."""
    home = models_folder() / f"models--{repository.replace('/', '--')}"
    try:
        revision = (home / "refs" / "main").read_text(encoding="utf-8").strip()
        return folder_files(repository, "cache", home / "snapshots" / Path(revision).name)
    except (OSError, UnicodeDecodeError, WizardError):
        return None


def _from_hub(repository: str, scratch: Path, deadline_s: float, cancel: threading.Event | None) -> Files:
    """The small files, brought into ``scratch`` by a process that can be ended at any time."""
    source = (resources.files("wizard.checkpoint") / "hub.py").read_text(encoding="utf-8")
    variables = {**os.environ, "PYTHONSAFEPATH": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    argv = (sys.executable, "-c", source, repository, str(scratch), str(LARGEST), *SMALL)
    outcome = run_child(argv, variables, deadline_s, cancel)
    line = outcome.output.rpartition(MARK)[2]
    try:
        answer = msgspec.json.decode(line, type=_Answer)
    except msgspec.DecodeError:
        last = one_line((outcome.errors or outcome.output).strip().rpartition("\n")[2], 200)
        answer = _Answer(problem="unreachable", text=outcome.cut_short or last)
    if not answer.problem:
        files = Files(
            name=repository,
            place="hub",
            folder=scratch,
            sizes=answer.sizes,
            parameters=answer.parameters,
        )
        if SMALL[0] in files.sizes:
            return files
        raise UsageError(
            _("{folder} holds no config.json.").format(folder=repository),
            _("vLLM serves models in the layout of Hugging Face transformers."),
        )
    raise _refusal(repository, answer)


def _refusal(repository: str, answer: _Answer) -> WizardError:
    if answer.problem == "gated":
        return RefusedError(
            _("{name} is gated: the hub hands it out only to those it knows.").format(name=repository),
            _("Accept its terms on its page, then set HF_TOKEN to a token of yours, or run `hf auth login`."),
        )
    if answer.problem == "missing":
        return UsageError(
            _("The hub knows no model {name}, or shows it only to those it knows.").format(name=repository),
            _("Check the spelling; for a private model set HF_TOKEN."),
        )
    return RefusedError(
        _("The hub could not be asked about {name}: {reason}").format(
            name=repository, reason=one_line(answer.text, 200)
        ),
        _("Check the network and HF_ENDPOINT, or name a local folder."),
    )
