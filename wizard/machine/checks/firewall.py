"""Whether a firewall lets other machines reach the server. While it listens on loopback, none matters."""

from __future__ import annotations

import re

from wizard.http import is_loopback
from wizard.i18n import N_, _
from wizard.machine.checks.packets import Rule, Verdict, covers, decide, kernel_verdict
from wizard.machine.checks.subject import Probe, Subject
from wizard.machine.types import Check

_SERVICES = ("ufw", "firewalld", "nftables")
_WORDS: dict[Verdict | None, str] = {
    "open": N_("{names} lets port {port} in."),
    "closed": N_("{names} keeps port {port} closed."),
    "partly": N_("{names} lets port {port} in from some addresses only."),
    "unclear": N_("{names} is active; whether its rules let port {port} in could not be told."),
    None: N_("{names} is active; its rules can be read by root only."),
}
_UFW_ACTIONS = {"ALLOW": "accept", "LIMIT": "accept", "DENY": "drop", "REJECT": "drop"}
_UFW_DEFAULT = re.compile(r"^Default: (\w+) \(incoming\)", re.MULTILINE)
_UFW_RULE = re.compile(r"^(.+?)\s{2,}(ALLOW|LIMIT|DENY|REJECT)(?: IN)?\s{2,}(.+?)\s*$", re.MULTILINE)
_ZONE = re.compile(r"^\S.*\((?:.*, )?active\)$")


def firewall(subject: Subject) -> Check:
    """What can be read of the rules without root is read; a warning only for a server others are to reach."""
    probe, port = subject.probe, subject.port
    command = "sudo ufw status verbose; sudo nft list ruleset"
    names, verdict = _found(probe, port)
    local = is_loopback(f"http://[{subject.host}]" if ":" in subject.host else f"http://{subject.host}")
    if not names:
        if verdict is None and probe.which("nft") is None and not _has_systemd(probe):
            detail = _("Not known: it could not be read.")
            return Check(id="firewall", status="skip", detail=detail, command=command)
        detail = _("No firewall service is active.")
        if verdict is None:
            detail += " " + _("Rules that were loaded without one can be read by root only.")
        return Check(id="firewall", status="ok", detail=detail, command=command)
    details = [_(_WORDS[verdict]).format(names=", ".join(names), port=port)]
    if local:
        details.append(_("It does not matter while the server listens on this machine only."))
    if "ufw" in names and probe.which("docker") is not None:
        details.append(_("Ports that Docker publishes go past ufw."))
    if local or verdict == "open":
        return Check(id="firewall", status="ok", detail=" ".join(details), command=command)
    text = _("Let it in: {how}") if verdict == "closed" else _("If others cannot reach the server: {how}")
    hint = text.format(how=_opening(names, port))
    return Check(id="firewall", status="warn", detail=" ".join(details), hint=hint, command=command)


def _found(probe: Probe, port: int) -> tuple[tuple[str, ...], Verdict | None]:
    """Which firewalls are active, and what they do with the port; None: this user may not read it.

    The rules of ufw and firewalld are asked of them: in the kernel they are chains that hold many others.
    """
    active = _active(probe)
    if "ufw" in active:
        return active, _ufw(probe, port)
    if "firewalld" in active:
        return active, _firewalld(probe, port)
    verdict = kernel_verdict(probe, port)
    if not active and verdict in ("closed", "partly", "unclear"):
        return (_("The packet filter"),), verdict
    return active, verdict


def _active(probe: Probe) -> tuple[str, ...]:
    """ufw's unit counts as active even where ufw is switched off; its settings tell, which all may read."""
    active = set()
    if _has_systemd(probe):
        states = probe.run("systemctl", "is-active", *_SERVICES).output.split()
        active = {name for name, state in zip(_SERVICES, states, strict=False) if state == "active"}
    settings = probe.text("etc/ufw/ufw.conf")
    if settings is not None:
        on = any(line.strip().lower() == "enabled=yes" for line in settings.splitlines())
        active = active | {"ufw"} if on else active - {"ufw"}
    return tuple(name for name in _SERVICES if name in active)


def _has_systemd(probe: Probe) -> bool:
    return probe.which("systemctl") is not None and probe.exists("run/systemd/system")


def _ufw(probe: Probe, port: int) -> Verdict | None:
    """From ``ufw status verbose``, which lists the rules in their order, and resolves names of programs."""
    outcome = probe.run("ufw", "status", "verbose")
    default = _UFW_DEFAULT.search(outcome.output)
    if outcome.code != 0 or default is None:
        return None
    rules = []
    for to, action, origin in _UFW_RULE.findall(outcome.output):
        target = to.partition(" ")[0]
        ports, _slash, protocol = target.partition("/")
        elsewhere = "(v6)" in to or " on " in to or protocol not in ("", "tcp")
        if elsewhere or not (target == "Anywhere" or covers(ports.split(","), port)):
            continue
        rules.append(Rule("all" if origin == "Anywhere" else "some", _UFW_ACTIONS[action]))
    return decide(rules, "accept" if default[1] == "allow" else "drop")


def _firewalld(probe: Probe, port: int) -> Verdict | None:
    """Of the zones that are in use each must let the port in, by its ports or because it lets all in."""
    outcome = probe.run("firewall-cmd", "--list-all-zones")
    if outcome.code != 0:
        return None
    zones: list[bool] = []
    inside = rich = False
    for line in outcome.output.splitlines():
        if line and not line[0].isspace():
            inside = _ZONE.match(line) is not None
            if inside:
                zones.append(False)
            continue
        key, _colon, value = line.strip().partition(": ")
        if not inside:
            continue
        if key == "target" and value == "ACCEPT":
            zones[-1] = True
        if key == "ports":
            named = [entry.removesuffix("/tcp") for entry in value.split() if entry.endswith("/tcp")]
            zones[-1] = zones[-1] or covers(named, port)
        rich = rich or key.startswith("rule ")
    if not zones:
        return None
    if all(zones):
        return "open"
    return "partly" if any(zones) else "unclear" if rich else "closed"


def _opening(names: tuple[str, ...], port: int) -> str:
    if "ufw" in names:
        return f"sudo ufw allow {port}/tcp"
    if "firewalld" in names:
        return f"sudo firewall-cmd --permanent --add-port={port}/tcp && sudo firewall-cmd --reload"
    return _("accept TCP port {port} in your rules, which sudo nft list ruleset shows.").format(port=port)
