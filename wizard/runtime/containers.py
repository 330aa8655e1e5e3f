"""vLLM in containers: the images and running containers docker or podman knows of, and how one is called."""

from __future__ import annotations

import os
import re
import shutil
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wizard import paths
from wizard.catalog import Engine, runtime_facts
from wizard.child import Outcome, run_child
from wizard.i18n import _
from wizard.runtime.types import Runtime
from wizard.text import one_line

_DEADLINE_S = 10.0
_ENTRYPOINT = "--entrypoint=vllm"
_IMAGES = ("images", "--format", "{{.ID}}\t{{.Repository}}\t{{.Tag}}")
_RUNNING = ("ps", "--no-trunc", "--format", "{{.ID}}\t{{.Image}}\t{{.Names}}\t{{.Ports}}\t{{.Command}}")


def find_containers(cancel: threading.Event | None = None) -> tuple[Runtime, ...]:
    """Running containers that serve vLLM, then images that hold it; none is started for that.

    Each says in ``problem`` why it is not taken by itself. An engine that may not be asked, or does not
    answer, is one entry that says so.
    """
    found: dict[tuple[str, ...], Runtime] = {}
    for engine in runtime_facts().engine:
        program = shutil.which(engine.name)
        if program is None:
            continue
        running, images = (_listed(program, question, cancel) for question in (_RUNNING, _IMAGES))
        trouble = next((answer for answer in (running, images) if isinstance(answer, str)), None)
        if trouble is not None:
            found[(engine.name,)] = _unasked(engine.name, trouble)
            continue
        for words in running:
            if runtime := _of_container(engine, words):
                found.setdefault(tuple(words[:2]), runtime)
        for words in images:
            if runtime := _of_image(engine, words):
                found.setdefault(tuple(words), runtime)
    return tuple(found.values())


def named_image(name: str, cancel: threading.Event | None = None) -> tuple[str, ...] | None:
    """How vLLM in the image of this name is called; None when no engine here has it. Downloads nothing."""
    if name.startswith((".", "/", "~", "-")):
        return None
    for engine in runtime_facts().engine:
        asked = (engine.name, "image", "inspect", "--format", "{{.Id}}", name)
        if shutil.which(engine.name) and run_child(asked, os.environ, _DEADLINE_S, cancel).code == 0:
            return _command(engine, name)
    return None


def image_of(command: Sequence[str]) -> str | None:
    """The image a command starts vLLM in, as ``named_image`` wrote it; None for any other command."""
    engines = [engine.name for engine in runtime_facts().engine]
    ours = len(command) > 3 and command[1] == "run" and command[-2] == _ENTRYPOINT
    return command[-1] if ours and Path(command[0]).name in engines else None


def ask_image(
    command: Sequence[str],
    source: str,
    variables: Mapping[str, str],
    added: Mapping[str, str],
    deadline_s: float,
    cancel: threading.Event | None,
    arguments: Sequence[str] = (),
) -> Outcome:
    """Run a program in the Python of an image, without network and GPUs; ``added`` are its variables.

    The image is never downloaded. The container is removed, also when it had to be ended early.
    """
    engine, image = command[0], command[-1]
    name = f"vllm-opencode-probe-{uuid.uuid4().hex[:12]}"
    options = ("--rm", "--pull=never", "--network=none", f"--name={name}", "--entrypoint=python3")
    handed = (f"--env={variable}" for variable in added)
    ended = False
    try:
        outcome = run_child(
            (engine, "run", *options, *handed, image, "-c", source, *arguments),
            variables,
            deadline_s,
            cancel,
        )
        ended = not outcome.cut_short
        return outcome
    finally:
        if not ended:
            run_child((engine, "rm", "--force", name), variables, _DEADLINE_S)


def version_of(image: str) -> str | None:
    """The version of vLLM an image's tag promises; None when the tag tells none."""
    repository, _colon, tag = image.rpartition(":")
    known = next((entry for entry in runtime_facts().image if entry.repository == _plain(repository)), None)
    found = re.search(known.version, tag) if known is not None and known.version else None
    if known is None or found is None:
        return None
    return known.months.get(found["month"]) if known.months else found["version"]


def _command(engine: Engine, image: str) -> tuple[str, ...]:
    """A container's whole call, up to the image: ``serve MODEL …`` follows."""
    facts = runtime_facts().container
    hub = os.environ.get("HF_HOME") or str(paths.expanded("~/.cache/huggingface"))
    options = (
        *(option.format(hub=hub) for option in facts.run),
        *(f"--env={name}" for name in facts.hand_on),
    )
    return (engine.name, "run", "--rm", engine.gpus, *options, _ENTRYPOINT, image)


def _listed(program: str, question: Sequence[str], cancel: threading.Event | None) -> list[list[str]] | str:
    """The lines of an answer, by field; or why there is none."""
    outcome = run_child((program, *question), os.environ, _DEADLINE_S, cancel)
    if outcome.code == 0:
        return list(_fields(outcome.output, question[-1].count("\t") + 1))
    said = [line for line in outcome.errors.splitlines() if line.strip()]
    return outcome.cut_short or (said[-1] if said else _("It said nothing."))


def _fields(output: str, count: int) -> Iterator[list[str]]:
    for line in output.splitlines():
        words = line.split("\t", count - 1)
        if len(words) == count:
            yield [one_line(word) for word in words]


def _unasked(engine: str, reason: str) -> Runtime:
    text = _("{engine} does not tell which images and containers there are: {reason}").format(
        engine=engine, reason=one_line(reason)
    )
    return Runtime(kind="container", path=engine, command=(engine,), problem=text)


def _of_container(engine: Engine, words: Sequence[str]) -> Runtime | None:
    _id, image, name, ports, command = words
    serves = any(part in command for part in runtime_facts().container.commands)
    if not serves and not _known(image):
        return None
    where = ", ".join(filter(None, (image, ports)))
    text = _("It is running ({where}): connect to it, or stop it before another one takes its GPUs.")
    return Runtime(
        kind="container",
        path=name,
        command=(engine.name, "exec", name, "vllm"),
        version=version_of(image),
        problem=text.format(where=where),
    )


def _of_image(engine: Engine, words: Sequence[str]) -> Runtime | None:
    _id, repository, tag = words
    if not _known(repository) or "<none>" in (repository, tag):
        return None
    image = f"{repository}:{tag}"
    text = _("An image, not asked so far: name it as the vLLM to take, and it is asked inside a container.")
    return Runtime(
        kind="container",
        path=image,
        command=_command(engine, image),
        version=version_of(image),
        problem=text,
    )


def _known(image: str) -> bool:
    """Whether an image, with or without tag, is from a repository that holds vLLM."""
    return any(
        entry.repository in (_plain(image), _plain(image.rpartition(":")[0]))
        for entry in runtime_facts().image
    )


def _plain(repository: str) -> str:
    """The repository as docker writes it: podman puts the registry in front of those of Docker Hub."""
    return repository.removeprefix("docker.io/")
