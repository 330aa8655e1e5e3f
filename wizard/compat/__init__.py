"""What works on a machine with a runtime, why, and what to choose from it."""

from wizard.compat.attention import attention_rule, with_attention
from wizard.compat.choose import (
    Wishes,
    choose,
    choose_best,
    find_row,
    read_config,
    served_name,
)
from wizard.compat.matrix import deciding, matrix, version_for
from wizard.compat.outside import choose_checkpoint
from wizard.compat.rules import badges
from wizard.compat.table import in_force
from wizard.compat.types import Choice, Reason, Row, Verdict

__all__ = [
    "Choice",
    "Reason",
    "Row",
    "Verdict",
    "Wishes",
    "attention_rule",
    "badges",
    "choose",
    "choose_best",
    "choose_checkpoint",
    "deciding",
    "find_row",
    "in_force",
    "matrix",
    "read_config",
    "served_name",
    "version_for",
    "with_attention",
]
