"""What is not known stays unknown, and what means nothing is no finding."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from wizard.diagnosis import UNRECOGNISED, Diagnosis, diagnose_file, diagnose_text
from wizard.diagnosis.scan import Scanner
from wizard.machine import load_machine, machine_names

DATA = Path(__file__).parents[1] / "data"
FAILED = DATA / "logs" / "failed"
CAUSES = {
    "triton-turing": "triton-turing",
    "weights-grown": "kv-cache-too-small",
    "desktop-holds-memory": "gpu-memory-taken",
    "other-job-holds-memory": "gpu-memory-taken",
    "weights-fill-a-t4": "out-of-memory-weights",
    "weights-fill-16-gib": "out-of-memory-weights",
    "graphs": "out-of-memory-graphs",
    "too-few-gpus": "tensor-parallel-over-gpus",
    "silent-end": "ended-silently",
    "native-crash": UNRECOGNISED,
}
FAILURES = sorted(set(CAUSES) - {"silent-end"})
HARMLESS = (DATA / "harmless_lines.txt").read_text(encoding="utf-8").splitlines()
BANNER = "(APIServer pid=1) INFO 11-30 10:00:00 [api_server.py:1896] vLLM API server version 0.26.0\n"
READY = "(APIServer pid=1) INFO:     Application startup complete.\n"
NOVEL = (
    "(EngineCore pid=2) ERROR 11-30 10:00:05 [core.py:1] EngineCore failed to start.\n"
    "(EngineCore pid=2) ERROR 11-30 10:00:05 [core.py:1] Traceback (most recent call last):\n"
    "(EngineCore pid=2) ERROR 11-30 10:00:05 [core.py:1] {error}\n"
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.\n"
)


def serious(found: Diagnosis) -> list[str]:
    return [finding.fault for finding in found.findings if finding.severity != "info"]


def test_every_failed_log_has_its_expected_cause_here() -> None:
    assert {file.stem for file in FAILED.iterdir()} == set(CAUSES)


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_of_a_published_log_comes_first(name: str) -> None:
    assert diagnose_file(FAILED / f"{name}.txt").findings[0].fault == CAUSES[name]


@pytest.mark.parametrize("name", FAILURES)
def test_without_its_root_lines_a_failure_is_unknown_and_its_last_block_shown(name: str) -> None:
    text = (FAILED / f"{name}.txt").read_text(encoding="utf-8")
    scanner = Scanner()
    scanner.feed(text.encode())
    roots = {hit.record.number for hit in scanner.finish().hits if hit.matcher.fault.severity != "info"}
    cut = [line for number, line in enumerate(text.splitlines(), 1) if number not in roots]
    found = diagnose_text("\n".join(cut) + "\n")
    assert (found.verdict, serious(found)) == ("unknown", [UNRECOGNISED])
    for evidence in found.findings[0].evidence:
        assert evidence.text[:40].split("…")[0] in " ".join(cut[evidence.line - 1].split())


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("seed", range(3))
def test_shuffled_words_name_no_cause(name: str, seed: int) -> None:
    order = random.Random(seed)
    lines = []
    for line in (FAILED / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        words = line.split()
        order.shuffle(words)
        lines.append(" ".join(words))
    assert serious(diagnose_text("\n".join(lines))) in ([], [UNRECOGNISED])


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: the moon is in the wrong phase",
        "torch._dynamo.exc.InternalTorchDynamoError: KeyError: 'zebra_layer'",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices",
        "AssertionError",
        "AttributeError: 'ZebraConfig' object has no attribute 'stripe_count'",
        "TypeError: ZebraForCausalLM.forward() missing 1 required positional argument: 'stripes'",
        "KeyError: 'model.layers.0.mlp.zebra_proj.weight'",
        "OSError: [Errno 5] Input/output error",
    ],
)
def test_a_new_error_is_quoted_and_not_explained(error: str) -> None:
    found = diagnose_text(BANNER + NOVEL.format(error=error), machine=load_machine("gb10"))
    assert (found.verdict, serious(found)) == ("unknown", [UNRECOGNISED])
    assert error in [evidence.text for evidence in found.findings[0].evidence]


@pytest.mark.parametrize("seed", range(20))
def test_random_words_of_logs_name_no_cause(seed: int) -> None:
    choose = random.Random(seed)
    words = " ".join((FAILED / f"{name}.txt").read_text(encoding="utf-8") for name in FAILURES).split()
    text = "\n".join(" ".join(choose.choice(words) for _ in range(14)) for _ in range(200))
    assert serious(diagnose_text(text)) in ([], [UNRECOGNISED])


@pytest.mark.parametrize("line", HARMLESS)
def test_a_harmless_line_is_nothing_above_info_wherever_it_stands(line: str) -> None:
    for machine in (None, load_machine("gb10"), load_machine("v100x10")):
        assert serious(diagnose_text(line + "\n", machine=machine)) == []
        assert serious(diagnose_text(BANNER + line + "\n" + READY, machine=machine)) == []


def test_a_harmless_line_says_on_its_own_that_it_is() -> None:
    found = diagnose_text(
        "WARNING 06-18 09:16:00 [envs.py:2057] Unknown vLLM environment variable detected: X\n"
    )
    assert (found.verdict, found.findings[0].severity) == ("healthy", "info")


def test_the_machine_changes_no_verdict_of_a_log_that_serves() -> None:
    log = DATA / "logs" / "healthy-with-tracebacks.txt"
    for name in machine_names():
        found = diagnose_file(log, machine=load_machine(name))
        assert (found.verdict, serious(found)) == ("healthy", [])
