"""The speed of a server in words: figures beside their limit, what costs some of it, and what tuning did.

Like ``screens.wording``: pure, plain text, for both front ends.
"""

from __future__ import annotations

from screens.figures import bar, count, letter, percent
from wizard.flow import Trying, TuningAttempt
from wizard.i18n import _
from wizard.smoke import CostlyOption, Speed, StreamRate

_BAR = 20
"""Characters of the bar beside a rate."""


def speed_lines(speed: Speed) -> tuple[str, ...]:
    """First token and prompt, then a line a number of streams with its bar, then what is missing and why."""
    lines = []
    if speed.ttft_ms is not None and speed.prefill_tps is not None:
        text = _("{tokens} tokens read in {seconds:.2f} s{measured}: {rate} tokens/s{measured}")
        lines.append(
            text.format(
                tokens=count(speed.prompt_tokens),
                seconds=speed.ttft_ms / 1000,
                rate=count(round(speed.prefill_tps)),
                measured=letter("measured"),
            )
        )
    lines += [line for rate in speed.streams if (line := _rate_line(rate))]
    if speed.note:
        lines.append(speed.note)
    return tuple(lines)


def cost_lines(speed: Speed) -> tuple[str, ...]:
    """The conservative options of the plan, and what each costs as far as anybody knows."""
    return tuple(_cost(cost) for cost in speed.brakes)


def trying_line(happened: Trying) -> str:
    """What tuning is about to do."""
    texts = {
        "without": _("Starting vLLM without {option}…"),
        "back": _("Back to the plan with {option}…"),
    }
    return texts[happened.doing].format(option=happened.option)


def attempt_line(attempt: TuningAttempt) -> str:
    """What came of leaving an option out."""
    before, after = (_figure(rate) for rate in (attempt.before_tps, attempt.after_tps))
    if attempt.kept:
        text = _("KEPT        without {option}: {before} -> {after} tokens/s")
    elif attempt.passed:
        text = _("TAKEN BACK  without {option}: {before} -> {after} tokens/s. {why}")
    elif attempt.started:
        text = _("TAKEN BACK  without {option}: it starts, and the test fails. {why}")
    else:
        text = _("TAKEN BACK  without {option}: it does not start. {why}")
    return text.format(option=attempt.option, before=before, after=after, why=attempt.why).rstrip()


def _rate_line(rate: StreamRate) -> str:
    if rate.decode_tps is None:
        return ""
    text = _("{streams:>2} at once  {rate:>7,.1f}{measured} tokens/s").format(
        streams=rate.streams, rate=rate.decode_tps, measured=letter("measured")
    )
    if rate.roofline_tps is None or rate.share is None:
        return text
    limit = _("{percent} % of {limit:,.0f}{origin}").format(
        percent=percent(rate.share), limit=rate.roofline_tps, origin=letter(rate.origin)
    )
    return f"{text}  {bar(rate.share, _BAR)}  {limit}"


def _cost(cost: CostlyOption) -> str:
    if cost.price_min is None or cost.price_max is None:
        return _("{option} costs speed: {title}.").format(option=cost.option, title=cost.title)
    return _("{option} costs {least} to {most} %: {title}.").format(
        option=cost.option,
        least=percent(cost.price_min),
        most=percent(cost.price_max),
        title=cost.title,
    )


def _figure(rate: float | None) -> str:
    return "?" if rate is None else f"{rate:,.1f}"
