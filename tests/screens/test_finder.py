"""The finder's window at 80x24: what is in it, and what its keys answer."""

from __future__ import annotations

import pytest
from textual.app import App

from screens.widgets.finder import FinderModal, ParserTable, outcome_lines, raw_lines
from wizard.plan import PlanEdit
from wizard.smoke.finder import Advice, Candidate, ParserSearch

RAW = '<tool_call>\n{"name": "add", "arguments": {"a": 17, "b": 25}}\n</tool_call>'
SEARCH = ParserSearch(
    raw=RAW,
    way="completions",
    decided_by="installed vLLM",
    candidates=(
        Candidate(parser="hermes", extracted=True, ok=True, detail='add {"a": 17, "b": 25}'),
        Candidate(parser="xlam", extracted=True, ok=False, detail="Only a streamed answer gives a call."),
        Candidate(parser="mistral", extracted=False, ok=False, detail="It sees no call."),
    ),
    best="hermes",
)
EDIT = PlanEdit(origin="parser finder", title="hermes", set={"--tool-call-parser": "hermes"})


async def answered(search: ParserSearch, edit: PlanEdit | None, *keys: str) -> tuple[str, object]:
    """What the window shows, and what it answers to keys."""
    answers: list[object] = []
    app: App[None] = App()
    async with app.run_test(size=(80, 24)) as pilot:
        modal = FinderModal(search, edit)
        app.push_screen(modal, answers.append)
        await pilot.pause()
        table = modal.query_one(ParserTable)
        rows = [" ".join(str(cell) for cell in table.get_row_at(row)) for row in range(table.row_count)]
        await pilot.press(*keys)
        await pilot.pause()
    return "\n".join(rows), answers[0]


async def test_enter_uses_the_parser_that_fits() -> None:
    rows, answer = await answered(SEARCH, EDIT, "enter")
    assert answer == "start"
    assert "OK hermes" in rows
    assert "xlam" in rows
    assert "mistral" not in rows


@pytest.mark.parametrize(("keys", "answer"), [(("tab", "enter"), "leave"), (("escape",), None)])
async def test_it_can_be_left(keys: tuple[str, ...], answer: str | None) -> None:
    assert (await answered(SEARCH, EDIT, *keys))[1] == answer


async def test_without_an_edit_there_is_nothing_to_start() -> None:
    assert (await answered(SEARCH, None, "enter"))[1] == "leave"


def test_the_outcome_names_the_change_or_the_ways_on() -> None:
    assert "+ --tool-call-parser hermes" in outcome_lines(SEARCH, EDIT)
    advice = Advice(id="swap-model", title="Another model", detail="Qwen3-Coder-30B-A3B")
    none = ParserSearch(
        raw=RAW,
        way="text",
        decided_by="wire-format table",
        candidates=(),
        best=None,
        advice=(advice,),
        notes=("By the table.",),
    )
    assert outcome_lines(none, None) == (
        "No tool-call parser fits.",
        "0 parsers find no call in it.",
        "- Another model: Qwen3-Coder-30B-A3B",
        "By the table.",
    )


async def test_what_the_model_wrote_is_no_markup() -> None:
    search = ParserSearch(
        raw="[red]\x1b[31m<tools>[/red]",
        way="text",
        decided_by="installed vLLM",
        candidates=(Candidate(parser="[b]x", extracted=True, ok=False, detail="[/] no"),),
        best=None,
    )
    rows, _answer = await answered(search, None, "escape")
    assert "[b]x" in rows
    assert "[/] no" in rows
    assert "  [red]<tools>[/red]" in raw_lines(search)
