"""What the kernel's packet filter does with a connection from outside to a port. Only root may read it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from wizard.machine.checks.subject import Probe

Verdict = Literal["open", "closed", "partly", "unclear"]
_Applies = Literal["all", "some", "never", "unclear"]
_WORST_FIRST: tuple[Verdict, ...] = ("closed", "unclear", "partly", "open")
_HARMLESS = ("counter", "log", "limit", "comment")
"""Parts of a rule that change nothing about who is let in at a usual pace."""
_OF_IPTABLES = ["ip", "filter", "INPUT"]
"""Family, table and chain in which nft shows the rules of iptables, not all of which it can read."""


class Rule(NamedTuple):
    """To which new connections to the port a rule applies; ``accept``, ``drop`` or what else it does."""

    applies: _Applies
    action: str


def decide(rules: Iterable[Rule], default: str) -> Verdict:
    """The first rule for every connection decides, else the ``default``; rules for some are remembered."""
    partly = False
    for applies, action in rules:
        if applies == "never":
            continue
        if applies == "unclear" or action not in ("accept", "drop"):
            return "unclear"
        if applies == "all":
            default = action
            break
        partly = partly or action == "accept"
    return "open" if default == "accept" else "partly" if partly else "closed"


def covers(entries: Iterable[str], port: int) -> bool:
    """Whether ``8000``, ``8000:8010`` or ``8000-8010`` among the entries holds the port."""
    for entry in entries:
        first, _dash, last = entry.replace(":", "-").partition("-")
        if first.isdecimal() and int(first) <= port <= int(last if last.isdecimal() else first):
            return True
    return False


def kernel_verdict(probe: Probe, port: int) -> Verdict | None:
    """By nftables and iptables, both of which must let the port in; None: neither is readable."""
    by_iptables = _by_iptables(probe, port) if probe.which("iptables") is not None else None
    by_nft = None
    if probe.which("nft") is not None:
        by_nft = _by_nft(probe, port, without=None if by_iptables is None else _OF_IPTABLES)
    found = [verdict for verdict in (by_iptables, by_nft) if verdict is not None]
    return min(found, key=_WORST_FIRST.index, default=None)


def _by_nft(probe: Probe, port: int, without: Sequence[str] | None) -> Verdict | None:
    """Every chain that sees incoming packets must let them in; ``without`` is one not to judge here."""
    outcome = probe.run("nft", "--json", "list", "ruleset")
    try:
        entries = json.loads(outcome.output)["nftables"] if outcome.code == 0 else None
    except (ValueError, KeyError, TypeError):
        entries = None
    if entries is None:
        return None
    verdicts: list[Verdict] = ["open"]
    rules = [entry["rule"] for entry in entries if "rule" in entry]
    for chain in (entry["chain"] for entry in entries if "chain" in entry):
        place = [chain["family"], chain["table"], chain["name"]]
        if chain.get("hook") == "input" and chain["family"] in ("inet", "ip") and place != without:
            own = (rule for rule in rules if [rule["family"], rule["table"], rule["chain"]] == place)
            verdicts.append(decide((_nft_rule(rule["expr"], port) for rule in own), chain["policy"]))
    return min(verdicts, key=_WORST_FIRST.index)


def _nft_rule(parts: Sequence[dict[str, Any]], port: int) -> Rule:
    applies: list[_Applies] = ["all"]
    action = ""
    for part in parts:
        ((kind, body),) = part.items()
        if kind == "match":
            applies.append(_nft_match(body, port))
        elif kind == "vmap" and _is_state(body["key"]):
            states = {state for state, _verdict in body["data"]["set"]}
            applies.append("unclear" if "new" in states else "never")
        elif kind in ("accept", "drop", "reject"):
            action = "drop" if kind == "reject" else kind
        elif kind not in _HARMLESS:
            # A jump to another chain, or what nft itself cannot read.
            applies.append("unclear")
    if not action and "unclear" not in applies:
        return Rule("never", "")
    return Rule(_narrowest(applies), action)


def _nft_match(match: dict[str, Any], port: int) -> _Applies:
    left, right, equal = match["left"], match["right"], match["op"] in ("==", "in")
    payload, meta = left.get("payload", {}), left.get("meta", {})
    if _is_state(left) and equal:
        return "all" if "new" in _members(right) else "never"
    if payload.get("field") == "dport" and equal:
        if payload["protocol"] == "udp":
            return "never"
        if isinstance(right, str) and right.startswith("@"):
            # A set with a name, which is listed elsewhere.
            return "unclear"
        return "all" if covers(_members(right), port) else "never"
    if meta.get("key") in ("iif", "iifname"):
        return ("never" if right == "lo" else "some") if equal else ("all" if right == "lo" else "unclear")
    if meta.get("key") == "l4proto" or payload.get("field") in ("protocol", "nexthdr"):
        return ("all" if "tcp" in _members(right) else "never") if equal else "unclear"
    if str(payload.get("protocol", "")).startswith("icmp"):
        return "never"
    return "some" if payload.get("field") == "saddr" and equal else "unclear"


def _is_state(left: dict[str, Any]) -> bool:
    return bool(left.get("ct", {}).get("key") == "state")


def _members(right: Any) -> list[str]:
    """What a match compares with: a value, a range, or a set of both."""
    values = right["set"] if isinstance(right, dict) and "set" in right else right
    return [
        "-".join(map(str, value["range"])) if isinstance(value, dict) and "range" in value else str(value)
        for value in (values if isinstance(values, list) else [values])
    ]


def _by_iptables(probe: Probe, port: int) -> Verdict | None:
    outcome = probe.run("iptables", "-S", "INPUT")
    lines = [shlex.split(line) for line in outcome.output.splitlines()] if outcome.code == 0 else []
    policy = next((words[2] for words in lines if words[:2] == ["-P", "INPUT"]), None)
    if policy is None:
        return None
    rules = (_iptables_rule(words[2:], port) for words in lines if words[:2] == ["-A", "INPUT"])
    return decide(rules, policy.lower())


def _iptables_rule(words: Sequence[str], port: int) -> Rule:
    action = words[words.index("-j") + 1] if "-j" in words else ""
    if action in ("", "LOG", "NFLOG"):
        return Rule("never", "")
    named = {"ACCEPT": "accept", "DROP": "drop", "REJECT": "drop"}.get(action, action)
    return Rule(_narrowest(_iptables_matches(words[: words.index("-j")], port)), named)


def _iptables_matches(words: Sequence[str], port: int) -> Iterator[_Applies]:
    """One answer a condition; a module named by ``-m`` is none."""
    yield "all"
    left = list(words)
    while left:
        option = left.pop(0)
        value = left.pop(0) if left and option.startswith("-") else ""
        match option:
            case "-p":
                yield "all" if value in ("tcp", "all") else "never"
            case "-i":
                yield "never" if value == "lo" else "some"
            case "-s":
                yield "some"
            case "--dport" | "--dports":
                yield "all" if covers(value.split(","), port) else "never"
            case "--state" | "--ctstate":
                yield "all" if "NEW" in value.split(",") else "never"
            case "-m" | "--comment" | "--limit" | "--limit-burst":
                continue
            case _:
                yield "unclear"


def _narrowest(applies: Iterable[_Applies]) -> _Applies:
    """What all conditions of a rule leave together."""
    order: tuple[_Applies, ...] = ("never", "unclear", "some", "all")
    return min(applies, key=order.index)
