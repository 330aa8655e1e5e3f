"""The server here, developers elsewhere: what is exported, and how a missing opencode is installed."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest
from standin import TOOLS, serving

from wizard.cli import main
from wizard.errors import InstallError, RefusedError
from wizard.flow import elsewhere
from wizard.opencode import install_command, install_opencode

KEY = "house-key-0001"


def exported(folder: Path, root: str, *more: str) -> int:
    return main(["configure", "--base-url", root, "--export", str(folder), "--yes", *more])


def test_the_files_to_carry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(elsewhere, "network_address", lambda: "127.0.0.2")
    monkeypatch.setenv("HOUSE_KEY", KEY)
    folder = tmp_path / "carry"
    with serving(*TOOLS, "--host", "0.0.0.0", "--api-key", KEY) as (root, _standin):
        assert exported(folder, root, "--api-key-env", "HOUSE_KEY") == 0
    port = root.rpartition(":")[2]
    document = json.loads((folder / "opencode.json").read_text())
    options = document["provider"]["vllm"]["options"]
    assert options["baseURL"] == f"http://127.0.0.2:{port}/v1"
    assert options["apiKey"] == "{file:./vllm.key}"
    assert (folder / "vllm.key").read_text() == f"{KEY}\n"
    assert stat.S_IMODE((folder / "vllm.key").stat().st_mode) == 0o600
    page = (folder / "README.txt").read_text()
    for place in ("~/.config/opencode/", "%USERPROFILE%\\.config\\opencode\\", document["model"]):
        assert place in page
    said = capfd.readouterr()
    assert KEY not in said.out + said.err + page + (folder / "opencode.json").read_text()


def test_nothing_leaves_the_house_of_the_developers_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no setting switches off is switched off by a program: it has to travel with the settings."""
    monkeypatch.setattr(elsewhere, "network_address", lambda: "127.0.0.2")
    with serving(*TOOLS, "--host", "0.0.0.0") as (root, _standin):
        assert exported(tmp_path / "open", root) == 0
        assert exported(tmp_path / "carry", root, "--private") == 0
    assert not list((tmp_path / "open").glob("opencode-private*"))
    folder = tmp_path / "carry"
    assert json.loads((folder / "opencode.json").read_text())["share"] == "disabled"
    program = folder / "opencode-private"
    assert stat.S_IMODE(program.stat().st_mode) == 0o755
    assert "export OPENCODE_DISABLE_MODELS_FETCH=1" in program.read_text()
    assert b"set OPENCODE_DISABLE_MODELS_FETCH=1\r\n" in (folder / "opencode-private.cmd").read_bytes()
    page = (folder / "README.txt").read_text()
    assert "configure --private --base-url" in page
    assert "opencode-private -m vllm/" in page
    installed = tmp_path / "bin" / "opencode"
    installed.parent.mkdir()
    installed.write_text('#!/bin/sh\necho "$OPENCODE_DISABLE_MODELS_FETCH $1"\n')
    installed.chmod(0o755)
    environment = {"PATH": f"{installed.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([program, "run"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1 run\n"


def test_a_server_for_this_machine_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(elsewhere, "network_address", lambda: "127.0.0.2")
    with serving(*TOOLS) as (root, _standin):
        assert exported(tmp_path / "carry", root) == 1
    assert "--host 0.0.0.0" in capfd.readouterr().err
    assert not (tmp_path / "carry").exists()


def test_no_file_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(elsewhere, "network_address", lambda: "127.0.0.2")
    (tmp_path / "README.txt").write_text("mine")
    with serving(*TOOLS, "--host", "0.0.0.0") as (root, _standin):
        assert exported(tmp_path, root) == 1
    assert "README.txt is there already" in capfd.readouterr().err
    assert not (tmp_path / "opencode.json").exists()


NPM = """#!/bin/sh
if [ "$1" = prefix ]; then echo "{prefix}"; exit 0; fi
echo "npm $*" >> "{record}"
{body}
"""
MAKES = """
for last; do :; done
mkdir -p "$last/bin"
echo "#!/bin/sh" > "$last/bin/opencode"
chmod +x "$last/bin/opencode"
"""


def npm(folder: Path, body: str, prefix: str) -> dict[str, str]:
    """A folder of programs with a stand-in for npm, and the environment it is found in."""
    program = folder / "npm"
    program.write_text(NPM.format(prefix=prefix, record=folder / "record", body=body))
    program.chmod(0o755)
    return {"PATH": f"{folder}:/bin:/usr/bin", "HOME": str(folder / "home")}


def test_opencode_goes_where_npm_may_write(tmp_path: Path) -> None:
    (tmp_path / "global").mkdir()
    environ = npm(tmp_path, "", str(tmp_path / "global"))
    assert install_command(environ)[1:] == ("install", "--global", "--no-audit", "--no-fund", "opencode-ai")
    environ = npm(tmp_path, MAKES, str(tmp_path / "npm"))  # a file: nothing can be made below it
    home = f"{tmp_path}/home/.local"
    assert install_command(environ)[-2:] == ("--prefix", home)
    assert install_opencode(environ=environ) == f"{home}/bin/opencode"
    assert (tmp_path / "record").read_text().count("opencode-ai") == 1


def test_an_install_that_fails_says_why(tmp_path: Path) -> None:
    environ = npm(tmp_path, 'echo "npm error code E403" >&2; exit 1', str(tmp_path))
    with pytest.raises(InstallError) as caught:
        install_opencode(environ=environ)
    assert caught.value.evidence == ("npm error code E403",)
    with pytest.raises(RefusedError, match="no npm"):
        install_command({"PATH": "/nowhere", "HOME": "/"})
