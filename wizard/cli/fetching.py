"""The command fetch: weights on disk before vLLM needs them."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from wizard.cli import output
from wizard.cli.journeys import consent, journey, with_runtime
from wizard.cli.looking import AnswersOption
from wizard.cli.options import current
from wizard.cli.signals import like_interrupt
from wizard.errors import FetchError
from wizard.fetch import (
    Fetched,
    FetchEvent,
    FetchPlan,
    FetchProgress,
    FetchWaiting,
    Order,
    is_hub_id,
    presence,
    progress_words,
    require_room,
    running,
)
from wizard.fetch import start as start_job
from wizard.fetch import stop as stop_job
from wizard.flow import (
    Journey,
    choose_model,
    fetch_weights,
    is_named,
    look_for_weights,
    make_plan,
    need,
    order_of,
    rate_models,
)
from wizard.i18n import _
from wizard.text import shell_join

_GIB = 1 << 30
_STEP = 10
"""Where a line cannot be written over, a new one is written for so many per cent."""


def fetch(
    answers: AnswersOption = None,
    model: Annotated[
        str | None, typer.Option("--model", help=_("A model of the catalogue, or a hub id."))
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help=_("Go on without asking."))] = False,
    attach: Annotated[
        bool, typer.Option("--attach/--detach", help=_("Watch the download, or leave it to itself."))
    ] = True,
    stop: Annotated[bool, typer.Option("--stop", help=_("End the download; what came is kept."))] = False,
) -> int:
    """Bring the weights that are missing. 0: all there, or on its way; 1: refused, or it did not work."""
    found_here = with_runtime(journey(answers, model={"id": model}))
    named = is_named(found_here) and not found_here.simulated
    planned = found_here if named else make_plan(choose_model(rate_models(found_here)))
    if planned.simulated:
        return _rehearse(planned)
    order = order_of(planned)
    found = running(order)
    if stop:
        if found is not None:
            stop_job(found)
        output.say(_("Stopped.") if found else _("Nothing is being downloaded for it."))
        return 0
    like_interrupt(hangup=False)
    plan = None if found else _missing(order)
    if plan is not None:
        require_room(plan)
        consent(_("Download {size:.1f} GiB?").format(size=plan.missing_bytes / _GIB), yes)
    elif found is None:
        return 0
    if not attach:
        job = found or start_job(need(plan), order)
        output.say(_("It goes on without this terminal, process {pid}.").format(pid=job.pid))
        output.say(_("Watch it with: {command}").format(command=_again(order)))
        output.say(_("End it with: {command}").format(command=_again(order, "--stop")))
        return 0
    return _watch(order, plan, theirs=found is not None)


def _watch(order: Order, plan: FetchPlan | None, theirs: bool) -> int:
    output.say(
        _("It runs already. Ctrl-C stops watching it.")
        if theirs
        else _("Ctrl-C stops it; what came is kept.")
    )

    def show(event: FetchEvent) -> None:
        if theirs or not isinstance(event, FetchPlan):
            show_fetch(event)

    try:
        fetch_weights(order, plan, show, threading.Event())
    except KeyboardInterrupt:
        output.say(
            _("It goes on. End it with: {command}").format(command=_again(order, "--stop"))
            if theirs
            else _("To go on from here: {command}").format(command=_again(order))
        )
        raise
    return 0


def _again(order: Order, *words: str) -> str:
    return shell_join(["vllm-opencode", "fetch", "--model", order.checkpoint, *words])


def _missing(order: Order) -> FetchPlan | None:
    """What is to be brought, shown; None when nothing is. Raises when it cannot be found out."""
    found = presence(order)
    whole = found.state == "whole"
    if whole and (order.offline or not is_hub_id(order.checkpoint)):
        _say_there(order, found.bytes)
        return None
    try:
        plan = look_for_weights(order, threading.Event())
    except FetchError as error:
        if not whole:
            raise
        output.say(_("Not compared with the hub: {reason}").format(reason=error.message))
        _say_there(order, found.bytes)
        return None
    if not plan.files:
        _say_there(order, plan.total_bytes)
        return None
    show_fetch(plan)
    return plan


def _say_there(order: Order, size: int) -> None:
    done = Fetched(checkpoint=order.checkpoint, folder="", total_bytes=size, downloaded_bytes=0, seconds=0.0)
    show_fetch(done)


def _rehearse(planned: Journey) -> int:
    """What a recorded machine would have to download; nothing of this host is touched or asked."""
    choice, machine = need(planned.choice), need(planned.machine)
    disk = next((disk for disk in machine.disks if disk.purpose == "models"), None)
    size = round((choice.files_gib or 0.0) * _GIB)
    plan = FetchPlan(
        checkpoint=choice.checkpoint,
        revision="main",
        endpoint="",
        folder=disk.path if disk else "?",
        total_bytes=size,
        missing_bytes=size,
        free_bytes=round(disk.free_gib * _GIB) if disk else 0,
        needed_bytes=size,
    )
    show_fetch(plan)
    output.say(_("Recorded machine {name}: nothing is downloaded.").format(name=machine.simulated))
    return 0


class _Shown:
    """Events of a download for whoever asked: JSON lines, a line that is redrawn, or a line now and then."""

    def __init__(self) -> None:
        self._told = -1

    def __call__(self, event: FetchEvent) -> None:
        if current().json:
            output.event(event)
            return
        match event:
            case FetchPlan():
                self._say_plan(event)
            case FetchProgress():
                self._say_progress(event)
            case FetchWaiting(text=text, seconds=seconds):
                output.say(_("{trouble}; again in {seconds:.0f} s").format(trouble=text, seconds=seconds))
            case Fetched():
                self._say_done(event)
            case _:
                pass

    def _say_plan(self, plan: FetchPlan) -> None:
        self._told = -1
        output.say(
            _("{checkpoint}: {total:.1f} GiB, {missing:.1f} GiB of it missing.").format(
                checkpoint=plan.checkpoint,
                total=plan.total_bytes / _GIB,
                missing=plan.missing_bytes / _GIB,
            )
        )
        output.say(
            _("It goes to {folder}, where {free:.1f} GiB are free.").format(
                folder=plan.folder, free=plan.free_bytes / _GIB
            )
        )

    def _say_progress(self, event: FetchProgress) -> None:
        if output.redraws():
            output.redraw(progress_words(event))
            return
        step = _STEP * (100 * event.done // max(1, event.total) // _STEP)
        if step > self._told:
            self._told = step
            output.say(progress_words(event))

    def _say_done(self, done: Fetched) -> None:
        if not done.downloaded_bytes:
            output.say(
                _("{checkpoint} is on this disk: {size:.1f} GiB.").format(
                    checkpoint=done.checkpoint, size=done.total_bytes / _GIB
                )
            )
            return
        output.say(
            _("{checkpoint} is on this disk: {size:.1f} GiB came in {minutes:.1f} minutes.").format(
                checkpoint=done.checkpoint,
                size=done.downloaded_bytes / _GIB,
                minutes=done.seconds / 60,
            )
        )


show_fetch = _Shown()
"""The one download of this call."""
