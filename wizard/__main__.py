"""``python -m wizard``: the same as the command ``vllm-opencode``."""

import sys

from wizard.cli import main

sys.exit(main())
