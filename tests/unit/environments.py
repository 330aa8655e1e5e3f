"""Environments with made-up packages in vLLM's and PyTorch's place, run by this very Python."""

from __future__ import annotations

import sys
import sysconfig
import textwrap
from pathlib import Path

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"


class Environment:
    """A virtual environment, or a conda environment by its looks, with a ``vllm`` program that never runs."""

    def __init__(self, home: Path, *, conda: bool = False) -> None:
        self.home = home
        (home / "bin").mkdir(parents=True)
        if conda:
            (home / "conda-meta").mkdir()
        # Python itself only knows virtual environments; a real conda environment brings its own Python.
        (home / "pyvenv.cfg").write_text(f"home = {sysconfig.get_config_var('BINDIR')}\n")
        self.python = home / "bin" / "python"
        self.python.symlink_to(Path(sys.executable).resolve())
        self.site = home / "lib" / VERSION / "site-packages"
        self.site.mkdir(parents=True)
        self.program = self.script(f"#!{home}/bin/python\nprint('never run')\n")

    def script(self, text: str, name: str = "vllm") -> Path:
        program = self.home / "bin" / name
        program.write_text(text)
        program.chmod(0o755)
        return program

    def module(self, name: str, source: str) -> None:
        """A package, with every package above it."""
        folder = self.site.joinpath(*name.split("."))
        folder.mkdir(parents=True, exist_ok=True)
        for package in [folder, *folder.parents]:
            if package == self.site:
                break
            (package / "__init__.py").touch()
        (folder / "__init__.py").write_text(textwrap.dedent(source))

    def distribution(self, name: str, version: str, entry_points: str = "") -> None:
        folder = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if entry_points:
            (folder / "entry_points.txt").write_text(textwrap.dedent(entry_points))

    def torch(self, version: str, cuda: str | None) -> None:
        """A PyTorch that cannot be imported: only its version file may be read."""
        self.module("torch", "raise ImportError('libcudart.so.13: cannot open shared object file')")
        (self.site / "torch" / "version.py").write_text(f"__version__ = {version!r}\ncuda = {cuda!r}\n")
