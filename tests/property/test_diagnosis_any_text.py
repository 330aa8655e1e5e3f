"""A diagnosis depends on the text alone, never fails, and shows only what is in it."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st

from wizard.diagnosis import diagnose_text

LINES = (
    "INFO:     Application startup complete.",
    "(EngineCore pid=1) ERROR 01-01 00:00:00 [core.py:1] EngineCore failed to start.",
    "(EngineCore pid=1) ERROR 01-01 00:00:00 [core.py:1] torch.OutOfMemoryError: CUDA out of memory.",
    "OSError: [Errno 98] Address already in use",
    "pydantic_core.ValidationError: 1 validation error for X",
    "The model `x` does not exist.",
    "non-default args: {'model_tag': 'Qwen/Qwen3-Coder-30B-A3B-Instruct', 'port': 8123}",
    "\x1b[31mError: red\x1b[0m",
    "",
    "{",
    "ValueError: " + "y" * 9000,
)
TEXTS = st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=40)), max_size=25).map(
    lambda lines: "\n".join(lines).encode("utf-8", errors="replace")
)


@settings(deadline=None)
@given(TEXTS, st.lists(st.integers(1, 200), max_size=20))
def test_the_pieces_a_text_comes_in_do_not_matter(text: bytes, sizes: list[int]) -> None:
    source = io.BytesIO(text)
    pieces = [source.read(size) for size in sizes] + [source.read()]
    assert diagnose_text(iter(pieces)) == diagnose_text(text)


@settings(deadline=None)
@given(TEXTS, st.sampled_from([None, 0, 1, -9, 137]))
def test_counts_and_evidence_are_true(text: bytes, exit_code: int | None) -> None:
    found = diagnose_text(text, exit_code=exit_code)
    assert found.bytes == len(text)
    assert found.lines == text.count(b"\n") + (not text.endswith(b"\n") and bool(text))
    for finding in found.findings:
        for evidence in finding.evidence:
            assert 1 <= evidence.line <= found.lines
            assert "\x1b" not in evidence.text
    if any(finding.severity == "error" for finding in found.findings):
        assert found.verdict in ("failed", "unknown")


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_a_text(data: bytes) -> None:
    assert diagnose_text(data).verdict in ("healthy", "failed", "unknown", "incomplete")
