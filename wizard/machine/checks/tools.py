"""Programs and headers on this host, and which feature of vLLM needs which."""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

from packaging.version import Version

from wizard.catalog import host_facts
from wizard.i18n import _
from wizard.machine.checks.subject import Probe, Subject, newest_for
from wizard.machine.types import Check
from wizard.text import one_line

_COMPILERS = ("gcc", "cc", "clang")
"""As Triton looks for one."""
_INSTALLERS = ("uv", "pipx", "pip", "pip3")
_LIBRARY_FOLDERS = ("usr/lib", "usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib64")
_ASK_FOR_HEADERS = "import sysconfig; print(sysconfig.get_path('include'))"
_RELEASE = re.compile(r"release (\d+\.\d+)")


def python(subject: Subject) -> Check:
    """Whether the newest vLLM could be installed with this interpreter; uv can fetch another."""
    found, known = (
        f"{sys.version_info.major}.{sys.version_info.minor}",
        newest_for(host_facts().python, subject.machine),
    )
    words = {"found": found, "floor": known.floor, "below": known.below, "version": known.since}
    fits = Version(known.floor) <= Version(found) < Version(known.below)
    text = _("Python {found}; vLLM from {version} on takes {floor} or newer, below {below}.").format(**words)
    if fits:
        return Check(id="python", status="ok", detail=text, command="python3 --version")
    hint = _("Let uv fetch one for vLLM: uv venv --python 3.12")
    if subject.probe.which("uv") is None:
        hint = _("Install uv (https://docs.astral.sh/uv), and let it fetch one: uv venv --python 3.12")
    return Check(id="python", status="warn", detail=text, hint=hint, command="python3 --version")


def compiler(subject: Subject) -> Check:
    """A C compiler and Python's headers: Triton compiles a small launcher for every model."""
    probe = subject.probe
    named = probe.environ.get("CC") or next((name for name in _COMPILERS if probe.which(name)), None)
    headers = _headers_folder(probe, subject.python) / "Python.h"
    command = f"{named or 'gcc'} --version; ls {headers}"
    missing = []
    if named is None:
        missing.append(_("a C compiler"))
    if not probe.exists(str(headers).lstrip("/")):
        missing.append(_("the headers of this Python (Python.h)"))
        if subject.python is not None:
            missing[-1] = _("the headers of vLLM's Python ({file})").format(file=one_line(str(headers)))
    if not missing:
        detail = _("C compiler {name} and Python's headers, with which Triton builds its kernels.")
        return Check(
            id="compiler", status="ok", detail=detail.format(name=one_line(named or "")), command=command
        )
    return Check(
        id="compiler",
        status="warn",
        detail=_("Missing: {what}. Triton needs them at vLLM's first start.").format(what=", ".join(missing)),
        hint=_(
            "On Ubuntu: sudo apt install build-essential python3-dev. A Python that uv fetched has its "
            "headers."
        ),
        command=command,
    )


def _headers_folder(probe: Probe, python: str | None) -> Path:
    """Where a Python, or this one, has its headers; this one's, too, for one that does not answer."""
    if python is not None:
        outcome = probe.run(python, "-I", "-c", _ASK_FOR_HEADERS)
        if outcome.code == 0 and outcome.output.startswith("/"):
            return Path(outcome.output.strip())
    return Path(sysconfig.get_path("include"))


def nvcc(subject: Subject) -> Check:
    """CUDA's compiler and ninja: FlashInfer compiles its kernels with them."""
    probe = subject.probe
    found, ninja = _find_nvcc(probe), probe.which("ninja")
    command = "nvcc --version; ninja --version"
    if found is None or ninja is None:
        absent = ", ".join(name for name, path in (("nvcc", found), ("ninja", ninja)) if path is None)
        return Check(
            id="nvcc",
            status="warn",
            detail=_(
                "Missing: {what}. vLLM then does without FlashInfer's kernels; older versions stop at the "
                "start."
            ).format(what=absent),
            hint=_(
                "Install the CUDA toolkit and ninja-build, or use vLLM's container, or: vllm download-kernels"
            ),
            command=command,
        )
    release = _RELEASE.search(probe.run(found, "--version").output)
    version = release[1] if release else None
    facts = host_facts().nvcc
    newest = max((gpu.capability for gpu in subject.machine.gpus), default=0)
    if version and newest >= facts.blackwell_capability and Version(version) < Version(facts.blackwell_floor):
        detail = _("nvcc {version} is too old for these GPUs, which need {floor}.")
        return Check(
            id="nvcc",
            status="warn",
            detail=detail.format(version=version, floor=facts.blackwell_floor),
            hint=_("Install a newer CUDA toolkit and point CUDA_HOME to it."),
            command=command,
        )
    detail = _("nvcc {version} and ninja, with which FlashInfer builds its kernels.")
    return Check(id="nvcc", status="ok", detail=detail.format(version=version or "?"), command=command)


def _find_nvcc(probe: Probe) -> str | None:
    """Where FlashInfer looks: CUDA_HOME, CUDA_PATH, the path, and the usual folder."""
    homes = [probe.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if probe.environ.get(name)]
    for home in (*homes, "/usr/local/cuda"):
        path = Path(home) / "bin" / "nvcc"
        if probe.exists(str(path).lstrip("/")):
            return str(path)
    return probe.which("nvcc")


def numa(subject: Subject) -> Check:
    """libnuma and numactl, which two features want and nothing else does."""
    probe = subject.probe
    library = any(probe.exists(f"{folder}/libnuma.so.1") for folder in _LIBRARY_FOLDERS)
    missing = [name for name, here in (("libnuma", library), ("numactl", probe.which("numactl"))) if not here]
    command = "ldconfig -p | grep libnuma; numactl --version"
    if not missing:
        return Check(id="numa", status="ok", detail=_("libnuma and numactl are here."), command=command)
    detail = _(
        "Missing: {what}. Only vLLM's --numa-bind (numactl) and fastsafetensors (libnuma) need it."
    ).format(what=", ".join(missing))
    return Check(id="numa", status="ok", detail=detail, command=command)


def installer(subject: Subject) -> Check:
    """Something to install vLLM with. A shell without login often lacks ``~/.local/bin`` on its path."""
    probe = subject.probe
    found = [name for name in _INSTALLERS if probe.which(name)]
    local = f"{probe.environ.get('HOME', '')}/.local/bin/uv".lstrip("/")
    if "uv" not in found and probe.exists(local):
        found.insert(0, "~/.local/bin/uv")
    command = "uv --version; pip --version"
    if found:
        detail = _("Installers: {names}.").format(names=", ".join(found))
        return Check(id="installer", status="ok", detail=detail, command=command)
    return Check(
        id="installer",
        status="warn",
        detail=_("Neither uv nor pip is here."),
        hint=_(
            "Install uv: https://docs.astral.sh/uv; or on Ubuntu: sudo apt install python3-venv python3-pip"
        ),
        command=command,
    )
