"""The real vLLM, the real opencode, and tiny checkpoints for them.

Not part of a plain `pytest`: name this folder, `pytest tests/e2e`. The first run installs some 4 GB.
Where that is not possible the tests are skipped with the reason; with `CI=true` they fail instead.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from realkit import NotInstallable, RealKit, install


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
    script = Path(__file__).parent / "checkpoints.py"
    subprocess.run([str(realkit.vllm_python), str(script), str(folder)], check=True, timeout=120)
    return folder
