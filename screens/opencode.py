"""Step opencode: the change of its configuration as a diff, written when asked, then proved."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from screens import results
from screens.base import COMMON_KEYS, StepScreen
from screens.widgets.diff import coloured
from screens.widgets.fields import Tick
from screens.widgets.modals import AskModal
from wizard import flow
from wizard.flow import Journey, Step
from wizard.i18n import N_, _


class OpencodeScreen(StepScreen, inherit_bindings=False):
    """What is written for opencode, and whether it works."""

    STEP = Step.OPENCODE
    HEADLINE = N_("What opencode is told")
    HELP = N_(
        "The lines marked + are added to opencode's configuration, those marked - are replaced; everything "
        "else of yours is kept as it is, comments included. The file is copied first; undo puts it back. "
        "The ticks touch all your providers, so they are yours to give; in a new file what touches "
        "all of them is ticked beforehand, since no settings of yours are in it. "
        "Enter writes; then the real opencode, if it is installed, says how it reads the file and performs "
        "a tool call with it. ? says why each key is set."
    )
    CSS_PATH = "opencode.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,w", "write", N_("write and prove"), id="write"),
        Binding("r", "again", N_("prove"), id="again"),
        Binding("space", "tick", N_("tick"), id="tick"),
        Binding("k", "key", N_("where the key is"), id="key"),
        Binding("i", "install", N_("install opencode"), id="install"),
        Binding("s", "skip", N_("skip"), id="skip"),
        *COMMON_KEYS,
    ]

    def __init__(self, journey: Journey) -> None:
        super().__init__(journey)
        self._prove_next = False

    def compose_body(self) -> ComposeResult:
        """Where, the diff, the ticks, and the proof."""
        wanted = self.journey.answers.opencode
        yield Static(id="where", markup=False)
        with VerticalScroll(id="diff-pane"):
            yield Static(id="diff", markup=False)
        yield Tick(_("make it the default model"), wanted.default_model, id="default_model")
        yield Tick(self._everyone(), wanted.globals == "yes", id="globals")
        private = _("nothing leaves the house (share, updates, web tools off)")
        yield Tick(private, wanted.private, id="private")
        yield Tick(_("for the project in this folder only"), wanted.project is not None, id="project")
        yield Static(id="proof", markup=False)

    def begin(self) -> None:
        """Plan the change, unless that was done before."""
        self.query_one("#project").display = flow.project_folder(self.journey) is not None
        if self.journey.change is None:
            self._plan()

    def _plan(self) -> None:
        unproven = Step.SMOKE in self.journey.skipped
        self.perform(
            _("Reading opencode's configuration…"),
            lambda journey: flow.plan_configuration(journey, unproven=unproven),
        )

    @on(Tick.Changed)
    def _ticked(self) -> None:
        """Other wishes make another change."""
        ticks = {tick.id: tick.ticked for tick in self.query(Tick)}
        wanted = msgspec.structs.replace(
            self.journey.answers.opencode,
            default_model=ticks["default_model"],
            globals="yes" if ticks["globals"] else "no",
            private=ticks["private"],
            project=flow.project_folder(self.journey) if ticks["project"] else None,
        )
        self.journey = flow.answer(self.journey, Step.OPENCODE, opencode=wanted)
        self._plan()

    def action_tick(self) -> None:
        """Space outside the ticks goes to the first of them."""
        self.query_one("#default_model", Tick).focus()

    def show(self) -> None:
        """Draw the change and the proof."""
        change, proof = self.journey.change, self.journey.proof
        if change is None:
            return
        self.query_one("#where", Static).update("\n".join(results.change_lines(change)))
        self.query_one("#diff", Static).update(coloured(change.diff or _("Nothing has to be changed.")))
        everyone = self.query_one("#globals", Tick)
        everyone.words = self._everyone()
        if self.journey.answers.opencode.globals == "ask":
            everyone.ticked = change.sets_globals
        for tick in self.query(Tick):
            tick.disabled = change.written
        lines = [_("WRITTEN to {path}").format(path=change.path)] if change.written else []
        lines += results.confirmed_lines(change)
        lines += results.proof_lines(proof) if proof else ()
        self.query_one("#proof", Static).update("\n".join(lines))

    def _everyone(self) -> str:
        """What the second tick sets; where it is ticked beforehand, why."""
        change = self.journey.change
        if change is not None and change.action == "created":
            return _("also set what touches all providers (new file: nothing of yours in it)")
        return _("also set what touches all providers (tidying up, tool output)")

    def reasons(self) -> tuple[str, ...]:
        """Why each key is set, and what is still contacted."""
        return () if self.journey.change is None else results.why_lines(self.journey.change)

    @work
    async def action_key(self) -> None:
        """Where opencode finds the server's key; the key itself is in no configuration."""
        known = next(filter(None, flow.key_places(self.journey.answers)), "")
        question = _("A file that holds the key, or the name of a variable")
        given = await self.app.push_screen_wait(
            AskModal(_("Where opencode finds the key"), ((question, known),))
        )
        if given is not None:
            self.journey = flow.name_key(self.journey, given[0])
            self._plan()

    def action_install(self) -> None:
        """Bring opencode here; then let it prove what is written."""
        self._prove_next = self._in_place()
        self.perform(
            _("npm installs opencode, some 200 MB…"),
            lambda journey: flow.install_client(journey, self.cancel),
        )

    def action_write(self) -> None:
        """Write the file; the proof comes after it."""
        self._prove_next = self.journey.answers.opencode.proof
        self.perform(_("Writing…"), flow.write_configuration)

    def action_again(self) -> None:
        """Let the real opencode try."""
        self.perform(_("opencode performs a tool call…"), lambda journey: flow.prove(journey, self.cancel))

    def done(self) -> None:
        """After writing comes the proof."""
        self.show()
        if self._prove_next and self._in_place():
            self._prove_next = False
            self.action_again()

    def ready(self) -> bool:
        """Whether the configuration is in place."""
        return self._in_place()

    def _in_place(self) -> bool:
        return results.in_place(self.journey)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enter writes first and goes on afterwards."""
        match action:
            case "write":
                return not self._in_place() and self.journey.change is not None and not self.busy
            case "again":
                return self._in_place() and not self.busy
            case "install":
                return not self.busy and flow.client_missing(self.journey)
            case "key":
                return any(flow.key_places(self.journey.answers)) and not self._in_place()
            case "tick":
                return self.journey.change is None or not self.journey.change.written
            case "skip":
                return not self._in_place()
            case "next" if not self._in_place():
                return False
        return super().check_action(action, parameters)
