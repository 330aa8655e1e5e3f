"""Numbered questions over a pair of callables: one that reads a line, one that writes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wizard.i18n import _


class WentBack(Exception):
    """Somebody typed b."""


class Left(Exception):
    """Somebody typed q."""


class Dialogue:
    """Asks and tells, a line each; nothing that was written is ever changed."""

    def __init__(self, read: Callable[[str], str], write: Callable[[str], None]) -> None:
        self._read = read
        self._write = write

    def say(self, *lines: str) -> None:
        """Write lines; a text of several lines is several lines."""
        for text in lines:
            for line in text.splitlines() or [""]:
                self._write(line)

    def text(self, question: str, default: str = "") -> str:
        """A line of text; Enter takes the default. Raises WentBack for b, Left for q."""
        offered = f" [{default}]" if default else ""
        answer = self._read(f"{question}{offered}: ").strip()
        if answer == "b":
            raise WentBack
        if answer == "q":
            raise Left
        return answer or default

    def choose(
        self,
        question: str,
        options: Sequence[tuple[str, str]],
        default: str,
        why: Sequence[str] = (),
        why_each: Sequence[Sequence[str]] = (),
    ) -> str:
        """The key of one of the options, which are pairs of key and words.

        ``why`` is told for a ?. With ``why_each``, the reasons of every option, ``? N`` tells those of
        option N, and ? alone those of the default.
        """
        keys = [key for key, _words in options]
        self.say(*(f"{number}. {words}" for number, (_key, words) in enumerate(options, 1)))
        usual = str(keys.index(default) + 1)
        if why_each:
            hint = _("number, ? number why, b back, q quit")
        else:
            hint = _("number, ? why, b back, q quit") if why else _("number, b back, q quit")
        while True:
            answer = self.text(f"{question} ({hint})", usual)
            if answer.startswith("?") and (told := _told(answer[1:].strip(), usual, why, why_each)):
                self.say(*told)
            elif answer.isdecimal() and 1 <= int(answer) <= len(keys):
                return keys[int(answer) - 1]
            else:
                self.say(_("Please type a number from 1 to {last}.").format(last=len(keys)))

    def number(self, question: str, default: int | None, automatic: str, least: int = 1) -> int | None:
        """A whole number from ``least`` on; Enter takes the default, ``automatic`` when there is none."""
        while True:
            answer = self.text(question, automatic if default is None else str(default))
            if answer == automatic:
                return None
            if answer.isdecimal() and int(answer) >= least:
                return int(answer)
            self.say(_("Please type a whole number, or {word}.").format(word=automatic))

    def agreed(self, question: str, default: bool) -> bool:
        """Yes or no; Enter takes the default."""
        yes, no = _("yes"), _("no")
        while True:
            answer = self.text(f"{question} ({yes}/{no})", yes if default else no).lower()
            if answer in (yes, yes[0]):
                return True
            if answer in (no, no[0]):
                return False
            self.say(_("Please type {yes} or {no}.").format(yes=yes, no=no))


def _told(asked: str, usual: str, why: Sequence[str], why_each: Sequence[Sequence[str]]) -> Sequence[str]:
    """What a ? is answered with; nothing: it asks for an option that is not there."""
    if not why_each:
        return () if asked else why
    number = asked or usual
    return why_each[int(number) - 1] if number.isdecimal() and 1 <= int(number) <= len(why_each) else ()
