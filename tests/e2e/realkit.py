"""Installs the real programs of the end-to-end tests: vLLM's CPU build and opencode.

Both go into a cache folder (`VLLM_OPENCODE_E2E_CACHE`, else `.cache/e2e` in the repository), some 4 GB
with a CPU build of torch, and are installed once: a stamp file written last holds the recipe, so an
interrupted install or one of other versions is redone, and a lock lets a second test run wait for the first
one's install.

Run as a script it installs and names the two programs: `python tests/e2e/realkit.py`.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackagePath, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
CACHE_VARIABLE = "VLLM_OPENCODE_E2E_CACHE"
STAMP = "complete.json"
STEPS = 1
"""Raised when the steps of an install change, so that older installs are made anew."""
STEP_SECONDS = 1800.0
PROBE_SECONDS = 120.0


class NotInstallable(Exception):
    """A real program cannot be had here; the message says which one, why, and where the log is."""


@dataclass(frozen=True)
class RealKit:
    """The installed programs, as absolute paths."""

    vllm: Path
    """vLLM's command."""
    vllm_python: Path
    """The interpreter of vLLM's environment: it has tokenizers, safetensors and numpy."""
    opencode: Path
    """opencode's own binary, not npm's launcher."""


def cache_folder() -> Path:
    """Where the programs and the checkpoints made for them are kept; the same name over any symbolic link."""
    chosen = os.environ.get(CACHE_VARIABLE, "")
    return (Path(chosen).expanduser() if chosen else REPOSITORY / ".cache" / "e2e").resolve()


def install() -> RealKit:
    """Installs what is missing and returns the programs.

    Raises NotInstallable with the reason: another system than 64-bit Linux, no npm, an installer that failed.
    """
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        raise NotInstallable(
            f"vLLM's CPU build is for 64-bit Linux; this is {sys.platform} {platform.machine()}"
        )
    versions = tomllib.loads((HERE / "versions.toml").read_text())
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "install.lock"):
        packages = once(cache / "opencode", versions["opencode"], _install_opencode)
        environment = once(cache / "vllm", versions["vllm"], _install_vllm)
    return RealKit(
        vllm=environment / "bin" / "vllm",
        vllm_python=environment / "bin" / "python",
        opencode=_opencode_binary(packages, versions["opencode"]),
    )


def vllm_source(kit: RealKit) -> Path:
    """The unpacked source distribution of vLLM, templates and documents only. Raises NotInstallable."""
    versions = tomllib.loads((HERE / "versions.toml").read_text())
    recipe = {**versions["vllm_source"], "python": str(kit.vllm_python)}
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "install.lock"):
        return once(cache / "vllm-source", recipe, _fetch_source)


def _fetch_source(folder: Path, recipe: Mapping[str, Any]) -> None:
    """pip asks a source distribution for its metadata before it keeps it: that takes the build's own tools.

    They go into a folder of their own beside the torch of vLLM's environment, which stays as it is.
    """
    tools, python = folder / "tools", recipe["python"]
    pip = [python, "-m", "pip", "--no-input", "--disable-pip-version-check"]
    _step(
        folder,
        "the tools for vLLM's source",
        [*pip, "install", "--quiet", "--target", str(tools), *recipe["build_tools"]],
    )
    wanted = f"{recipe['distribution']}=={recipe['version']}"
    variables = ["VLLM_TARGET_DEVICE=empty", f"VLLM_VERSION_OVERRIDE={recipe['version']}"]
    fetch = [*pip, "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
    _step(
        folder,
        "vLLM's source",
        ["env", f"PYTHONPATH={tools}", *variables, *fetch, "--dest", str(folder), wanted],
    )
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        kept = [member for member in source if member.name.endswith(".jinja")]
        source.extractall(folder, members=kept, filter="data")
    archive.unlink()
    shutil.rmtree(tools)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock; the system frees it when the process ends, however it ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def once(folder: Path, recipe: Mapping[str, Any], build: Callable[[Path, Mapping[str, Any]], None]) -> Path:
    """Builds `folder` unless its stamp shows the same recipe, Python, place and steps."""
    wanted = json.dumps(
        {"recipe": recipe, "python": sys.version, "place": str(folder), "steps": STEPS}, sort_keys=True
    )
    stamp = folder / STAMP
    if stamp.is_file() and stamp.read_text() == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    build(folder, recipe)
    stamp.write_text(wanted)
    return folder


def _install_vllm(folder: Path, recipe: Mapping[str, Any]) -> None:
    """An environment of its own with torch, vLLM without its pins, then its other requirements."""
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--no-input", "--progress-bar", "off"]
    _step(folder, "an environment for vLLM", [sys.executable, "-m", "venv", str(folder)])
    _step(folder, "torch", [*pip, f"torch=={recipe['torch']}"])
    _step(folder, "vLLM", [*pip, "--no-deps", f"{recipe['distribution']}=={recipe['version']}"])
    needed = folder / "requirements.txt"
    needed.write_text("\n".join(_requirements(folder, recipe)) + "\n")
    _step(folder, "vLLM's requirements", [*pip, "-r", str(needed)])
    _name_as_vllm(folder, recipe)
    _step(folder, "a first start of vLLM", [str(folder / "bin" / "vllm"), "--version"])


def _site_packages(folder: Path) -> Path:
    """The package folder of an environment made by this very Python."""
    return folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def _requirements(folder: Path, recipe: Mapping[str, Any]) -> list[str]:
    """What the installed vLLM asks for on this machine, without extras and without `recipe["without"]`."""
    name = recipe["distribution"]
    (found,) = distributions(name=name, path=[str(_site_packages(folder))])
    asked = [Requirement(text) for text in found.requires or ()]
    return [
        str(one)
        for one in asked
        if one.name.lower() not in recipe["without"]
        and (one.marker is None or one.marker.evaluate({"extra": ""}))
    ]


def _name_as_vllm(folder: Path, recipe: Mapping[str, Any]) -> None:
    """Adds a second metadata folder under the name `vllm`.

    vLLM asks the metadata of `vllm` for its version and finds the CPU platform by the `cpu` in it; the
    repackaged distribution has another name. The command's entry point stays with the first one.
    """
    target = _site_packages(folder) / f"vllm-{recipe['version']}+cpu.dist-info"
    target.mkdir()
    (target / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {recipe['version']}+cpu\n")
    (target / "INSTALLER").write_text("realkit\n")
    own = [PackagePath(target.name, name) for name in ("METADATA", "INSTALLER", "RECORD")]
    (target / "RECORD").write_text("".join(f"{path},,\n" for path in own))


def _install_opencode(folder: Path, recipe: Mapping[str, Any]) -> None:
    """opencode from npm; its post-install script only links the platform's binary and is not needed."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstallable("opencode is installed with npm, and there is no `npm` on the path")
    package = f"{recipe['package']}@{recipe['version']}"
    _step(folder, "opencode", [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), package])
    _opencode_binary(folder, recipe)


def _opencode_binary(folder: Path, recipe: Mapping[str, Any]) -> Path:
    """The first platform binary that starts here and says the pinned version."""
    seen = []
    names: list[str] = recipe["platforms"]
    for name in names:
        binary = folder / "node_modules" / name / "bin" / "opencode"
        if not binary.is_file():
            continue
        with tempfile.TemporaryDirectory() as home:
            environment = {"PATH": os.environ.get("PATH", ""), "HOME": home}
            try:
                reply = subprocess.run(
                    [str(binary), "--version"],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=PROBE_SECONDS,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                seen.append(f"{name}: {error}")
                continue
        if reply.returncode == 0 and reply.stdout.strip() == recipe["version"]:
            return binary
        seen.append(f"{name}: exit {reply.returncode}, {(reply.stdout or reply.stderr).strip()[:200]}")
    raise NotInstallable(
        f"no opencode binary under {folder} runs here: {'; '.join(seen) or 'none installed'}"
    )


def _step(folder: Path, what: str, command: Sequence[str]) -> None:
    """Runs one step of an install, its output in a log; raises NotInstallable with the log's end."""
    log = folder.parent / f"install-{folder.name}.log"
    with log.open("ab") as file:
        file.write(f"\n$ {' '.join(command)}\n".encode())
        file.flush()
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=STEP_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotInstallable(f"installing {what} failed: {error} (log: {log})") from error
    if done.returncode != 0:
        end = " | ".join(log.read_text(errors="replace").strip().splitlines()[-4:])
        raise NotInstallable(f"installing {what} failed with exit code {done.returncode}: {end} (log: {log})")


if __name__ == "__main__":
    try:
        kit = install()
    except NotInstallable as reason:
        sys.exit(f"realkit: {reason}")
    sys.stdout.write(f"vllm      {kit.vllm}\nopencode  {kit.opencode}\n")
