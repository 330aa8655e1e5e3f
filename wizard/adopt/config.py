"""The file that ``vllm serve --config`` reads its options from, written out as options."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from wizard import paths
from wizard.catalog import flag_facts
from wizard.i18n import _
from wizard.plan import AdoptedFrom, Option
from wizard.plan.words import ServerCall, canonical_flag, is_switch

_FLAG = "--config"


def with_config_file(call: ServerCall, origin: AdoptedFrom) -> tuple[ServerCall, AdoptedFrom]:
    """The call with the options of its file before its own, which win in vLLM too.

    A file that cannot be read stays an option of the call, and the origin says so. Only files of this host
    are read.
    """
    named = next((option.value for option in call.options if option.flag == _FLAG), None)
    if named is None:
        return call, origin
    if origin.kind in ("container", "compose", "log"):
        reason = _("it is not read from here")
        return call, _unread(origin, named, reason)
    path = Path(origin.folder or ".") / paths.expanded(named)
    try:
        options = tuple(config_options(path.read_text(encoding="utf-8")))
    except OSError as error:
        return call, _unread(origin, named, error.strerror or str(error))
    except ValueError as error:
        return call, _unread(origin, named, str(error))
    own = tuple(option for option in call.options if option.flag != _FLAG)
    model = call.model or next((option.value or "" for option in options if option.flag == "--model"), "")
    given = {option.flag for option in own}
    options = tuple(
        option
        for option in options
        if option.flag not in given and not (option.flag == "--model" and call.model)
    )
    return msgspec.structs.replace(call, model=model, options=(*options, *own)), origin


def config_options(text: str) -> Iterator[Option]:
    """The options in the text of such a file. Raises ValueError when it is no table of options."""
    import yaml  # type: ignore[import-untyped]

    try:
        table = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(_("it is not valid YAML")) from error
    if not isinstance(table, dict):
        raise ValueError(_("it holds no table of options"))
    for key, value in table.items():
        yield from options_of(str(key), value)


def options_of(name: str, value: object) -> Iterator[Option]:
    """The option with a value as Python or YAML hold it; none where the value leaves it out.

    Lists are several values, tables become JSON, and false is the ``--no-`` twin where there is one.
    """
    flag = canonical_flag(f"--{name}")
    if value is False:
        if is_switch(f"--no-{flag.removeprefix('--')}"):
            yield Option(flag=f"--no-{flag.removeprefix('--')}")
    elif value is True:
        yield Option(flag=flag)
    elif isinstance(value, list | tuple):
        words = tuple(_word(entry) for entry in value)
        if flag.removeprefix("--") in flag_facts().spelling.repeated:
            yield from (Option(flag=flag, value=word) for word in words)
        elif words:
            yield Option(flag=flag, value=words[0], more=words[1:])
    elif value is not None:
        yield Option(flag=flag, value=_word(value))


def _word(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return repr(value)
    return msgspec.json.encode(value, enc_hook=str).decode()


def _unread(origin: AdoptedFrom, named: str, reason: str) -> AdoptedFrom:
    text = _("The options in {file} could not be read: {reason}.").format(file=named, reason=reason)
    return msgspec.structs.replace(origin, unread=(*origin.unread, text))
