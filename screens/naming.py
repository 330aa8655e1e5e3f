"""A model outside the table: asked for, read, shown with what was found, and only then taken."""

from __future__ import annotations

import asyncio
import threading

from screens import model_words
from screens.base import StepScreen
from screens.lookups import tool_parsers
from screens.widgets.derived import DerivedModal
from screens.widgets.modals import AskModal, DecideModal, PickModal
from screens.widgets.status import Status
from wizard import flow
from wizard.errors import UnknownParserError, WizardError
from wizard.flow import Cancelled, Journey
from wizard.i18n import _


async def name_model(screen: StepScreen) -> Journey | None:
    """A journey with the model somebody named; None: they left it. What stood on the screen stays until then.

    Must be called from a worker of the screen.
    """
    wanted = screen.journey.answers.model
    text, parser, problem = wanted.path or wanted.id or "", "auto", ""
    while True:
        if parser == "auto":
            typed = await _asked(screen, text, problem)
            if typed is None:
                return None
            text = typed
        try:
            found = await _read(screen, flow.name_model(screen.journey, text, parser))
        except Cancelled as error:
            screen.query_one(Status).end(error.message)
            return None
        except UnknownParserError as error:
            named = await _which_parser(screen, error)
            if named is None:
                return None
            parser = named
        except WizardError as error:
            parser, problem = "auto", "\n".join((error.message, error.hint)).strip()
        else:
            title = _("What is known of {model}").format(model=text)
            lines = model_words.derived(flow.need(found.choice))
            taken = await screen.app.push_screen_wait(DerivedModal(title, lines))
            return found if taken == "take" else None


async def _asked(screen: StepScreen, text: str, problem: str) -> str | None:
    question = _("Name on the hub (owner/name), or a folder")
    given = await screen.app.push_screen_wait(
        AskModal(_("Another model"), ((question, text),), problem=problem)
    )
    return given[0] if given else None


async def _read(screen: StepScreen, named: Journey) -> Journey:
    """Read it, in a thread that ends when the screen's ``cancel`` is set. Raises as ``choose_model``."""
    status = screen.query_one(Status)
    screen.cancel = threading.Event()
    status.begin(_("Reading what this model is…"))
    try:
        return await asyncio.to_thread(flow.choose_model, named, screen.cancel)
    finally:
        status.end()


async def _which_parser(screen: StepScreen, error: UnknownParserError) -> str | None:
    """The parser somebody picks for a model that does not tell its own."""
    known = tool_parsers(screen.journey)
    advice = _(
        "Choose one of the {count} that this vLLM knows. Once the model runs, step Smoke test says whether "
        "it reads the model's calls."
    ).format(count=len(known))
    answers = {"list": _("Choose a parser"), "leave": _("Back to the table")}
    question = f"{error.message}\n\n{advice}"
    window = DecideModal(_("Which parser reads its tool calls?"), question, answers)
    if await screen.app.push_screen_wait(window) != "list":
        return None
    return await screen.app.push_screen_wait(PickModal(_("Tool-call parser"), known))
