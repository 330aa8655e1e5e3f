"""Writing this machine down from the Machine screen, and from the numbered questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import journeys
import pytest
from textual.widgets import Input

from screens.checkwords import check_title
from screens.plain import PlainWizard
from screens.widgets.keybar import KeyButton
from screens.widgets.modals import AskModal, ErrorModal
from wizard.flow import Journey, Step, prepare
from wizard.machine import GpuReading, MemoryReading, Reading, load_machine
from wizard.machine.checks import run

OWNED = Reading(
    hostname="alice-workstation",
    arch="aarch64",
    os="DGX OS 7",
    gpus=(
        GpuReading(index=0, name="NVIDIA GB10", uuid="GPU-8f1c2a33", errors={"memory_mib": "NotSupported"}),
    ),
    memory=MemoryReading(total_mib=124610, available_mib=115787),
)
RECORDED = journeys.at(Step.MACHINE, answers=journeys.SIMULATED, machine=journeys.spark(simulated="gb10"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, still: pytest.MonkeyPatch) -> Path:
    """This host answers with a fixed reading; its home folder is empty."""
    folder = tmp_path / "home"
    folder.mkdir(exist_ok=True)
    still.setenv("HOME", str(folder))
    still.setattr(prepare, "read_host", lambda: OWNED)
    return folder


def is_ours(file: Path) -> bool:
    """Whether the file is a recording of this host that names nobody."""
    text = file.read_text()
    assert json.loads(text)["provenance"]["source"] == "vllm-opencode detect --record"
    assert load_machine(str(file)).gpus[0].name == "NVIDIA GB10"
    return "alice" not in text and "8f1c2a33" not in text


async def test_s_asks_where_and_says_where(opened: Any, see: Any, home: Path) -> None:
    journey = journeys.at(Step.MACHINE)
    async with opened(journey) as pilot:
        await see(pilot, "[s] save this machine")
        await pilot.press("s")
        await see(pilot, "Save this machine", "File to write", "~/machine.json")
        await pilot.press("enter")
        await see(pilot, "Saved in ~/machine.json. Read it before you send it.")
        assert pilot.app.screen.journey == journey
        assert is_ours(home / "machine.json")
        # The next one gets a name of its own.
        await pilot.press("s")
        await see(pilot, "~/machine-2.json")


async def test_esc_writes_nothing(opened: Any, see: Any, until: Any, home: Path) -> None:
    async with opened(journeys.at(Step.MACHINE)) as pilot:
        await pilot.press("s")
        await until(pilot, lambda: isinstance(pilot.app.screen, AskModal))
        await pilot.press("escape")
        await see(pilot, "[s] save this machine")
        assert not list(home.iterdir())


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("~/mine.json", "exists already and is not overwritten"),
        ("~/nowhere/m.json", "There is no folder"),
        ("~nobody-of-this-name/m.json", "there is no such user here"),
        ("/proc/m.json", "/proc"),
    ],
)
async def test_what_cannot_be_written_is_said_and_can_be_tried_again(
    opened: Any, see: Any, until: Any, home: Path, path: str, told: str
) -> None:
    (home / "mine.json").write_text("mine")
    async with opened(journeys.at(Step.MACHINE)) as pilot:
        await pilot.press("s")
        await until(pilot, lambda: isinstance(pilot.app.screen, AskModal))
        pilot.app.screen.query_one(Input).value = path
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ErrorModal))
        await see(pilot, "This did not work", told)
        await pilot.press("escape")
        await see(pilot, "[s] save this machine")
        assert [file.name for file in home.iterdir()] == ["mine.json"]
        assert (home / "mine.json").read_text() == "mine"


async def test_a_recorded_machine_is_not_saved_again(opened: Any, see: Any) -> None:
    async with opened(RECORDED) as pilot:
        await see(pilot, "[r] look again")
        assert not pilot.app.screen.query_one("#key-save", KeyButton).display
        await pilot.press("s")
        assert not isinstance(pilot.app.screen, AskModal)


async def test_all_keys_fit_where_nothing_can_be_used(opened: Any, see: Any) -> None:
    async with opened(journeys.at(Step.MACHINE, machine=journeys.spark(gpus=()))) as pilot:
        await see(pilot, "[s] save this machine", "[p] practise on a recorded machine")
        assert all(button.region.right <= 80 for button in pilot.app.screen.query(KeyButton))


def walk(journey: Journey, *answers: str) -> list[str]:
    """What the numbered questions write and ask, until nothing more is answered."""
    lines: list[str] = []
    given = iter((*answers, "q"))

    def read(question: str) -> str:
        lines.append(question)
        return next(given)

    PlainWizard(journey, read, lines.append).run()
    return lines


def test_the_questions_offer_it_too(home: Path) -> None:
    lines = walk(journeys.at(Step.MACHINE), "3", "", "3", "~/machine.json", "1", "3", "~/other.json")
    assert "3. Save this machine for others to rehearse on" in lines
    assert "File to write [~/machine.json]: " in lines
    assert any(line.startswith("Saved in ~/machine.json.") for line in lines)
    assert any("exists already and is not overwritten" in line for line in lines)
    assert is_ours(home / "machine.json")
    assert is_ours(home / "other.json")


def test_the_questions_do_not_offer_it_on_a_recorded_machine() -> None:
    assert not any("Save this machine" in line for line in walk(RECORDED))


def test_every_check_has_a_name() -> None:
    """Nothing is shown under an id that only a program could have made."""
    ids = [*run._OF_THE_MACHINE, *run._OF_THIS_HOST]
    assert [id for id in ids if "-" in id and check_title(id) == id] == []
