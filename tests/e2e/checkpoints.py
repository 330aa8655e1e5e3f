"""Builds the tiny checkpoints: `python checkpoints.py OUT_DIR [format...]`.

Run it with the Python of vLLM's environment. Without formats all are built, each into a folder of its name.
See `tinymodel` for what they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tinymodel import build, tokenizer


def main(arguments: list[str]) -> int:
    """Builds what the arguments name; 2 if they make no sense."""
    unknown = [name for name in arguments[1:] if name not in build.FORMATS]
    if not arguments or unknown:
        sys.stderr.write(f"usage: checkpoints.py OUT_DIR [{'|'.join(build.FORMATS)} ...]\n")
        return 2
    words = tokenizer.train()
    for name in arguments[1:] or build.FORMATS:
        build.build(Path(arguments[0]) / name, name, words)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
