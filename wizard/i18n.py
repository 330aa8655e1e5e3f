"""Translation of every text a person sees.

``_`` translates at the moment of the call, so switching the language needs no restart. Texts that are
built at import time (tables of titles, key descriptions) are marked with ``N_`` and passed through ``_``
where they are shown.
"""

from __future__ import annotations

import gettext
import os
from importlib import resources

DOMAIN = "vllm-opencode"
LANGUAGES = ("en", "fr")
_LANGUAGE_VARIABLES = ("VLLM_OPENCODE_LANG", "LC_ALL", "LC_MESSAGES", "LANG")

_active: gettext.NullTranslations = gettext.NullTranslations()
_language = "en"


def _(message: str) -> str:
    """The message in the active language, or unchanged when it has no translation."""
    return _active.gettext(message)


def ngettext(singular: str, plural: str, count: int) -> str:
    """The singular or plural form of a message that counts something."""
    return _active.ngettext(singular, plural, count)


def N_(message: str) -> str:
    """Mark a message for translation without translating it yet."""
    return message


def language() -> str:
    """The active language, one of ``LANGUAGES``."""
    return _language


def preferred_language(environ: dict[str, str] | None = None) -> str:
    """The language asked for by the environment: our own variable first, then the locale's."""
    variables = os.environ if environ is None else environ
    for name in _LANGUAGE_VARIABLES:
        code = variables.get(name, "")[:2].lower()
        if code in LANGUAGES:
            return code
        if variables.get(name):
            return "en"
    return "en"


def use(code: str) -> None:
    """Switch to a language of ``LANGUAGES``; an unfinished catalogue falls back to English text by text."""
    global _active, _language
    with resources.as_file(resources.files("assets") / "locale") as folder:
        _active = gettext.translation(DOMAIN, folder, languages=[code], fallback=True)
    _language = code
