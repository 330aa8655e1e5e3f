"""Fetches the small files of one repository of the hub. Runs as a program of its own, sent with ``-c``.

Called with the repository, a folder, the largest size in bytes and the names that are wanted. Says on
standard output, as one line of JSON behind ``MARK``, which files there are and their sizes, or what went
wrong. huggingface_hub itself finds the token, the mirror (HF_ENDPOINT) and the proxies.
"""

from __future__ import annotations

import json
import sys
from typing import Any

MARK = "WIZARD-HUB "


def main(repository: str, folder: str, largest: int, wanted: list[str]) -> None:
    """Tell the answer, whatever happens."""
    answer: dict[str, Any]
    try:
        answer = _fetch(repository, folder, largest, wanted)
    except BaseException as error:  # noqa: BLE001 - the reason is the answer
        answer = {"problem": _kind(error), "text": f"{type(error).__name__}: {error}"}
    sys.stdout.write(f"\n{MARK}{json.dumps(answer)}\n")


def _fetch(repository: str, folder: str, largest: int, wanted: list[str]) -> dict[str, Any]:
    from huggingface_hub import HfApi, hf_hub_download

    found = HfApi().model_info(repository, files_metadata=True)
    sizes = {sibling.rfilename: sibling.size or 0 for sibling in found.siblings or ()}
    counted = found.safetensors
    for name in wanted:
        if 0 < sizes.get(name, 0) <= largest:
            hf_hub_download(repository, name, revision=found.sha, local_dir=folder)
    return {"sizes": sizes, "parameters": counted.total if counted is not None else None}


def _kind(error: BaseException) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return "gated"
    if isinstance(error, (errors.RepositoryNotFoundError, errors.HFValidationError)):
        return "missing"
    if isinstance(error, errors.HfHubHTTPError) and getattr(error.response, "status_code", 0) == 401:
        return "gated"
    return "unreachable"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
