"""Every test in a home of its own, in English, without the network's proxies."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from wizard import i18n
from wizard.cli import options


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home: no test reads or writes the files of whoever runs it."""
    # Not `mktemp`: it reads the whole folder for a free number, and there are some thousand tests.
    home = Path(tempfile.mkdtemp(prefix="home-", dir=tmp_path_factory.getbasetemp()))
    monkeypatch.setenv("HOME", str(home))
    for name in (
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
        "SUDO_UID",
        "SUDO_GID",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in (
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "all_proxy",
        "NO_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in (
        "OPENCODE_CONFIG",
        "OPENCODE_CONFIG_CONTENT",
        "OPENCODE_CONFIG_DIR",
        "VLLM_API_KEY",
        "HF_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")
    i18n.use("en")
    options.use(options.CommonOptions(lang="en"))
    yield home
    i18n.use("en")
