"""A linter for the fault base: duplicates, entries that shadow each other, too narrow or too wide ones."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator

from wizard.diagnosis.faultbase import faults, log_words
from wizard.diagnosis.types import Condition, Fault, Signature
from wizard.machine import load_machine, machine_names

IDS = [fault.id for fault in faults()]
STAGES = {stage.name for stage in log_words().stage}


def signatures() -> Iterator[tuple[Fault, Signature]]:
    return ((fault, signature) for fault in faults() for signature in fault.signature)


def test_codes_are_unique_and_of_one_form() -> None:
    assert [id for id, count in collections.Counter(IDS).items() if count > 1] == []
    assert [id for id in IDS if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", id)] == []


def test_what_a_fault_replaces_exists_and_never_in_a_circle() -> None:
    replaces = {fault.id: set(fault.replaces) for fault in faults()}
    for id, others in replaces.items():
        assert others <= set(IDS), id
        assert id not in others
        assert [other for other in others if id in replaces[other]] == [], id


def test_no_two_faults_claim_the_same_line_unless_something_decides_between_them() -> None:
    """The same signature in two faults needs a condition, a rank or a replacement that tells them apart."""
    claims = collections.defaultdict(list)
    for fault, signature in signatures():
        claims[signature.literal, signature.pattern].append((fault, signature))
    for found in claims.values():
        for at, (first, one) in enumerate(found):
            for second, other in found[at + 1 :]:
                decided = (
                    first.id == second.id
                    or first.when != second.when
                    or (one.weak, one.needs, one.after, one.unless)
                    != (other.weak, other.needs, other.after, other.unless)
                    or first.id in second.replaces
                    or second.id in first.replaces
                )
                assert decided, (first.id, second.id, one.literal)


def test_no_signature_is_there_twice_in_its_fault() -> None:
    for fault in faults():
        assert len(set(map(repr, fault.signature))) == len(fault.signature), fault.id
        plain = [s.literal for s in fault.signature if s == Signature(literal=s.literal)]
        for signature in fault.signature:
            shadowed = [word for word in plain if word in signature.literal and word != signature.literal]
            assert shadowed == [] or re.compile(signature.pattern).groups, (fault.id, signature.literal)


def test_no_fault_is_hidden_behind_a_shorter_word_of_another() -> None:
    """A line of the one would always show the other too: one replaces the other, or a condition decides."""
    replaces = {fault.id: set(fault.replaces) for fault in faults()}
    plain = [(fault, one.literal) for fault, one in signatures() if one == Signature(literal=one.literal)]
    for fault, signature in signatures():
        for other, word in plain:
            if other.id == fault.id or signature.weak or word not in signature.literal:
                continue
            related = other.id in replaces[fault.id] or fault.id in replaces[other.id]
            assert related or other.when != fault.when, (other.id, word, fault.id, signature.literal)


def test_words_hold_no_quotation_marks_which_differ_from_version_to_version() -> None:
    for fault, signature in signatures():
        for words in (signature.literal, *signature.needs, *signature.after, *signature.unless):
            assert not set(words) & set("'\"`\u2018\u2019"), (fault.id, words)


def test_words_are_long_enough_to_mean_something() -> None:
    """A short word alone, without a pattern, would be found in anything."""
    for fault, signature in signatures():
        assert signature.pattern or len(signature.literal) >= 8, (fault.id, signature.literal)


def test_signatures_name_no_source_lines_process_ids_or_times() -> None:
    for fault, signature in signatures():
        text = signature.literal + signature.pattern
        assert not re.search(r"\.py:\d|line \d|pid[= ]\d|\d\d:\d\d:\d\d", text), (fault.id, text)


def test_every_condition_can_hold_on_some_machine() -> None:
    capabilities = {gpu.capability for name in machine_names() for gpu in load_machine(name).gpus}
    for fault in faults():
        for condition in (fault.when, *(remedy.when for remedy in fault.remedy)):
            assert set(condition.stage) <= STAGES | {""}, fault.id
            if condition.capability:
                low, high = condition.capability
                assert any(low <= one <= high for one in capabilities) or high < 70, fault.id
        assert not fault.only_known or fault.when != Condition(), fault.id


def test_the_base_has_fewer_causes_than_a_collection_of_reports() -> None:
    """A code is a cause, not a line: there are several ways to see most of them."""
    lines = sum(len(fault.signature) for fault in faults())
    assert lines > 2 * len(IDS)


PRICED = {"--trust-remote-code", "--tool-strict-level", "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "HF_HUB_OFFLINE"}
"""What costs safety or quality whatever its value; so do an 8-bit cache and a server for every network."""


def test_what_costs_quality_or_safety_is_left_to_a_person_who_is_told_the_price() -> None:
    for fault in faults():
        for remedy in fault.remedy:
            edits = {**remedy.set, **remedy.env}
            priced = bool(PRICED & edits.keys())
            priced |= str(edits.get("--kv-cache-dtype", "")).startswith("fp8")
            priced |= edits.get("--host") == "0.0.0.0" or "enable_thinking" in str(edits)
            assert remedy.manual or not priced, (fault.id, remedy.title)
            assert not remedy.manual or remedy.effect, (fault.id, remedy.title)
            assert not remedy.manual or edits or remedy.unset, (fault.id, remedy.title)
