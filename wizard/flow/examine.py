"""Looking at what exists: a whole set-up from host to configuration, or the text of a failure."""

from __future__ import annotations

import sys
from pathlib import Path

from wizard import paths
from wizard.budget import output_cap, would_loop
from wizard.catalog import opencode_facts
from wizard.diagnosis import Diagnosis, diagnose_file, diagnose_text
from wizard.errors import WizardError
from wizard.flow.journey import Journey, need
from wizard.flow.places import opencode_path
from wizard.flow.serving import connect
from wizard.i18n import _
from wizard.machine import Check, load_machine
from wizard.opencode import (
    ConfiguredModel,
    configured_models,
    find_opencode,
    opencode_version,
    target_file,
)
from wizard.plan import read_plan
from wizard.serve import Server, normal_url


def diagnose(
    file: str,
    *,
    plan: Path | None = None,
    vllm_version: str | None = None,
    exit_code: int | None = None,
    simulate: str | None = None,
) -> Diagnosis:
    """Cause and cure of the text in a file, of the newest log of a folder, or of standard input for ``-``.

    With ``plan`` (see ``wizard.plan.read_plan``) the remedies are made for that very command. ``simulate``
    names the recorded machine the text is from; without it the text alone decides: it may be from anywhere.
    """
    known = None if plan is None else read_plan(plan)
    machine = None if simulate is None else load_machine(simulate)
    if file == "-":
        return diagnose_text(
            sys.stdin.buffer, plan=known, machine=machine, vllm_version=vllm_version, exit_code=exit_code
        )
    return diagnose_file(
        paths.expanded(file), plan=known, machine=machine, vllm_version=vllm_version, exit_code=exit_code
    )


def examine(journey: Journey) -> tuple[Check, ...]:
    """The checks of a whole set-up, host first. Needs machine and runtime; changes nothing.

    On a recorded machine only the host can be checked: there is no server and no configuration to look at.
    """
    if journey.simulated:
        return journey.checks
    server, answer = _server_check(journey)
    return (*journey.checks, _runtime_check(journey), answer, *_opencode_checks(journey, server))


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


def _server_check(journey: Journey) -> tuple[Server | None, Check]:
    if journey.answers.start.base_url is None:
        return None, Check(id="server", status="skip", detail=_("No server runs, and none was named."))
    try:
        server = need(connect(journey).server)
    except WizardError as error:
        return None, Check(id="server", status="fail", detail=error.message, hint=error.hint)
    detail = _("{url} serves {names}, window {window}").format(
        url=server.base_url, names=", ".join(server.served_names), window=server.max_model_len or "?"
    )
    return server, Check(id="server", status="ok", detail=detail)


def _opencode_checks(journey: Journey, server: Server | None) -> tuple[Check, ...]:
    version, binary = None, find_opencode(journey.answers.opencode.binary)
    if binary is None:
        program = Check(
            id="opencode",
            status="warn",
            detail=_("opencode is not installed here."),
            hint=_("Install it with: npm install -g opencode-ai"),
        )
    else:
        version = opencode_version(binary)
        detail = _("opencode {version} at {path}").format(version=version or "?", path=binary)
        program = Check(id="opencode", status="ok", detail=detail)
    try:
        target = target_file(path=opencode_path(journey), project=journey.answers.opencode.project)
        models = configured_models(target.path)
    except WizardError as error:
        return program, Check(id="opencode-config", status="fail", detail=error.message, hint=error.hint)
    if not models:
        return program, Check(
            id="opencode-config",
            status="warn",
            detail=_("{path} names no server of your own.").format(path=target.path),
            hint=_("Write it with: vllm-opencode configure"),
        )
    return program, *(_model_check(model, server, version) for model in models)


def _model_check(model: ConfiguredModel, server: Server | None, version: str | None) -> Check:
    """One model: safe limits and, where it points to this server, a name and a window that match."""
    id = f"opencode-config:{model.provider}/{model.key}"
    ours = server is not None and normal_url(model.base_url) == server.base_url
    loop = would_loop(
        model.context,
        model.input,
        model.output,
        model.reserved,
        opencode_facts().base_prompt[-1].measured,
        window=server.max_model_len if server is not None and ours else None,
        cap=output_cap(),
        opencode_version=version,
        vllm_version=server.version if server is not None and ours else None,
    )
    if loop is not None:
        hint = _("Write safe limits with: vllm-opencode configure")
        return Check(id=id, status="fail", detail=loop.text, hint=hint)
    if server is None or not ours:
        detail = _("points to {url}, which was not asked").format(url=model.base_url)
        return Check(id=id, status="ok" if server is None else "skip", detail=detail)
    if model.sent_as not in server.served_names:
        detail = _("The server does not know {name}; it serves {names}.").format(
            name=model.sent_as, names=", ".join(server.served_names)
        )
        return Check(
            id=id, status="fail", detail=detail, hint=_("Write the right name with: vllm-opencode configure")
        )
    if server.max_model_len is not None and model.context > server.max_model_len:
        detail = _("The limit of {context} tokens is more than the server's window of {window}.").format(
            context=model.context, window=server.max_model_len
        )
        return Check(
            id=id, status="fail", detail=detail, hint=_("Write safe limits with: vllm-opencode configure")
        )
    return Check(id=id, status="ok", detail=_("name and limits match the server"))
