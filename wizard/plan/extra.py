"""Options the user adds to the command: read strictly, for a misread one would be carried out."""

from __future__ import annotations

from collections.abc import Sequence

from wizard.errors import UsageError
from wizard.i18n import _
from wizard.plan.known import canonical
from wizard.plan.types import Option, PlanEdit
from wizard.runtime import Runtime

_FIELDS_OF_THE_PLAN = ("--host", "--port", "--served-model-name", "--api-key", "--hf-token")


def user_edits(arguments: Sequence[str], runtime: Runtime) -> tuple[PlanEdit, ...]:
    """The user's own arguments as a change of the plan. Raises UsageError for what the plan sets itself."""
    options = [
        Option(flag=canonical(option.flag, runtime), value=option.value)
        for option in parse_arguments(arguments)
    ]
    for option in options:
        if option.flag in _FIELDS_OF_THE_PLAN:
            raise UsageError(
                _("{flag} does not belong into extra_args.").format(flag=option.flag),
                _("Use the answers host, port, served_name or api_key_file, or export HF_TOKEN."),
            )
    if not options:
        return ()
    changes = {option.flag: option.value for option in options}
    return (PlanEdit(origin="user", title=_("Your extra arguments"), set=changes),)


def parse_arguments(words: Sequence[str]) -> tuple[Option, ...]:
    """``--flag value``, ``--flag=value`` and switches as options; anything else raises UsageError."""
    options: list[Option] = []
    for word in words:
        if word.startswith("--"):
            flag, separator, value = word.partition("=")
            options.append(Option(flag=flag, value=value if separator else None))
        elif options and options[-1].value is None:
            options[-1] = Option(flag=options[-1].flag, value=word)
        else:
            raise UsageError(
                _("Not an option of vLLM: {word}.").format(word=word),
                _("Write each extra argument as --flag, or as --flag followed by one value."),
            )
    return tuple(options)
