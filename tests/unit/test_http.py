"""What a client of a server costs and trusts before it asks anything."""

from __future__ import annotations

import ssl

import pytest

from wizard.http import client


class AuthoritiesReadError(Exception):
    """Somebody read the list of certificate authorities."""


def test_certificate_authorities_are_read_only_for_an_encrypted_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(*_given: object, **_named: object) -> None:
        raise AuthoritiesReadError

    monkeypatch.setattr(ssl, "create_default_context", read)
    client("http://127.0.0.1:8000/v1").close()
    client("HTTP://gpu.lan:8000/v1").close()
    with pytest.raises(AuthoritiesReadError):
        client("https://gpu.lan/v1").close()
