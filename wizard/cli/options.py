"""The options every command understands, wherever they stand on the command line."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from typing import NoReturn

import msgspec

from wizard import i18n
from wizard.errors import UsageError
from wizard.i18n import N_, _

COMMON_HELP = N_(
    "Everywhere: --simulate MACHINE (a recorded machine instead of this host), --json, --lang fr|en, "
    "--plain, --offline, -v."
)


class CommonOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the common options say. ``simulate`` is a name of ``assets/machines`` or a path."""

    simulate: str | None = None
    json: bool = False
    lang: str | None = None
    plain: bool = False
    offline: bool = False
    verbose: bool = False


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(_("Wrong call: {reason}.").format(reason=message), _("See --help."))


def split(argv: Sequence[str]) -> tuple[CommonOptions, list[str]]:
    """Take the common options out of an argument list; what follows a lone ``--`` is left alone.

    Raises UsageError for a common option without its value or with a wrong one.
    """
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--simulate", metavar="MACHINE")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lang", choices=i18n.LANGUAGES)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    known, rest = parser.parse_known_args(words[:end])
    return CommonOptions(**vars(known)), [*rest, *words[end:]]


_current = CommonOptions()


def current() -> CommonOptions:
    """The common options of this call."""
    return _current


def use(options: CommonOptions) -> None:
    """Make options the ones of this call: switches the language and the logging."""
    global _current
    _current = options
    i18n.use(options.lang or i18n.preferred_language())
    logging.basicConfig(level=logging.INFO if options.verbose else logging.ERROR, format="%(message)s")
