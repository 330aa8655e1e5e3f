"""The real opencode finishes a long job in small and large windows, with exactly the file that is written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from realkit import RealKit
from serving import run_opencode
from strict_server import Call, StrictServer, strict_server

from wizard.budget import limits
from wizard.opencode import ConfigRequest, opencode_version, plan_change, target_file, write_change

WINDOWS = {16384: False, 32768: False, 65536: False, 131072: False, 12288: True}
"""Windows, and whether the tools a coding job can do without are denied."""
STEPS = 14
LINE = "    total = total + values[index] * weights[index]  # line {number}\n"


def job(window: int, trimmed: bool, kit: RealKit, version: str | None, folder: Path) -> StrictServer:
    """Print long files and read short ones in one session; the state of the server afterwards.

    What a command prints is cut to the size that is written; the tool that reads files has its own cap.
    """
    work, home = folder / "project", folder / "home"
    work.mkdir(parents=True)
    home.mkdir()
    calls: list[Call] = []
    for number in range(STEPS):
        file = work / f"part_{number:02}.py"
        long = number % 2 == 0
        file.write_text("".join(LINE.format(number=line) for line in range(900 if long else 40)))
        if long:
            calls.append(("bash", {"command": f"cat {file.name}", "description": "Print a part"}))
        else:
            calls.append(("read", {"filePath": str(file)}))
    with strict_server(window, tuple(calls)) as server:
        request = ConfigRequest(
            provider_name="Strict",
            base_url=server.base_url,
            model_key="strict",
            model_name="Strict",
            limits=(found := limits(window, trim_tools=trimmed, opencode_version=version)),
            globals=True,
            denied_tools=found.denied_tools,
            opencode_version=version,
        )
        assert not found.refused, found.warnings
        target = target_file(path=home / ".config" / "opencode" / "opencode.json")
        write_change(plan_change(request, target))
        done = run_opencode(kit, home, work, "vllm/strict", "Look at every part, one after the other.")
    assert done.returncode == 0, (window, done.stderr[-2000:], server.refused[:2])
    return server


@pytest.fixture(scope="module")
def ran(realkit: RealKit, tmp_path_factory: pytest.TempPathFactory) -> dict[int, StrictServer]:
    """All windows, two at a time."""
    version = opencode_version(str(realkit.opencode))
    folder = tmp_path_factory.mktemp("windows")
    with ThreadPoolExecutor(2) as pool:
        started = {
            window: pool.submit(job, window, trimmed, realkit, version, folder / str(window))
            for window, trimmed in WINDOWS.items()
        }
        return {window: future.result() for window, future in started.items()}


@pytest.mark.parametrize("window", WINDOWS)
def test_a_job_of_many_steps_is_finished_without_a_refusal(ran: dict[int, StrictServer], window: int) -> None:
    server = ran[window]
    assert server.refused == []
    assert server.main > STEPS, "every call was made, and the end was told"
    assert server.main <= 2 * STEPS, "it did not run in circles"
    assert server.largest < window


def test_a_small_window_was_really_filled(ran: dict[int, StrictServer]) -> None:
    """Without tidying up it would not have fitted: the title is the first request without tools."""
    assert ran[16384].summaries > 2
    assert ran[131072].summaries >= 1
