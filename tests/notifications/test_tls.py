"""TLS is always verified."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from pytest_django import Settings

from tests.certificates import make_certificate
from tests.notifications.factories import attempt
from tests.notifications.receivers import Receiver, receiver


@pytest.fixture(autouse=True)
def opened(settings: Settings) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]


@pytest.fixture
def refused_tls(tmp_path: Path) -> Iterator[Receiver]:
    """A receiver whose certificate nobody has vouched for."""
    file = tmp_path / "certificate.pem"
    make_certificate(file, x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with receiver(tls=context) as server:
        yield server


def test_a_certificate_that_nobody_vouched_for_is_refused(
    refused_tls: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = attempt(refused_tls.url)
    assert (outcome.response_code, outcome.error) == (None, "The TLS certificate is not valid.")
    assert refused_tls.requests == []
    # Who trusts its certificate reaches it.
    trusting = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
    monkeypatch.setattr(ssl, "create_default_context", lambda: trusting)
    assert attempt(refused_tls.url).response_code == 200


def test_a_target_that_speaks_no_tls_is_a_failure() -> None:
    with receiver() as server:
        outcome = attempt(server.url.replace("http:", "https:"))
    assert (outcome.response_code, outcome.error) == (None, "TLS handshake failed.")
    assert server.requests == []
