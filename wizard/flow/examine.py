"""Looking at what exists: a whole set-up from host to configuration."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence

from wizard import paths
from wizard.errors import WizardError
from wizard.flow.clientchecks import Ask, configuration_checks, is_near, program_check
from wizard.flow.journey import Journey, need
from wizard.flow.places import opencode_path, runs_dir
from wizard.flow.serverchecks import USUAL_URL, Found, look_for, server_checks
from wizard.flow.serving import key_of
from wizard.i18n import _
from wizard.machine import Check
from wizard.opencode import ConfiguredModel, configured_models, resolved_key, target_file
from wizard.serve import is_alive, latest_run, normal_url


def examine(journey: Journey) -> tuple[Check, ...]:
    """The checks of a whole set-up, host first. Needs machine and runtime; changes nothing.

    Whatever is missing costs its own checks only. On a recorded machine only the host can be checked: there
    is no server and no configuration to look at.
    """
    if journey.simulated:
        return journey.checks
    return (*journey.checks, _runtime_check(journey), *check_configuration(journey))


def check_configuration(journey: Journey) -> tuple[Check, ...]:
    """The running server of the answers, and opencode's configuration against it."""
    ask = functools.cache(look_for)
    project = journey.answers.opencode.project
    version, program = program_check(journey.answers.opencode.binary)
    try:
        path = target_file(path=opencode_path(journey), project=project).path
        models = configured_models(path)
    except WizardError as error:
        broken = Check(id="opencode-config", status="fail", detail=error.message, hint=error.hint)
        main = _main_server(journey, (), ask)
        client: tuple[Check, ...] = (broken,)
    else:
        main = _main_server(journey, _addresses(path, models), ask)
        folder = None if project is None else paths.expanded(project)
        client = tuple(configuration_checks(path, models, main, ask, version, folder))
    return (*server_checks(main), program, *client)


def _addresses(path: str, models: Sequence[ConfiguredModel]) -> tuple[tuple[str, str | None], ...]:
    """The addresses of providers that may be asked, each with its key."""
    found: dict[str, str | None] = {}
    for model in models:
        with contextlib.suppress(WizardError):
            if is_near(model.base_url) and (url := normal_url(model.base_url)) not in found:
                found[url], _problem = resolved_key(path, model.provider)
    return tuple(found.items())


def _main_server(journey: Journey, configured: Sequence[tuple[str, str | None]], ask: Ask) -> Found | None:
    """The server of the set-up: the one named, ours that runs, or one that answers where it may be expected.

    Where none answers, the first one the configuration points to; None: it points to none.
    """
    url = journey.answers.start.base_url
    run = latest_run(runs_dir(journey))
    if url is None and run is not None and is_alive(run):
        url = run.base_url
    if url is not None:
        try:
            return ask(normal_url(url), key_of(journey.answers))
        except WizardError as error:
            return Found(url=url, error=error)
    for address, key in (*configured, (USUAL_URL, None)):
        if (found := ask(address, key)).answers:
            return found
    return ask(*configured[0]) if configured else None


def _runtime_check(journey: Journey) -> Check:
    runtime = need(journey.runtime)
    if runtime.kind == "assumed":
        return Check(
            id="runtime",
            status="warn",
            detail=_("No installed vLLM was found."),
            hint=_("Install vLLM into an environment of its own, or name it with [runtime] path."),
        )
    detail = _("vLLM {version} at {path}").format(version=runtime.version or "?", path=runtime.path)
    return Check(id="runtime", status="ok", detail=detail)
