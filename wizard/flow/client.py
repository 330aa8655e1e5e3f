"""The steps at the client: plan opencode's configuration, write it, prove it with the real opencode."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec

from wizard.budget import Limits, would_loop
from wizard.errors import RefusedError
from wizard.flow.answers import Answers, key_variable
from wizard.flow.elsewhere import reachable_from_elsewhere
from wizard.flow.journey import Journey, Step, answer, need
from wizard.flow.places import client_environ, opencode_path, prepare, receipt_path
from wizard.flow.records import verdict_here
from wizard.flow.serving import key_of, known_model, limits_of, thinks
from wizard.i18n import _
from wizard.opencode import (
    ConfigRequest,
    OpencodeChange,
    Proof,
    confirm_change,
    find_opencode,
    globals_wanted,
    install_opencode,
    interleaved_field,
    is_variable,
    opencode_version,
    plan_change,
    plan_export,
    prove_change,
    target_file,
    write_change,
)
from wizard.receipt import Verdict, verdict_of


def plan_configuration(journey: Journey, *, unproven: bool = False) -> Journey:
    """Step opencode, first half: the change as a diff; nothing is written.

    Raises RefusedError after a failed smoke test unless ``unproven``, and for limits that would loop.
    """
    journey = prepare(journey)
    doubts = _require_smoke(journey, unproven)
    _require_consent(journey)
    wanted = journey.answers.opencode
    variables = client_environ(journey)
    target = target_file(
        path=opencode_path(journey), project=wanted.project, provider=wanted.provider, environ=variables
    )
    request = _request(journey, globals_wanted(wanted.globals, target))
    change = plan_change(request, target, environ=variables)
    _require_safe_as_written(change, request)
    change = msgspec.structs.replace(change, warnings=(*doubts, *change.warnings))
    return msgspec.structs.replace(journey, change=change)


def plan_exported(journey: Journey, folder: Path, *, unproven: bool = False) -> Journey:
    """The configuration for developers elsewhere, as files in a folder to carry there; nothing is written.

    The server is reached by its address in the network, which is tried from here. Raises RefusedError when
    it answers this machine only, and as ``plan_configuration`` does.
    """
    doubts = _require_smoke(journey, unproven)
    key = key_of(journey.answers)
    server = reachable_from_elsewhere(need(journey.server), key)
    journey = msgspec.structs.replace(journey, server=server)
    request = _request(journey, journey.answers.opencode.globals != "no")
    change = plan_export(request, folder, key)
    _require_safe_as_written(change, request)
    if key is None:
        doubts = (*doubts, _("The server asks for no key: whoever reaches it can use it."))
    change = msgspec.structs.replace(change, warnings=(*doubts, *change.warnings))
    return msgspec.structs.replace(journey, change=change)


def _request(journey: Journey, all_providers: bool) -> ConfigRequest:
    """What shall be written for the server of a journey. Raises RefusedError for limits that would loop."""
    server, wanted = need(journey.server), journey.answers.opencode
    version = opencode_version(binary) if (binary := find_opencode(wanted.binary)) else None
    limits = limits_of(journey, opencode_version=version)
    _require_safe(limits)
    reasoning = thinks(journey)
    key_file, key_name = key_places(journey.answers)
    return ConfigRequest(
        provider=wanted.provider,
        provider_explicit=wanted.provider != "vllm",
        provider_name=_("Local vLLM"),
        base_url=server.base_url,
        model_key=server.model,
        model_name=_model_name(journey),
        limits=limits,
        reasoning=reasoning,
        interleaved=interleaved_field(server.version) if reasoning else None,
        api_key_file=key_file,
        api_key_env=key_name,
        globals=all_providers,
        default_model=wanted.default_model,
        private=wanted.private,
        denied_tools=limits.denied_tools,
        opencode_version=version,
        vllm_version=server.version,
    )


def key_places(answers: Answers) -> tuple[str | None, str | None]:
    """The file or the variable in which opencode finds the key; both None: the server wants none."""
    wanted = answers.opencode
    if wanted.api_key_file is not None or wanted.api_key_env is not None:
        return wanted.api_key_file, wanted.api_key_env
    return answers.serve.api_key_file, key_variable(answers)


def name_key(journey: Journey, place: str) -> Journey:
    """opencode finds the key in this file, or in this variable if it is a name of one."""
    is_name = is_variable(place)
    wanted = msgspec.structs.replace(
        journey.answers.opencode,
        api_key_file=None if is_name else place,
        api_key_env=place if is_name else None,
    )
    return answer(journey, Step.OPENCODE, opencode=wanted)


def install_client(journey: Journey, cancel: threading.Event) -> Journey:
    """opencode installed with npm, and used from here on. Raises RefusedError, InstallError."""
    path = install_opencode(cancel=cancel)
    wanted = msgspec.structs.replace(journey.answers.opencode, binary=path)
    answers = msgspec.structs.replace(journey.answers, opencode=wanted)
    return msgspec.structs.replace(journey, answers=answers)


def client_missing(journey: Journey) -> bool:
    """Whether there is no opencode on this machine that could be used."""
    return not journey.simulated and find_opencode(journey.answers.opencode.binary) is None


def write_configuration(journey: Journey) -> Journey:
    """Step opencode, second half: write the planned change, with a backup of what was there."""
    change = need(journey.change)
    return msgspec.structs.replace(journey, change=write_change(change))


def confirm_configuration(journey: Journey) -> Journey:
    """What the installed opencode makes of the configuration that is in place; nothing in a simulation."""
    change = need(journey.change)
    binary = None if journey.simulated else find_opencode(journey.answers.opencode.binary)
    if binary is None or change.pending or change.action == "refused":
        return journey
    confirmed = msgspec.structs.replace(change, confirmed=confirm_change(change, binary))
    return msgspec.structs.replace(journey, change=confirmed)


def prove(journey: Journey, cancel: threading.Event) -> Journey:
    """The real opencode says how it reads the written configuration, then performs a tool call with it.

    Skipped in a simulation, and where there is no opencode.
    """
    if need(journey.change).confirmed is None:
        journey = confirm_configuration(journey)
    change = need(journey.change)
    server = need(journey.server)
    if journey.simulated:
        skipped = Proof(status="skipped", detail=_("A rehearsal: the real opencode is left alone."))
        return msgspec.structs.replace(journey, proof=skipped)
    binary = find_opencode(journey.answers.opencode.binary)
    if binary is None:
        skipped = Proof(
            status="skipped",
            detail=_("opencode is not installed here."),
            hint=_("Install it with: npm install -g opencode-ai"),
        )
        return msgspec.structs.replace(journey, proof=skipped)
    proof = prove_change(change, server, binary, cancel=cancel)
    return msgspec.structs.replace(journey, proof=proof)


def last_verdict(journey: Journey) -> Verdict | None:
    """What the last smoke test of the journey's server came to: its own, else the one that was kept."""
    server = need(journey.server)
    return verdict_here(journey) or verdict_of(receipt_path(journey), server.base_url, server.model)


def _require_smoke(journey: Journey, unproven: bool) -> tuple[str, ...]:
    """What has to be said of a server that failed its test. Raises RefusedError unless ``unproven``."""
    last = last_verdict(journey)
    if last is None or last.verdict != "fail":
        return ()
    if unproven:
        text = _("NOT PROVEN: the smoke test failed ({failed}), and opencode is set up all the same.")
        return (text.format(failed=last.failed),)
    earlier = journey.smoke is None
    text = (
        _("The smoke test of {when} failed ({failed})") if earlier else _("The smoke test failed ({failed})")
    )
    again = _("Test again with `vllm-opencode smoke`, or go on without proof: --unproven.")
    raise RefusedError(
        text.format(when=last.tested, failed=last.failed),
        f"{last.hint or _('opencode would not work with this server.')} {again}",
    )


def _require_safe(limits: Limits) -> None:
    refusal = next((warning for warning in limits.warnings if warning.refuses), None)
    if refusal is not None:
        raise RefusedError(refusal.text, _("Start vLLM with a longer window, or ask for a shorter output."))


def _require_consent(journey: Journey) -> None:
    """Tools are denied by a key that touches all providers: not against an outright no."""
    if journey.answers.budget.trim_tools and journey.answers.opencode.globals == "no":
        raise RefusedError(
            _("Denying tools of opencode touches all providers, and that was not agreed to."),
            _("Agree with --globals yes, or leave --trim-tools out."),
        )


def _require_safe_as_written(change: OpencodeChange, request: ConfigRequest) -> None:
    """Without the root key ``compaction.reserved`` opencode 2 keeps more free than the limits allow for."""
    written, limits = change.limit, request.limits
    loop = would_loop(
        written["context"],
        written.get("input"),
        written["output"],
        limits.reserved if "input" in written else None,
        limits.base_prompt_tokens,
        opencode_version=request.opencode_version,
    )
    if loop is not None:
        raise RefusedError(loop.text, _("Agree to the keys that touch all providers: --globals yes sets it."))


def _model_name(journey: Journey) -> str:
    """The name a person sees in opencode's model list: the catalogue's, else the served name."""
    entry = known_model(journey)
    name = need(journey.server).model if entry is None else entry.name
    return _("{name} (local)").format(name=name)
