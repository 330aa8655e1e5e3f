"""A server, read from the container it runs in: what docker or podman says of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from wizard.adopt.assemble import Found, make_adopted, of_its_own
from wizard.adopt.script import ScriptCall, call_in, unread_of
from wizard.adopt.types import Adopted
from wizard.catalog import runtime_facts
from wizard.child import run_child
from wizard.errors import RefusedError, UsageError
from wizard.i18n import _
from wizard.plan import AdoptedFrom
from wizard.runtime.containers import version_of
from wizard.text import is_secret_name, one_line

_DEADLINE_S = 10.0
_COMPOSE_FILE = "com.docker.compose.project.config_files"
_COMPOSE_SERVICE = "com.docker.compose.service"
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """What the container was asked to run."""

    image: str = ""
    env: tuple[str, ...] | None = ()
    entrypoint: tuple[str, ...] | str | None = ()
    cmd: tuple[str, ...] | None = ()
    labels: Mapping[str, str] | None = {}
    working_dir: str = ""
    user: str = ""


class PortBinding(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    host_ip: str = ""
    host_port: str = ""


class Restart(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    name: str = ""
    maximum_retry_count: int = 0


class DeviceRequest(msgspec.Struct, frozen=True, kw_only=True):
    driver: str = msgspec.field(default="", name="Driver")
    count: int = msgspec.field(default=0, name="Count")
    device_ids: tuple[str, ...] | None = msgspec.field(default=None, name="DeviceIDs")


class Device(msgspec.Struct, frozen=True, kw_only=True):
    path: str = msgspec.field(default="", name="PathOnHost")


class HostConfig(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """How the engine was asked to run it."""

    network_mode: str = ""
    ipc_mode: str = ""
    shm_size: int = 0
    runtime: str = ""
    privileged: bool = False
    restart_policy: Restart = Restart()
    port_bindings: Mapping[str, tuple[PortBinding, ...] | None] | None = {}
    device_requests: tuple[DeviceRequest, ...] | None = ()
    devices: tuple[Device, ...] | None = ()
    cap_add: tuple[str, ...] | None = ()
    security_opt: tuple[str, ...] | None = ()


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    kind: str = msgspec.field(default="", name="Type")
    name: str = msgspec.field(default="", name="Name")
    source: str = msgspec.field(default="", name="Source")
    destination: str = msgspec.field(default="", name="Destination")
    writable: bool = msgspec.field(default=True, name="RW")


class Inspected(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """The parts of ``docker inspect`` and ``podman inspect`` that make the call of a container."""

    name: str = ""
    path: str = ""
    args: tuple[str, ...] | None = ()
    config: Config = Config()
    host_config: HostConfig = HostConfig()
    mounts: tuple[Mount, ...] | None = ()


def adopt_container(name: str) -> Adopted:
    """The server of a container, running or stopped, of the first engine that knows it.

    Raises UsageError when none does or may be asked, RefusedError when it runs no vLLM.
    """
    engine, text = _inspected(name)
    try:
        (container,) = msgspec.json.decode(text, type=tuple[Inspected, ...], strict=False)
    except ValueError as error:
        raise RefusedError(
            _("{engine} describes {name} in a way that is not understood: {reason}.").format(
                engine=engine, name=name, reason=one_line(str(error), 120)
            )
        ) from error
    image = container.config.image
    return of_inspected(container, engine, _variables_of_image(engine, image))


def of_inspected(container: Inspected, engine: str, image_env: Mapping[str, str] | None) -> Adopted:
    """The server of a container as its engine described it; ``image_env``: what its image sets by itself.

    Without that only variables that change what vLLM does are taken for its own.
    """
    config = container.config
    env = _pairs(config.env or ())
    words = (container.path, *(container.args or ()))
    found = call_in(words, env) or call_in((*_words(config.entrypoint), *(config.cmd or ())), env)
    name = container.name.lstrip("/")
    if found is None:
        raise RefusedError(
            _("The container {name} runs no vLLM server.").format(name=one_line(name, 80)),
            _("List them with: {engine} ps").format(engine=engine),
        )
    if image_env is None:
        own = of_its_own(env)
    else:
        own = {key: value for key, value in env.items() if image_env.get(key) != value}
    own |= {key: value for key, value in found.env.items() if env.get(key) != value}
    port = next((o.value for o in found.call.options if o.flag == "--port"), None) or "8000"
    labels = config.labels or {}
    compose = labels.get(_COMPOSE_FILE, "").split(",")[0]
    service = labels.get(_COMPOSE_SERVICE, "")
    origin = AdoptedFrom(kind="container", name=name, manager=(engine,), unread=unread_of(found.open))
    if compose and service:
        origin = msgspec.structs.replace(
            origin, kind="compose", name=service, file=compose, manager=(engine, "compose")
        )
        options: Sequence[str] = (*origin.manager, "-f", compose, "run", "--rm", "--service-ports")
        image = service
    else:
        options = (engine, "run", *_options(container, name, engine))
        image = config.image
    secrets = tuple(f"--env={key}" for key in own if is_secret_name(key))
    call = in_container(found, (*options, *secrets), image)
    return make_adopted(
        Found(
            call=call.call,
            origin=origin,
            env=own,
            kind="container",
            path=config.image,
            version=version_of(config.image),
            published=_published(container.host_config, port),
        )
    )


def in_container(found: ScriptCall, options: Sequence[str], image: str) -> ScriptCall:
    """The call of vLLM as a command that starts it in a container of its own."""
    secrets = tuple(f"--env={name}" for name in found.call.secrets)
    entrypoint, *rest = found.call.command
    command = (*options, *secrets, f"--entrypoint={entrypoint}", image, *rest)
    return msgspec.structs.replace(found, call=msgspec.structs.replace(found.call, command=command))


def container_publishing(port: int) -> str | None:
    """The container a port of this host leads to; None where no engine knows of one."""
    for engine in runtime_facts().engine:
        if shutil.which(engine.name) is None:
            continue
        asked = (engine.name, "ps", "--filter", f"publish={port}", "--format", "{{.Names}}")
        answer = run_child(asked, os.environ, _DEADLINE_S)
        names = answer.output.split()
        if answer.code == 0 and len(names) == 1:
            return names[0]
    return None


def _inspected(name: str) -> tuple[str, str]:
    """The engine that knows a container, and its description."""
    reason = ""
    for engine in runtime_facts().engine:
        if shutil.which(engine.name) is None:
            continue
        asked = (engine.name, "container", "inspect", name)
        answer = run_child(asked, os.environ, _DEADLINE_S)
        if answer.code == 0:
            return engine.name, answer.output
        reason = reason or answer.cut_short or one_line(answer.errors, 200)
    names = " or ".join(engine.name for engine in runtime_facts().engine)
    raise UsageError(
        _("There is no container {name} here. {reason}")
        .format(name=one_line(name, 80), reason=reason)
        .strip(),
        _("Ask {engines} for its name with: ps --all").format(engines=names),
    )


def _variables_of_image(engine: str, image: str) -> dict[str, str] | None:
    """What an image sets by itself; None when the engine does not say."""
    asked = (engine, "image", "inspect", "--format", "{{json .Config.Env}}", image)
    answer = run_child(asked, os.environ, _DEADLINE_S)
    try:
        listed = msgspec.json.decode(answer.output, type=tuple[str, ...] | None)
    except ValueError:
        return None
    return _pairs(listed or ()) if answer.code == 0 else None


def _pairs(listed: Sequence[str]) -> dict[str, str]:
    return {name: value for name, _equals, value in (entry.partition("=") for entry in listed)}


def _words(entrypoint: Sequence[str] | str | None) -> tuple[str, ...]:
    """Podman before 5 writes it as one text."""
    return tuple(entrypoint.split() if isinstance(entrypoint, str) else entrypoint or ())


def _options(container: Inspected, name: str, engine: str) -> Iterator[str]:
    """What a container like this one is asked for, as options of ``run``."""
    host = container.host_config
    yield f"--name={name}"
    if policy := host.restart_policy.name.replace("no", ""):
        count = host.restart_policy.maximum_retry_count
        yield "--detach"
        yield f"--restart={policy}:{count}" if count else f"--restart={policy}"
    yield from _gpus(host, engine)
    if host.ipc_mode and host.ipc_mode not in ("private", "shareable"):
        yield f"--ipc={host.ipc_mode}"
    elif host.shm_size > 64 << 20:
        yield f"--shm-size={host.shm_size}"
    if host.network_mode not in ("", "default", "bridge", "slirp4netns", "pasta"):
        yield f"--network={host.network_mode}"
    for inside, bindings in (host.port_bindings or {}).items():
        for binding in bindings or ():
            address = f"{binding.host_ip}:" if binding.host_ip not in _EVERYWHERE else ""
            yield f"--publish={address}{binding.host_port}:{inside.removesuffix('/tcp')}"
    for mount in container.mounts or ():
        source = mount.name if mount.kind == "volume" and mount.name else mount.source
        yield f"--volume={source}:{mount.destination}{'' if mount.writable else ':ro'}"
    yield from (f"--cap-add={entry}" for entry in host.cap_add or ())
    yield from (f"--security-opt={entry}" for entry in host.security_opt or ())
    if host.privileged:
        yield "--privileged"
    if container.config.user:
        yield f"--user={container.config.user}"


def _gpus(host: HostConfig, engine: str) -> Iterator[str]:
    known = next((entry.gpus for entry in runtime_facts().engine if entry.name == engine), "")
    if host.runtime not in ("", "runc", "crun", "oci"):
        yield f"--runtime={host.runtime}"
    for request in host.device_requests or ():
        if request.device_ids:
            yield f'--gpus="device={",".join(request.device_ids)}"'
        else:
            yield known if request.count < 0 else f"--gpus={request.count}"
    yield from (f"--device={device.path}" for device in host.devices or () if device.path)


def _published(host: HostConfig, port: str) -> tuple[str, int] | None:
    """Where the server is reached from outside; None when that is its own address."""
    bindings: Sequence[Any] = (host.port_bindings or {}).get(f"{port}/tcp") or ()
    binding = next((entry for entry in bindings if entry.host_port.isdecimal()), None)
    if binding is None:
        return None
    return binding.host_ip or _EVERYWHERE[1], int(binding.host_port)
