"""Firewalls: the real tools in a network of their own where that can be made, and what they printed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wizard.child import Outcome
from wizard.flow import Answers, Journey, MachineAnswers, ServeAnswers, prepare
from wizard.machine import Check, load_machine
from wizard.machine.checks import firewall
from wizard.machine.checks.packets import covers, kernel_verdict
from wizard.machine.checks.subject import Probe, Subject

HERE = msgspec.structs.replace(load_machine("h200"), simulated=None)
PORT = 8000


class Host(Probe, frozen=True, kw_only=True):
    """A host whose programs answer what they are told to; others are not installed."""

    programs: Mapping[str, Outcome | str] = {}

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.programs else None

    def run(self, *argv: str) -> Outcome:
        answer = self.programs.get(argv[0], Outcome(None, "", "No such file"))
        return Outcome(0, answer, "") if isinstance(answer, str) else answer


def checked(root: Path, programs: Any, listen: str = "0.0.0.0", **files: str) -> Check:
    (root / "run/systemd/system").mkdir(parents=True, exist_ok=True)
    if "ufw_conf" in files:
        (root / "etc/ufw").mkdir(parents=True, exist_ok=True)
        (root / "etc/ufw/ufw.conf").write_text(files["ufw_conf"])
    probe = Host(root=root, environ={}, programs=programs)
    return firewall.firewall(Subject(machine=HERE, host=listen, port=PORT, probe=probe))


def active(*states: str) -> Outcome:
    """``systemctl is-active`` exits with 3 when one of them is not."""
    return Outcome(3, "\n".join(states) + "\n", "")


NOTHING = active("inactive", "inactive", "inactive")
UFW = active("active", "inactive", "inactive")
FIREWALLD = active("inactive", "active", "inactive")
ROOT_ONLY = Outcome(1, "", "ERROR: You need to be root to run this script")
# Printed by ufw 0.36.2 for: allow 22/tcp; the rules of each case follow.
UFW_STATUS = """Status: active
Logging: on (low)
Default: {default} (incoming), allow (outgoing), disabled (routed)
New profiles: skip

To                         Action      From
--                         ------      ----
22/tcp                     ALLOW IN    Anywhere
{rules}
22/tcp (v6)                ALLOW IN    Anywhere (v6)
"""
FROM_LAN = "8000/tcp                   ALLOW IN    10.0.0.0/8"
RANGE = "7999:8001/tcp              ALLOW IN    Anywhere"


@pytest.mark.parametrize(
    ("default", "rules", "status", "text"),
    [
        ("deny", "", "warn", "sudo ufw allow 8000/tcp"),
        ("deny", FROM_LAN, "warn", "from some addresses only"),
        ("deny", f"{FROM_LAN}\n{RANGE}", "ok", "lets port 8000 in."),
        ("deny", RANGE.replace("/tcp", "/udp"), "warn", "keeps port 8000 closed"),
        ("deny", RANGE.replace("tcp ", "tcp on eth1 "), "warn", "keeps port 8000 closed"),
        ("deny", RANGE.replace("ALLOW", "LIMIT"), "ok", "lets port 8000 in."),
        ("allow", "", "ok", "lets port 8000 in."),
        ("allow", RANGE.replace("ALLOW IN", "DENY IN"), "warn", "keeps port 8000 closed"),
    ],
)
def test_ufw(tmp_path: Path, default: str, rules: str, status: str, text: str) -> None:
    programs = {"systemctl": UFW, "ufw": UFW_STATUS.format(default=default, rules=rules)}
    check = checked(tmp_path, programs, ufw_conf="ENABLED=yes\n")
    assert (check.status, text in f"{check.detail} {check.hint}") == (status, True)


def test_rules_that_only_root_may_read_are_said_to_be_unread(tmp_path: Path) -> None:
    check = checked(tmp_path, {"systemctl": UFW, "ufw": ROOT_ONLY, "docker": ""}, ufw_conf="ENABLED=yes")
    assert (check.status, "by root only" in check.detail) == ("warn", True)
    assert "Docker publishes go past ufw" in check.detail
    assert "sudo ufw allow 8000/tcp" in check.hint


@pytest.mark.parametrize("listen", ["127.0.0.1", "localhost", "::1"])
def test_on_loopback_no_firewall_matters(tmp_path: Path, listen: str) -> None:
    programs = {"systemctl": UFW, "ufw": UFW_STATUS.format(default="deny", rules="")}
    check = checked(tmp_path, programs, listen)
    assert (check.status, check.hint) == ("ok", "")
    assert "does not matter" in check.detail


def test_a_unit_of_a_ufw_that_is_switched_off_means_nothing(tmp_path: Path) -> None:
    """As on every fresh Ubuntu: its unit ran, and its settings say no."""
    check = checked(tmp_path, {"systemctl": UFW}, ufw_conf="# comment\nENABLED=no\n")
    assert (check.status, check.detail.split(".")[0]) == ("ok", "No firewall service is active")


ZONES = """drop
  target: DROP
  ports: 8000/tcp

public (default, active)
  target: default
  interfaces: eth0
  services: dhcpv6-client ssh
  ports: {public}
  rich rules:
{rich}

trusted ({trusted})
  target: ACCEPT
  ports:
"""


@pytest.mark.parametrize(
    ("public", "rich", "trusted", "status", "text"),
    [
        ("", "", "other", "warn", "sudo firewall-cmd --permanent --add-port=8000/tcp"),
        ("1025-65535/udp 1025-65535/tcp", "", "other", "ok", "lets port 8000 in."),
        ("8000/udp", "", "other", "warn", "keeps port 8000 closed"),
        ("", "", "active", "warn", "from some addresses only"),
        ("", '\trule family="ipv4" port port="8000" protocol="tcp" accept', "other", "warn", "not be told"),
    ],
)
def test_firewalld_by_the_zones_in_use(
    tmp_path: Path, public: str, rich: str, trusted: str, status: str, text: str
) -> None:
    zones = ZONES.format(public=public, rich=rich, trusted=trusted)
    check = checked(tmp_path, {"systemctl": FIREWALLD, "firewall-cmd": zones})
    assert (check.status, text in f"{check.detail} {check.hint}") == (status, True)


def test_firewalld_that_answers_root_only(tmp_path: Path) -> None:
    refused = Outcome(253, "", "Authorization failed.")
    check = checked(tmp_path, {"systemctl": FIREWALLD, "firewall-cmd": refused})
    assert (check.status, "by root only" in check.detail) == ("warn", True)


def test_rules_loaded_by_hand_count_without_any_service(tmp_path: Path) -> None:
    drop = {"nftables": [{"chain": {**CHAIN, "policy": "drop"}}]}
    check = checked(tmp_path, {"systemctl": NOTHING, "nft": json.dumps(drop)})
    assert (check.status, check.detail) == ("warn", "The packet filter keeps port 8000 closed.")
    denied = Outcome(1, "", "Operation not permitted (you must be root)")
    unread = checked(tmp_path, {"systemctl": NOTHING, "nft": denied})
    assert (unread.status, "by root only" in unread.detail) == ("ok", True)


def test_the_checks_are_told_where_the_server_will_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def checks(*given: object, **named: object) -> tuple[Check, ...]:
        seen.extend(given[1:])
        return ()

    monkeypatch.setattr(prepare, "checks", checks)
    answers = Answers(machine=MachineAnswers(simulate="h200"), serve=ServeAnswers(host="0.0.0.0", port=8123))
    prepare.look_at_machine(Journey(answers=answers))
    assert seen == [8123, "0.0.0.0"]


def test_a_host_that_tells_nothing(tmp_path: Path) -> None:
    assert checked(tmp_path, {}).status == "skip"


CHAIN = {"family": "inet", "table": "filter", "name": "input", "hook": "input", "policy": "accept"}


@pytest.mark.parametrize("answer", ["", "no json", "[]", Outcome(1, "{}", "")])
def test_what_nft_says_is_not_trusted(tmp_path: Path, answer: str | Outcome) -> None:
    probe = Host(root=tmp_path, environ={}, programs={"nft": answer})
    assert kernel_verdict(probe, PORT) is None


@pytest.mark.parametrize(
    ("entries", "expected"),
    [(["8000"], True), (["80", "7000:9000"], True), (["7000-7999"], False), (["http"], False), ([], False)],
)
def test_ports_and_ranges(entries: list[str], expected: bool) -> None:
    assert covers(entries, PORT) is expected


USUAL = (
    "ct state established,related accept; ct state invalid drop; iif lo accept; icmp type echo-request accept"
)
NFT = """table inet filter {{
  chain input {{
    type filter hook input priority 0; policy {policy}
    {rules}
  }}
}}"""


def nft(policy: str, *rules: str) -> str:
    return NFT.format(policy=policy, rules="\n".join((*USUAL.split("; "), *rules)))


REAL = [
    (nft("drop", "tcp dport { 22, 80 } accept"), (), "closed"),
    (nft("drop", "ip saddr 10.0.0.0/8 accept"), (), "partly"),
    (nft("drop", "tcp dport 7000-8100 ct state new counter accept"), (), "open"),
    (nft("drop", "tcp dport { 443, 7000-8100 } accept"), (), "open"),
    (nft("drop", "udp dport 8000 accept"), (), "closed"),
    (nft("accept", "tcp dport 8000 reject"), (), "closed"),
    (nft("accept", "tcp dport vmap { 22 : accept, 8000 : drop }"), (), "unclear"),
    (nft("accept", "tcp dport 8000 log counter"), (), "open"),
    (
        nft("drop", "tcp dport @ours accept").replace(
            "{\n  chain", "{\n  set ours { type inet_service; elements = { 8000 }; }\n  chain", 1
        ),
        (),
        "unclear",
    ),
    ("", ("-P INPUT DROP", "-A INPUT -i lo -j ACCEPT", "-A INPUT -p tcp --dport 22 -j ACCEPT"), "closed"),
    ("", ("-P INPUT DROP", "-A INPUT -s 192.168.0.0/16 -p tcp --dport 8000 -j ACCEPT"), "partly"),
    (
        "",
        (
            "-P INPUT DROP",
            "-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
            "-A INPUT -p tcp -m multiport --dports 443,7000:9000 -m comment --comment ours -j ACCEPT",
        ),
        "open",
    ),
    ("", ("-N x", "-A INPUT -j x"), "unclear"),
    ("", ("-N x", "-A INPUT -p tcp --dport 22 -j x"), "open"),
    ("", ("-A INPUT -p tcp --dport 8000 -j REJECT",), "closed"),
]
ASK = (
    "from wizard.machine.checks import packets, subject; print(packets.kernel_verdict(subject.Probe(), 8000))"
)


RECORDED = json.loads((Path(__file__).parents[1] / "data" / "packet_rules.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", RECORDED["cases"])
def test_what_the_tools_printed_for_them(tmp_path: Path, case: dict[str, Any]) -> None:
    """The same rules as they were read back where the tools are; by each tool alone and by both."""
    nft, iptables = json.dumps(case["nft"]), "\n".join(case["iptables"])
    both = Host(root=tmp_path, environ={}, programs={"nft": nft, "iptables": iptables})
    assert kernel_verdict(both, RECORDED["port"]) == case["verdict"]
    # What nft prints of rules that iptables made is not all it would take to judge them.
    alone = kernel_verdict(Host(root=tmp_path, environ={}, programs={"nft": nft}), RECORDED["port"])
    assert alone in (case["verdict"], "unclear")
    denied = Outcome(4, "", "iptables: Permission denied (you must be root)")
    barred = Host(root=tmp_path, environ={}, programs={"iptables": denied})
    assert kernel_verdict(barred, RECORDED["port"]) is None


def test_the_recorded_rules_are_the_ones_below() -> None:
    assert [case["verdict"] for case in RECORDED["cases"]] == [verdict for _nft, _iptables, verdict in REAL]


def _own_network() -> bool:
    tools = all(shutil.which(name) for name in ("unshare", "nft", "iptables"))
    return (
        tools and subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not _own_network(), reason="needs root, nft and iptables")
@pytest.mark.parametrize(("rules", "commands", "expected"), REAL)
def test_the_kernels_rules_read_back(rules: str, commands: tuple[str, ...], expected: str) -> None:
    """In a network of its own, which ends with the test."""
    load = "".join(f"iptables {command}\n" for command in commands)
    script = f"set -e\nnft -f - <<'END'\n{rules}\nEND\n{load}exec {sys.executable} -c '{ASK}'"
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.strip() == expected
