"""The real vLLM, the real opencode, and tiny checkpoints for them.

Not part of a plain `pytest`: name this folder, `pytest tests/e2e`. The first run installs some 4 GB.
Where that is not possible the tests are skipped with the reason; with `CI=true` they fail instead.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from realkit import NotInstallable, RealKit, install
from serving import Pairing, RunningServer, vllm_server

HERE = Path(__file__).parent
LONGEST_FIRST = ("cures", "chain", "hermes", "qwen3_coder", "tools_tag", "think_hermes", "test_planning")
"""Where groups of tests begin, the long ones; so two workers end at about the same time."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Tests that share a server follow each other, and stay together where several workers share the tests.

    A group is what a test's `xdist_group` names, else the pairing it wants served, else its file.
    """
    ours = [item for item in items if item.path.parent == HERE]
    for item in ours:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(_group(item)))
    yield
    items.sort(key=lambda item: _rank(item) if item.path.parent == HERE else (0, ""))


def _group(item: pytest.Item) -> str:
    pairing = item.callspec.params.get("pairing") if hasattr(item, "callspec") else None
    return str(pairing) if pairing else item.path.stem


def _rank(item: pytest.Item) -> tuple[int, str]:
    """The place of a test's group among all."""
    mark = item.get_closest_marker("xdist_group")
    assert mark is not None
    group = str(mark.args[0])
    places = [place for place, start in enumerate(LONGEST_FIRST, 1) if group.startswith(start)]
    return (places[0] if places else len(LONGEST_FIRST) + 1), group


@pytest.fixture(scope="session")
def realkit() -> RealKit:
    """The installed programs."""
    try:
        return install()
    except NotInstallable as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def checkpoints(realkit: RealKit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one checkpoint for each wire format, in subfolders of their names."""
    folder = tmp_path_factory.mktemp("checkpoints")
    subprocess.run(
        [str(realkit.vllm_python), str(HERE / "checkpoints.py"), str(folder)], check=True, timeout=120
    )
    return folder


@pytest.fixture(scope="session")
def pairing(request: pytest.FixtureRequest) -> Pairing:
    """What is served: a test names it by an indirect parameter."""
    named: Pairing = request.param
    return named


@pytest.fixture(scope="session")
def running(
    pairing: Pairing, realkit: RealKit, checkpoints: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """The one server of a pairing, for the tests of all files; it ends when a test wants another pairing."""
    log = tmp_path_factory.mktemp(str(pairing)) / "vllm.log"
    with vllm_server(realkit, checkpoints / pairing.wire_format, "tiny", pairing.flags, log) as server:
        yield server
