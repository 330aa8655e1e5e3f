"""What a person is told about proxies, old programs, unknown keys and names that hide a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from wizard.budget import limits
from wizard.opencode import ConfigRequest, plan_change, target_file
from wizard.opencode.advice import certificate_advice, proxy_advice

REQUEST = ConfigRequest(
    provider_name="Local vLLM",
    base_url="http://gpu1:8000/v1",
    model_key="coder",
    model_name="Qwen3 Coder",
    limits=limits(65536),
)


def told(own_home: Path, text: str = "", **wishes: Any) -> str:
    folder = own_home / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "opencode.json").write_text(text)
    return "\n".join(plan_change(msgspec.structs.replace(REQUEST, **wishes), target_file()).warnings)


@pytest.mark.parametrize(
    ("environ", "through"),
    [
        ({}, False),
        ({"HTTP_PROXY": "http://proxy:3128"}, True),
        ({"HTTPS_PROXY": "http://proxy:3128"}, False),
        ({"http_proxy": "http://proxy:3128", "NO_PROXY": "localhost"}, True),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "localhost,gpu1"}, False),
        ({"http_proxy": "http://proxy:3128", "NO_PROXY": "*"}, False),
    ],
)
def test_a_proxy_in_the_way(environ: dict[str, str], through: bool) -> None:
    said = proxy_advice("http://gpu1:8000/v1", environ)
    assert bool(said) is through
    if through:
        listed = environ.get("NO_PROXY", "")
        assert said[0].endswith(f"NO_PROXY={listed},gpu1" if listed else "NO_PROXY=gpu1")


@pytest.mark.parametrize(
    ("url", "environ", "said"),
    [
        ("https://gpu1/v1", {"SSL_CERT_FILE": "/etc/house.pem"}, True),
        ("https://gpu1/v1", {"SSL_CERT_FILE": "/a", "NODE_EXTRA_CA_CERTS": "/a"}, False),
        ("https://gpu1/v1", {}, False),
        ("http://gpu1/v1", {"SSL_CERT_FILE": "/a"}, False),
    ],
)
def test_a_certificate_that_only_this_program_trusts(url: str, environ: dict[str, str], said: bool) -> None:
    """opencode 1.18.33 answered "self signed certificate" until NODE_EXTRA_CA_CERTS named the file."""
    told = certificate_advice(url, environ)
    assert bool(told) is said
    assert not said or told[0].endswith("NODE_EXTRA_CA_CERTS=/etc/house.pem")


def test_older_than_anything_known(own_home: Path) -> None:
    assert "opencode 0.15.2 is older than 1.0.0" in told(own_home, opencode_version="0.15.2")
    assert "vLLM 0.7.3 is older than 0.8.0" in told(own_home, vllm_version="0.7.3")
    assert "older than" not in told(own_home, opencode_version="1.0.0", vllm_version="0.8.0")


def test_keys_an_older_opencode_does_not_start_with(own_home: Path) -> None:
    text = '{"thme": "dark", "provider": {"mine": {"whitelst": []}}}'
    said = told(own_home, text, opencode_version="1.18.14")
    assert "1.18.14 does not start" in said
    assert said.rstrip().endswith("thme")
    for version in (None, "1.18.16"):
        assert "does not start" not in told(own_home, text, opencode_version=version)


def test_a_served_name_that_hides_the_maker(own_home: Path) -> None:
    assert "devstral" in told(own_home, model_name="Devstral Small (local)")
    assert "devstral" not in told(own_home, model_name="Devstral Small", model_key="devstral-small")
