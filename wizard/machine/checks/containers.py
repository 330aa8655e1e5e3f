"""Docker and Podman: whether they run for this user, and whether they hand out GPUs."""

from __future__ import annotations

import json
from collections.abc import Iterable

from wizard.i18n import _
from wizard.machine.checks.subject import Probe, Subject
from wizard.machine.types import Check
from wizard.text import one_line

_CDI_FOLDERS = ("etc/cdi", "var/run/cdi")
_INFO = ("docker", "info", "--format", "{{json .}}")


def docker(subject: Subject) -> Check:
    """Needed for the container routes only."""
    probe = subject.probe
    command = "docker info"
    if subject.machine.container:
        detail = _("Not looked at from inside a container.")
        return Check(id="docker", status="skip", detail=detail, command=command)
    if probe.which("docker") is None:
        detail = _("Docker is not installed; only vLLM in a container needs it.")
        return Check(id="docker", status="skip", detail=detail, command=command)
    outcome = probe.run(*_INFO)
    info = _decoded(outcome.output)
    refusal = one_line(" ".join((outcome.errors, outcome.cut_short, *map(str, _errors(info)))))
    if outcome.code != 0 or not info or _errors(info):
        return _not_reached(probe, refusal)
    version = one_line(str(info.get("ServerVersion") or "?"))
    if not subject.machine.gpus:
        detail = _("Docker {version}.").format(version=version)
        return Check(id="docker", status="ok", detail=detail, command=command)
    if _hands_out_gpus(info, probe):
        detail = _("Docker {version}, which can hand out GPUs.").format(version=version)
        return Check(id="docker", status="ok", detail=detail, command=command)
    return Check(
        id="docker",
        status="warn",
        detail=_("Docker {version} cannot hand out GPUs: NVIDIA's container toolkit is missing.").format(
            version=version
        ),
        hint=_(
            "Install nvidia-container-toolkit, then: sudo nvidia-ctk runtime configure --runtime=docker && "
            "sudo systemctl restart docker"
        ),
        command="docker info --format '{{json .Runtimes}}'; nvidia-ctk --version",
    )


def _not_reached(probe: Probe, refusal: str) -> Check:
    command = "docker info"
    if "permission denied" not in refusal.lower():
        return Check(
            id="docker",
            status="warn",
            detail=_("Docker is installed, but its service does not answer: {reason}").format(
                reason=refusal or "?"
            ),
            hint=_("Start it: sudo systemctl enable --now docker"),
            command=command,
        )
    user = probe.environ.get("USER") or "$USER"
    hint = _(
        "Once: sudo usermod -aG docker {user}; then log in again. Members of that group are as good as root."
    )
    if user in _members(probe, "docker"):
        hint = _("You are in the group docker, but this session is older: log out and in again.")
    detail = _("This user may not talk to Docker.")
    return Check(
        id="docker", status="warn", detail=detail, hint=hint.format(user=user), command="id -nG; docker info"
    )


def podman(subject: Subject) -> Check:
    """Podman knows GPUs through CDI files only."""
    probe = subject.probe
    if probe.which("podman") is None or subject.machine.container:
        detail = _("Podman is not installed; only vLLM in a container needs it or Docker.")
        if subject.machine.container:
            detail = _("Not looked at from inside a container.")
        return Check(id="podman", status="skip", detail=detail, command="podman --version")
    if not subject.machine.gpus or _has_cdi(probe):
        detail = _("Podman is here, with --device nvidia.com/gpu=all.")
        if not subject.machine.gpus:
            detail = _("Podman is here.")
        return Check(id="podman", status="ok", detail=detail, command="nvidia-ctk cdi list")
    return Check(
        id="podman",
        status="warn",
        detail=_("Podman is here, but no CDI file describes the GPUs."),
        hint=_(
            "Install nvidia-container-toolkit, then: "
            "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
        ),
        command="nvidia-ctk cdi list",
    )


def _hands_out_gpus(info: dict[str, object], probe: Probe) -> bool:
    runtimes = info.get("Runtimes")
    return (isinstance(runtimes, dict) and "nvidia" in runtimes) or _has_cdi(probe)


def _has_cdi(probe: Probe) -> bool:
    """Whether a CDI file of NVIDIA's is there."""
    for folder in _CDI_FOLDERS:
        try:
            names = [entry.name for entry in (probe.root / folder).iterdir()]
        except OSError:
            continue
        if any("nvidia" in name and name.endswith((".yaml", ".yml", ".json")) for name in names):
            return True
    return False


def _members(probe: Probe, group: str) -> Iterable[str]:
    """Who is in the group according to the file, whether this session knows it or not."""
    for line in (probe.text("etc/group") or "").splitlines():
        fields = line.split(":")
        if fields[0] == group and len(fields) > 3:
            return fields[3].split(",")
    return ()


def _decoded(output: str) -> dict[str, object]:
    try:
        info = json.loads(output)
    except ValueError:
        return {}
    return info if isinstance(info, dict) else {}


def _errors(info: dict[str, object]) -> list[object]:
    """What the daemon could not be asked; the client exits well all the same."""
    errors = info.get("ServerErrors")
    return errors if isinstance(errors, list) else []
