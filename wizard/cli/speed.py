"""How a measured speed is printed."""

from __future__ import annotations

from wizard.cli import output
from wizard.flow import Tried, Trying
from wizard.i18n import _
from wizard.smoke import CostlyOption, Speed


def show_speed(speed: Speed) -> None:
    """The speed for a person: measured figures beside their limits, and what costs some of it."""
    if speed.prefill_tps is not None and speed.ttft_ms is not None:
        text = _("First token after {ms:,.0f} ms for a prompt of {tokens:,} tokens: {rate:,.0f} tokens/s.")
        output.say(text.format(ms=speed.ttft_ms, tokens=speed.prompt_tokens or 0, rate=speed.prefill_tps))
    for rate in speed.streams:
        if rate.decode_tps is None:
            continue
        if rate.roofline_tps is None or rate.share is None:
            text = _("{streams} at once: {rate:,.1f} tokens/s.")
        else:
            text = _("{streams} at once: {rate:,.1f} tokens/s, {share:.0%} of the possible {limit:,.0f}.")
        output.say(
            text.format(streams=rate.streams, rate=rate.decode_tps, share=rate.share, limit=rate.roofline_tps)
        )
    for cost in speed.brakes:
        output.say(brake_line(cost))
    if speed.note:
        output.say(speed.note)


def show_tuning(happened: Trying | Tried) -> None:
    """What tuning does, and what came of it, for a person."""
    if isinstance(happened, Trying):
        texts = {
            "without": _("Tuning: starting without {option} …"),
            "back": _("Tuning: back to the plan with {option} …"),
        }
        output.say(texts[happened.doing].format(option=happened.option))
        return
    tried = happened.attempt
    words = {True: _("KEPT"), False: _("TAKEN BACK")}
    rates = [_("unknown") if rate is None else f"{rate:,.1f}" for rate in (tried.before_tps, tried.after_tps)]
    text = _("{word} without {option}: {before} tokens/s before, {after} after. {why}")
    output.say(
        text.format(
            word=words[tried.kept], option=tried.option, before=rates[0], after=rates[1], why=tried.why
        ).rstrip()
    )


def brake_line(cost: CostlyOption) -> str:
    """An option that costs speed, and how much as far as it is known."""
    if cost.price_min is None or cost.price_max is None:
        return _("{option} costs speed: {title}.").format(option=cost.option, title=cost.title)
    return _("{option} costs {least:.0%} to {most:.0%}: {title}.").format(
        option=cost.option, least=cost.price_min, most=cost.price_max, title=cost.title
    )
