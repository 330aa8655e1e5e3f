"""Asks the installed opencode what it makes of the configuration; no model is asked for that."""

from __future__ import annotations

import os
from collections.abc import Mapping

from wizard.i18n import _
from wizard.opencode.binary import listed_models, merged_config, opencode_version
from wizard.opencode.jsonc_edit import get, leaves, same
from wizard.opencode.locate import home, start_folder
from wizard.opencode.overrides import is_read
from wizard.opencode.types import Confirmation, OpencodeChange
from wizard.text import inert

_COVERED = "apiKey"
"""opencode shows three stars in its place."""


def confirm_change(
    change: OpencodeChange, binary: str, *, environ: Mapping[str, str] | None = None
) -> Confirmation:
    """Whether opencode reads every key as it was written, and lists the model, where it will be started.

    A file that opencode only reads when it is told to is told to it. Takes some seconds.
    """
    variables = dict(os.environ if environ is None else environ)
    start = start_folder(change.scope, change.path) or home(environ)
    if not is_read(change.path, environ=environ, cwd=start):
        variables["OPENCODE_CONFIG"] = change.path
    version = opencode_version(binary, environ=variables) or ""
    merged = merged_config(binary, environ=variables, cwd=start)
    if merged is None:
        return Confirmation(
            agrees=False,
            opencode_version=version,
            detail=_("opencode {version} does not start with its configuration as it is now.").format(
                version=version
            ),
            hint=_("See why in a terminal: opencode debug config. It may print keys."),
        )
    differing = tuple(
        ".".join(path)
        for path, value in leaves(change.settings)
        if path[-1] != _COVERED and not same(get(merged, path), value)
    )
    if differing:
        return Confirmation(
            agrees=False,
            opencode_version=version,
            differing=differing,
            detail=_("opencode {version} reads something else for {keys}.").format(
                version=version, keys=", ".join(inert(key) for key in differing)
            ),
            hint=_("Another file or a variable overrides them: see what is named above."),
        )
    if change.model not in listed_models(binary, change.provider, environ=variables, cwd=start):
        return Confirmation(
            agrees=False,
            opencode_version=version,
            detail=_("opencode {version} does not list {model}.").format(version=version, model=change.model),
            hint=_("Look at enabled_providers and disabled_providers of every file it reads."),
        )
    return Confirmation(
        agrees=True,
        opencode_version=version,
        detail=_("opencode {version} reads it as it is meant and lists {model}.").format(
            version=version, model=change.model
        ),
    )
