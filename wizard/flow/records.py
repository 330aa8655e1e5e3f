"""What a journey leaves behind: the receipt after every step, resuming from it, and undoing it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from wizard import paths, receipt
from wizard.errors import RefusedError, UsageError
from wizard.flow.answers import Answers, answers_from
from wizard.flow.journey import Journey, Step
from wizard.flow.places import prepare, receipt_path
from wizard.flow.readback import measurement
from wizard.i18n import _
from wizard.opencode import undo_change
from wizard.receipt import Measurement, Receipt, Undo, Verdict
from wizard.text import covered_env, is_secret_name

_MEASUREMENTS = 50
_VERDICTS = 20
"""Kept at most, the oldest go first."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Something undo did not take back, and why."""

    path: str
    why: str


def save_progress(journey: Journey, *, finished: bool = False) -> Receipt:
    """Write the receipt of a journey: intent, results so far, and the undo list."""
    journey = prepare(journey)
    file = receipt_path(journey)
    earlier, _aside = receipt.load(file)
    before = () if earlier is None else earlier.undo
    created = earlier.created if earlier is not None and not earlier.finished else receipt.now()
    made = Receipt(
        created=created,
        step=journey.step.value,
        finished=finished,
        simulated=journey.machine.simulated if journey.simulated and journey.machine else None,
        answers=msgspec.to_builtins(_without_secrets(journey.answers)),
        results=_results(journey),
        undo=_undo_with(before, journey),
        measurements=_measurements_with(() if earlier is None else earlier.measurements, journey),
        verdicts=_verdicts_with(() if earlier is None else earlier.verdicts, journey),
    )
    receipt.save(made, file)
    return made


def keep_verdict(journey: Journey) -> None:
    """Keep what the smoke test of a journey came to, whatever else the receipt holds. Raises UsageError."""
    journey = prepare(journey)
    file = receipt_path(journey)
    kept, _aside = receipt.load(file)
    if kept is None:
        answers = msgspec.to_builtins(_without_secrets(journey.answers))
        step = Step.SMOKE.value
        kept = Receipt(created=receipt.now(), step=step, finished=True, answers=answers)
    verdicts = _verdicts_with(kept.verdicts, journey)
    receipt.save(msgspec.structs.replace(kept, verdicts=verdicts), file)


def finish(journey: Journey) -> Receipt:
    """The final receipt of a journey that reached its end."""
    return save_progress(journey, finished=True)


def resume() -> tuple[Journey | None, str]:
    """A journey to go on with, and a sentence about a receipt that could not be read (or "").

    Only the intent is taken over; every step looks at the world again instead of trusting the file.
    """
    kept, aside = receipt.load(paths.receipt_path())
    if aside is not None:
        return None, _("The last receipt could not be read; it was moved to {path}.").format(path=aside)
    if kept is None or kept.finished:
        return None, ""
    try:
        answers = answers_from(kept.answers, str(paths.receipt_path()))
    except UsageError as error:
        return None, str(error)
    return Journey(answers=answers, step=Step.MACHINE if answers.start.mode == "install" else Step.START), ""


def clear_progress() -> None:
    """Forget the unfinished receipt: start over."""
    kept, _aside = receipt.load(paths.receipt_path())
    if kept is not None and not kept.finished:
        paths.receipt_path().unlink(missing_ok=True)


def undo(listing: bool = False) -> tuple[tuple[Undo, ...], tuple[Kept, ...]]:
    """Take back what the last receipt says was changed, newest first: (reverted, kept).

    With ``listing`` nothing is touched and everything that would be reverted is returned. Raises UsageError
    without a receipt.
    """
    file = paths.receipt_path()
    last = receipt.load_last(file)
    if listing:
        return tuple(reversed(last.undo)), ()
    reverted: list[Undo] = []
    kept: list[Kept] = []
    for entry in reversed(last.undo):
        try:
            undo_change(Path(entry.path), entry.backup, entry.sha256_after)
            reverted.append(entry)
        except RefusedError as error:
            kept.append(Kept(path=entry.path, why=str(error)))
    remaining = tuple(entry for entry in last.undo if entry not in reverted)
    receipt.save(msgspec.structs.replace(last, undo=remaining), file)
    return tuple(reverted), tuple(kept)


def _undo_with(before: tuple[Undo, ...], journey: Journey) -> tuple[Undo, ...]:
    """The undo list with the change of this journey, if one was written.

    Where the file was still as we had left it, the first backup stays the one to go back to: it holds what
    the user had. Where the user changed it in between, both entries stay.
    """
    change = journey.change
    if change is None:
        return before
    beside = tuple(
        Undo(kind="file", path=file.path, sha256_after=file.sha256)
        for file in change.beside
        if file.written and file.before is None
    )
    before = (*before, *(entry for entry in beside if entry not in before))
    if not change.written:
        return before
    entry = Undo(kind="file", path=change.path, backup=change.backup, sha256_after=change.sha256_after)
    if any(known == entry for known in before):
        return before
    found = None if change.before is None else hashlib.sha256(change.before).hexdigest()
    ours = next(
        (known for known in before if known.path == change.path and known.sha256_after == found), None
    )
    if ours is None:
        return (*before, entry)
    kept = tuple(known for known in before if known is not ours)
    return (*kept, msgspec.structs.replace(entry, backup=ours.backup))


def _measurements_with(before: tuple[Measurement, ...], journey: Journey) -> tuple[Measurement, ...]:
    """What was measured so far, with this journey's start in the place of an earlier one of the same."""
    made = measurement(journey)
    if made is None:
        return before
    kept = [entry for entry in before if entry.fingerprint != made.fingerprint]
    return (*kept, made)[-_MEASUREMENTS:]


def verdict_here(journey: Journey) -> Verdict | None:
    """What the smoke test of this very journey came to."""
    report = journey.smoke
    if report is None:
        return None
    server, speed = report.server, report.speed
    failed = next((check for check in report.checks if check.required and check.status == "fail"), None)
    return Verdict(
        base_url=server.base_url,
        model=server.model,
        verdict=report.verdict,
        tested=receipt.now(),
        failed="" if failed is None else f"{failed.title}: {failed.detail}",
        hint="" if failed is None else failed.hint,
        decode_tps=speed.decode_tps,
        roofline_tps=speed.roofline_tps,
    )


def _verdicts_with(before: tuple[Verdict, ...], journey: Journey) -> tuple[Verdict, ...]:
    """The verdicts so far, with this journey's in the place of an earlier one of the same served model."""
    made = verdict_here(journey)
    if made is None:
        return before
    kept = [entry for entry in before if (entry.base_url, entry.model) != (made.base_url, made.model)]
    return (*kept, made)[-_VERDICTS:]


def _without_secrets(answers: Answers) -> Answers:
    """The answers without values of variables that hold secrets: they must be given again."""
    env = {name: value for name, value in answers.runtime.env.items() if not is_secret_name(name)}
    return msgspec.structs.replace(answers, runtime=msgspec.structs.replace(answers.runtime, env=env))


def _results(journey: Journey) -> dict[str, object]:
    """The facts worth keeping, by the step that found them."""
    facts: dict[str, Callable[[], object]] = {
        "gpus": lambda: [gpu.name for gpu in journey.machine.gpus] if journey.machine else None,
        "vllm": lambda: journey.runtime.version if journey.runtime else None,
        "model": lambda: journey.choice.checkpoint if journey.choice else None,
        "weights": lambda: _weights(journey),
        "plan": lambda: journey.plan.id if journey.plan else None,
        "command": lambda: list(journey.plan.argv) if journey.plan else None,
        "environment": lambda: covered_env(journey.plan.env) if journey.plan else None,
        "log": lambda: journey.run.log if journey.run else None,
        "pid": lambda: journey.run.pid if journey.run else None,
        "base_url": lambda: journey.server.base_url if journey.server else None,
        "served_model_name": lambda: journey.server.model if journey.server else None,
        "available_kv_gib": lambda: journey.figures.available_kv_gib if journey.figures else None,
        "cache_tokens": lambda: journey.figures.cache_tokens if journey.figures else None,
        "max_model_len": lambda: journey.server.max_model_len if journey.server else None,
        "smoke": lambda: journey.smoke.verdict if journey.smoke else None,
        "speed": lambda: _speed(journey),
        "tuning": lambda: msgspec.to_builtins(journey.tuning) or None,
        "opencode_config": lambda: journey.change.path if journey.change else None,
        "opencode_model": lambda: journey.change.model if journey.change else None,
        "opencode_command": lambda: journey.change.command if journey.change else None,
        "proof": lambda: journey.proof.status if journey.proof else None,
    }
    return {name: value for name, fact in facts.items() if (value := fact()) is not None}


def _speed(journey: Journey) -> dict[str, object] | None:
    """The figures that were measured, and their limit."""
    if journey.smoke is None:
        return None
    names = ("ttft_ms", "prompt_tokens", "prefill_tps", "decode_tps", "roofline_tps", "share")
    found = {name: getattr(journey.smoke.speed, name) for name in names}
    return {name: value for name, value in found.items() if value is not None} or None


def _weights(journey: Journey) -> dict[str, object] | None:
    """What was downloaded and where it lies: `undo` leaves it, for it is large and may be used elsewhere."""
    done = journey.fetched
    return None if done is None else {"folder": done.folder, "downloaded_bytes": done.downloaded_bytes}
