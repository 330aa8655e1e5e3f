"""A configuration to carry to other machines: the file, its key, and a page that says what to do."""

from __future__ import annotations

from pathlib import Path

import msgspec

from wizard.errors import RefusedError
from wizard.i18n import _
from wizard.opencode.content import content
from wizard.opencode.files import read_bytes
from wizard.opencode.jsonc import parse
from wizard.opencode.jsonc_edit import edit
from wizard.opencode.private import starter_at
from wizard.opencode.schema import check_schema
from wizard.opencode.types import ConfigRequest, OpencodeChange, SideFile
from wizard.opencode.why import reasons
from wizard.opencode.write import edited_text

KEY_NAME = "vllm.key"
_FILE = "opencode.json"
_STARTER = "opencode-private"
_PAGE = "README.txt"


def plan_export(request: ConfigRequest, folder: Path, key: str | None) -> OpencodeChange:
    """A new folder's files for developers elsewhere, planned as a change of its ``opencode.json``.

    ``key`` goes into a file of its own (mode 0600), which the configuration names by its place beside it.
    ``write_change`` makes the folder. Raises RefusedError when one of the files is there already.
    """
    planned = content(msgspec.structs.replace(request, api_key_file=None, api_key_env=None), {})
    text = edited_text("", planned)
    if key is not None:
        place = ("provider", planned.provider, "options", "apiKey")
        text = edit(text, place, f"{{file:./{KEY_NAME}}}")
    settings = parse(text)
    report = check_schema(settings if isinstance(settings, dict) else {}, planned.wanted())
    if report.errors or request.limits.refused:
        refusals = [warning.text for warning in request.limits.warnings if warning.refuses]
        raise RefusedError(" ".join([*report.errors, *refusals]), _("Nothing was written."))
    page = _page(request, f"{planned.provider}/{planned.model_key}", has_key=key is not None)
    files = [SideFile(path=str(folder / _PAGE), purpose=_("says what to do"), data=page.encode(), mode=0o644)]
    if key is not None:
        secret = SideFile(
            path=str(folder / KEY_NAME), purpose=_("the server's key"), data=f"{key}\n".encode(), mode=0o600
        )
        files.append(secret)
    if request.private:
        files.append(starter_at(folder / _STARTER, windows=False))
        files.append(starter_at(folder / f"{_STARTER}.cmd", windows=True))
    change = OpencodeChange(
        path=str(folder / _FILE),
        action="created",
        diff=text,
        before=None,
        after=text.encode(),
        backup=None,
        provider=planned.provider,
        model=planned.model,
        limit=planned.limit,
        warnings=planned.warnings,
        sets_globals=request.globals,
        scope="path",
        settings=planned.settings,
        reasons=reasons(request, planned.settings),
        beside=tuple(files),
    )
    for path in (change.path, *(file.path for file in files)):
        if read_bytes(Path(path)) is not None:
            raise RefusedError(
                _("{path} is there already.").format(path=path), _("Name a folder that is empty or new.")
            )
    return change


def _page(request: ConfigRequest, model: str, *, has_key: bool) -> str:
    """What a developer does with the files, on each system."""
    base_url = request.base_url
    private = " --private" if request.private else ""
    files = f"{_FILE}, {KEY_NAME}" if has_key else _FILE
    lines = [
        _("opencode for the vLLM at {url}").format(url=base_url),
        "",
        _("1. Install opencode: npm install -g opencode-ai"),
        _("2. Copy {files} into opencode's folder, the same on every system in your home folder:").format(
            files=files
        ),
        "     Linux, macOS   ~/.config/opencode/",
        "     Windows        %USERPROFILE%\\.config\\opencode\\",
        _("   If you have an opencode.json or opencode.jsonc there, keep it and run this instead:"),
        f"     vllm-opencode configure{private} --base-url {base_url}"
        + (f" --api-key-file ~/.config/opencode/{KEY_NAME}" if has_key else ""),
    ]
    if has_key:
        lines.append(_("3. The key is for you only: chmod 600 {file}").format(file=KEY_NAME))
    if request.private:
        lines.append(
            _(
                "Start it always as {program}: put that (on Windows {program}.cmd) into a folder of PATH."
            ).format(program=_STARTER)
        )
    lines += [
        _("Behind a proxy, exempt the server: set NO_PROXY to its address."),
        _("In a project folder, type: {program} -m {model}").format(
            program=_STARTER if request.private else "opencode", model=model
        ),
        "",
    ]
    return "\n".join(lines)
