"""The receipt: what was asked (intent), what came of it (facts), and how to take it back (undo list)."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from wizard import __version__
from wizard.errors import UsageError
from wizard.i18n import _
from wizard.paths import write_atomic

SCHEMA = 1


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was created or changed. ``sha256_after`` tells whether it changed again since."""

    kind: Literal["file"]
    path: str
    backup: str | None = None
    """The file as it was before; None: it did not exist."""
    sha256_after: str


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """What a start of vLLM measured, beside the estimate for it; per GPU, GiB (binary).

    ``fingerprint`` tells GPUs, checkpoint, version and options apart: what was measured holds for these only.
    """

    fingerprint: str
    model: str
    vllm_version: str | None
    measured: str
    """When."""
    estimated_kv_gib: float
    available_kv_gib: float
    weights_gib: float | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the last smoke test of a served model came to; ``failed`` is its first failed check in words."""

    base_url: str
    model: str
    """The served name."""
    verdict: Literal["pass", "fail", "inconclusive"]
    tested: str
    """When."""
    failed: str = ""
    hint: str = ""
    decode_tps: float | None = None
    roofline_tps: float | None = None
    """What the memory would allow; tokens a second of one stream, both."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Saved after every step. No secret is ever in it: keys appear as the name of their file or variable."""

    schema: int = SCHEMA
    wizard_version: str = __version__
    created: str
    step: str
    """The step to go on with."""
    finished: bool = False
    simulated: str | None = None
    answers: Mapping[str, object]
    results: Mapping[str, object] = {}
    undo: tuple[Undo, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    """Newest last; they outlive the set-up they were made in."""
    verdicts: tuple[Verdict, ...] = ()
    """Newest last, one a served model; they outlive it too."""


def now() -> str:
    """The local time with its offset, to the second, as receipts write it."""
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def save(receipt: Receipt, path: Path) -> None:
    """Write the receipt atomically, readable for its owner only."""
    import tomlkit

    document = tomlkit.document()
    document.add(tomlkit.comment("vllm-opencode: what was set up here. `vllm-opencode undo` reverts it."))
    fields: dict[str, object] = msgspec.to_builtins(receipt)
    for key, value in _without_none(fields).items():
        document.add(key, value)
    write_atomic(path, tomlkit.dumps(document).encode())


def load(path: Path) -> tuple[Receipt | None, Path | None]:
    """The receipt, and where an unreadable one was moved to; both None when there is none.

    A broken receipt never blocks: it is set aside under another name and the wizard starts clean.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return None, None
    try:
        receipt = msgspec.toml.decode(data, type=Receipt)
        if receipt.schema > SCHEMA:
            raise msgspec.ValidationError("written by a newer version")
    except (msgspec.DecodeError, ValueError):
        aside = path.with_name(f"{path.name}.unreadable-{datetime.date.today().isoformat()}")
        path.replace(aside)
        return None, aside
    return receipt, None


def measurements(path: Path) -> tuple[Measurement, ...]:
    """What earlier starts measured, oldest first; nothing where there is no receipt that can be read."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Receipt).measurements
    except (OSError, msgspec.DecodeError, ValueError):
        return ()


def verdict_of(path: Path, base_url: str, model: str) -> Verdict | None:
    """What the last smoke test of a served model came to, if there was one that is known."""
    try:
        kept = msgspec.toml.decode(path.read_bytes(), type=Receipt).verdicts
    except (OSError, msgspec.DecodeError, ValueError):
        return None
    return next((entry for entry in kept if (entry.base_url, entry.model) == (base_url, model)), None)


def load_last(path: Path) -> Receipt:
    """The receipt. Raises UsageError when there is none, and when it had to be set aside."""
    last, aside = load(path)
    if aside is not None:
        raise UsageError(
            _("The last receipt could not be read; it was moved to {path}.").format(path=aside),
            _("It is a text file: what was written and where the backup lies can be read in it."),
        )
    if last is None:
        raise UsageError(
            _("There is no receipt at {path}.").format(path=path), _("Nothing was set up from here.")
        )
    return last


def _without_none(value: dict[str, object]) -> dict[str, object]:
    """TOML has no null: absent keys stand for it."""
    return {key: _clean(item) for key, item in value.items() if item is not None}


def _clean(value: object) -> object:
    if isinstance(value, dict):
        return _without_none(value)
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value if item is not None]
    return value
