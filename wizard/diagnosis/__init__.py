"""Names the cause of a failure in a log, an HTTP error or opencode's output, and what cures it."""

from wizard.diagnosis.diagnose import Watch, diagnose_file, diagnose_text
from wizard.diagnosis.remedies import edit_of
from wizard.diagnosis.types import (
    UNRECOGNISED,
    Diagnosis,
    Evidence,
    Finding,
    Remedy,
    RemedyKind,
    Severity,
    Verdict,
)

__all__ = [
    "UNRECOGNISED",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Remedy",
    "RemedyKind",
    "Severity",
    "Verdict",
    "Watch",
    "diagnose_file",
    "diagnose_text",
    "edit_of",
]
