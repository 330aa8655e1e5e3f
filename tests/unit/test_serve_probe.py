"""What the wizard makes of a server's answers, vLLM's and others'."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from answering import Answer, answering
from launching import free_port
from standin import TOOLS, serving

from wizard.errors import ServerError, UnknownNameError, UsageError
from wizard.serve import normal_url, probe_server

# As vLLM 0.32 answers with `--served-model-name tiny other`.
MODELS = {
    "object": "list",
    "data": [
        {
            "id": "tiny",
            "object": "model",
            "owned_by": "vllm",
            "root": "/m",
            "parent": None,
            "max_model_len": 32768,
        },
        {
            "id": "other",
            "object": "model",
            "owned_by": "vllm",
            "root": "/m",
            "parent": None,
            "max_model_len": 4096,
        },
    ],
}
VLLM = {"/v1/models": Answer(json.dumps(MODELS)), "/version": Answer('{"version": "0.32.0"}')}


def test_a_vllm_tells_its_names_window_and_version() -> None:
    with answering(VLLM) as (root, _asked):
        server = probe_server(f"{root}/v1")
    assert server.served_names == ("tiny", "other")
    assert (server.model, server.max_model_len, server.version) == ("tiny", 32768, "0.32.0")
    assert server.base_url == f"{root}/v1"
    assert server.started_by == "somebody else"


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_the_address_may_be_given_with_or_without_v1(ending: str) -> None:
    with answering(VLLM) as (root, _asked):
        assert probe_server(root + ending).base_url == f"{root}/v1"


def test_the_named_model_decides_about_the_window() -> None:
    with answering(VLLM) as (root, _asked):
        server = probe_server(root, model="other")
    assert (server.model, server.max_model_len) == ("other", 4096)


def test_a_name_that_is_not_served_is_answered_with_the_nearest() -> None:
    with answering(VLLM) as (root, _asked), pytest.raises(UnknownNameError, match="tinny") as raised:
        probe_server(root, model="tinny")
    assert "tiny" in raised.value.hint


def test_the_stand_in_is_told_as_a_rehearsal() -> None:
    with serving(*TOOLS) as (root, _standin):
        assert probe_server(root).started_by == "rehearsal"


def test_a_proxy_that_lets_only_v1_through_hides_the_version() -> None:
    with answering({"/v1/models": VLLM["/v1/models"]}) as (root, _asked):
        assert probe_server(root).version is None


def test_a_key_is_sent_and_only_to_the_server_that_was_named() -> None:
    with answering(VLLM) as (elsewhere, strangers):
        moved = Answer("", status=307, headers={"Location": f"{elsewhere}/v1/models"})
        with answering({"/v1/models": moved}) as (root, asked):
            with pytest.raises(ServerError, match="redirects") as raised:
                probe_server(root, api_key="sesame")
            assert elsewhere in raised.value.message
    assert asked[0][1]["Authorization"] == "Bearer sesame"
    assert strangers == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer('{"error":"Unauthorized"}', status=401), "asks for an API key"),
        (Answer("<html>It works!</html>", kind="text/html"), "web page"),
        (Answer("<html>no</html>", kind="text/html; charset=utf-8", status=404), "web page"),
        (Answer('{"detail":"Not Found"}', status=404), "no list of models"),
        (Answer("", status=503), "error 503"),
        (Answer("hello"), 'not as an OpenAI API: "hello"'),
        (Answer('{"models": []}'), "not as an OpenAI API"),
        (Answer('{"data": [{"name": "x"}]}'), "not as an OpenAI API"),
        (Answer('{"data": []}'), "serves no model"),
        (Answer('{"data": [{"id": "llama3", "owned_by": "library"}]}'), "no vLLM"),
        (Answer("\x1b[31m\x07red"), 'API: "red"\\.'),
    ],
)
def test_anything_else_is_named_for_what_it_is(answer: Answer, message: str) -> None:
    with answering({"/v1/models": answer}) as (root, _asked), pytest.raises(ServerError, match=message):
        probe_server(root)


def test_a_wrong_key_is_told_apart_from_a_missing_one() -> None:
    with (
        answering({"/v1/models": Answer('{"error":"Unauthorized"}', status=401)}) as (root, _asked),
        pytest.raises(ServerError, match="refuses this API key") as raised,
    ):
        probe_server(root, api_key="sesame")
    assert "sesame" not in str(raised.value)


def test_an_answer_that_never_ends_is_given_up() -> None:
    begun = time.monotonic()
    with (
        answering({"/v1/models": Answer("{", drip=" ")}) as (root, _asked),
        pytest.raises(ServerError, match="did not answer in time"),
    ):
        probe_server(root, deadline_s=0.3)
    assert time.monotonic() - begun < 3


def test_nobody_there() -> None:
    with pytest.raises(ServerError, match="Nothing answers"):
        probe_server(f"http://127.0.0.1:{free_port()}")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost",
        "127.0.0.1:8000",
        "ftp://host/v1",
        "http://",
        "http://host:99999/v1",
        "http://h/v1?x=1",
        "http://me:secret@h/v1",
        "a b",
    ],
)
def test_what_is_no_address_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(UsageError) as raised:
        probe_server(address)
    assert "http://127.0.0.1:8000/v1" in raised.value.hint


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("  https://gpu.example/llm/v1/ ", "https://gpu.example/llm/v1"),
        ("http://0.0.0.0:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
    ],
)
def test_addresses_are_brought_into_one_form(address: str, meant: str) -> None:
    assert normal_url(address) == meant


def models(*entries: dict[str, object]) -> dict[str, Answer]:
    listed = {
        "object": "list",
        "data": [{"object": "model", "owned_by": "vllm", **entry} for entry in entries],
    }
    return VLLM | {"/v1/models": Answer(json.dumps(listed))}


def test_an_adapter_has_the_window_of_its_model() -> None:
    """vLLM lists LoRA adapters with a parent and without max_model_len."""
    answers = models(
        {"id": "base", "max_model_len": 32768}, {"id": "adapter", "parent": "base", "max_model_len": None}
    )
    with answering(answers) as (root, _asked):
        assert probe_server(root, model="adapter").max_model_len == 32768


@pytest.mark.parametrize("name", ["co\u202eder", "a\tb", "x" * 201, "coder\x1b[31m"])
def test_a_name_that_cannot_be_shown_as_it_is_is_refused(name: str) -> None:
    """Cleaned for the screen it would be another name, which the server does not know."""
    answers = models({"id": name, "max_model_len": 32768})
    with answering(answers) as (root, _asked), pytest.raises(ServerError, match="cannot be seen"):
        probe_server(root)


def test_a_certificate_of_the_house_is_told_from_a_dead_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = tmp_path / "pair.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "1",
                "-subj",
                "/CN=localhost",
            ),
            *(
                "-addext",
                "subjectAltName=IP:127.0.0.1",
                "-keyout",
                str(pair),
                "-out",
                str(tmp_path / "cert.pem"),
            ),
        ],
        check=True,
        capture_output=True,
    )
    certificate = (tmp_path / "cert.pem").read_text()
    pair.write_text(pair.read_text() + certificate)
    with answering(VLLM, certificate=pair) as (root, _asked):
        with pytest.raises(ServerError, match="vouches for the certificate") as caught:
            probe_server(root)
        assert "SSL_CERT_FILE" in caught.value.hint
        assert "NODE_EXTRA_CA_CERTS" in caught.value.hint
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        assert probe_server(root).served_names == ("tiny", "other")
