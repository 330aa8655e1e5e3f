"""The weights before the start: what is on disk, and bringing what is missing, which vLLM would do unseen."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping

import msgspec

from wizard import fetch
from wizard.catalog import find_model
from wizard.compat import Row
from wizard.errors import FetchError
from wizard.fetch import Fetched, FetchEvent, FetchPlan, FetchProgress, FetchWaiting, Order, Presence
from wizard.flow.journey import Cancelled, Journey, need
from wizard.i18n import N_, _
from wizard.serve import Event, Milestone

WEIGHTS = "weights"
"""The milestone of a launch during which weights are downloaded."""
LaunchEvent = Event | FetchProgress | FetchWaiting
"""What happens during a launch: what vLLM does, and before it the download."""


def weights_on_disk(rows: tuple[Row, ...], journey: Journey) -> Mapping[str, Presence]:
    """What of each checkpoint in the matrix is on this disk, by its name; nothing in a simulation."""
    if journey.simulated:
        return {row.checkpoint: Presence(state="absent") for row in rows}
    return fetch.on_disk({row.checkpoint for row in rows}, _variables(journey))


def order_of(journey: Journey) -> Order:
    """The checkpoint that was chosen, and where the planned vLLM will look for it.

    Before the choice it is the one that was asked for, when that is enough to know it.
    """
    wanted = journey.answers.model
    return Order(
        checkpoint=journey.choice.checkpoint if journey.choice else wanted.path or wanted.id or "",
        revision=_flag(journey, "--revision") or "main",
        download_dir=_flag(journey, "--download-dir"),
        load_format=_flag(journey, "--load-format"),
        vllm_version=journey.runtime.version if journey.runtime else None,
        env=_variables(journey),
        offline=journey.answers.serve.offline,
    )


def is_named(journey: Journey) -> bool:
    """Whether the answers name a checkpoint outside the catalogue: to fetch it, nothing must be chosen."""
    wanted = journey.answers.model
    return wanted.path is not None or ("/" in (wanted.id or "") and find_model(wanted.id or "") is None)


def bring_weights(journey: Journey, emit: Callable[[LaunchEvent], None], cancel: threading.Event) -> Journey:
    """Have the chosen weights on disk before vLLM is started; a download that runs already is gone on with.

    Nothing is done in a simulation, for weights that are whole, and for what only vLLM knows how to load.
    Raises RefusedError when they do not fit or may not be fetched, FetchError, Cancelled.
    """
    order = order_of(journey)
    if journey.simulated or fetch.uses_modelscope(order) or not fetch.is_hub_id(order.checkpoint):
        return journey
    if fetch.presence(order).state == "whole":
        return journey
    plan = None if fetch.running(order) else look_for_weights(order, cancel)
    if plan is not None and not plan.files:
        return journey

    def tell(event: FetchEvent) -> None:
        if isinstance(event, FetchPlan):
            size = _("{size:.1f} GiB to download").format(size=event.missing_bytes / (1 << 30))
            emit(Milestone(seconds=0.0, id=WEIGHTS, title=N_("Weights on disk"), detail=size))
        elif isinstance(event, FetchProgress | FetchWaiting):
            emit(event)

    return msgspec.structs.replace(journey, fetched=fetch_weights(order, plan, tell, cancel))


def look_for_weights(order: Order, cancel: threading.Event) -> FetchPlan:
    """What is missing at the hub's word. Raises as ``bring_weights`` does."""
    try:
        return fetch.look(order, cancel)
    except FetchError:
        if cancel.is_set():
            raise Cancelled(_("The look at the hub was stopped.")) from None
        raise


def fetch_weights(
    order: Order, plan: FetchPlan | None, emit: Callable[[FetchEvent], None], cancel: threading.Event
) -> Fetched:
    """Bring what a plan names. Raises FetchError, Cancelled.

    A download that runs already is gone on with, whatever the plan, and left alone when this step is stopped.
    """
    found = fetch.running(order)
    job = found or fetch.start(need(plan), order)
    try:
        for event in fetch.follow(job, cancel):
            emit(event)
            if isinstance(event, Fetched):
                return event
        raise Cancelled(
            _("The download was stopped."), _("What came is kept: the next one goes on from there.")
        )
    except BaseException:
        if found is None:
            fetch.stop(job)
        raise


def _flag(journey: Journey, name: str) -> str | None:
    """What vLLM will be told with an option, by the plan or, before there is one, by the answers."""
    if journey.plan is not None:
        return journey.plan.flag(name)
    words = journey.answers.serve.extra_args
    return next((value for flag, value in itertools.pairwise(words) if flag == name), None)


def _variables(journey: Journey) -> Mapping[str, str]:
    return journey.plan.env if journey.plan else journey.answers.runtime.env
