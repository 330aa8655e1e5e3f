"""What holds for every test, the end-to-end ones too."""

from __future__ import annotations

import os
import sys

# Some images forbid Python to keep what it compiled. Then every process that a test starts would compile the
# whole wizard anew, and every worker the tests: several times the work of the tests themselves.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
