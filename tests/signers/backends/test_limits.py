"""Servers of signers that answer without an end or as slowly as they can, whatever client speaks to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from signers.backends.aws_kms import AwsKms
from signers.backends.google_kms import GoogleKms
from signers.backends.turnkey import Turnkey
from signers.backends.vault import VaultKv
from tests.signers.backends.hostile_server import ENDLESS, HostileServer
from tests.signers.backends.test_google_kms import config as google_config
from tests.signers.backends.test_turnkey import turnkey
from tests.signers.backends.vault_server import failure


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")


def aws_kms(url: str, monkeypatch: pytest.MonkeyPatch) -> AwsKms:
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", url)
    return AwsKms({"key_id": "1234abcd-12ab-34cd-56ef-1234567890ab", "region": "eu-central-1"})


def google_kms(url: str, monkeypatch: pytest.MonkeyPatch) -> GoogleKms:
    monkeypatch.setenv("GOOGLE_KMS_ENDPOINT", url)
    return GoogleKms(google_config())


def vault(url: str, monkeypatch: pytest.MonkeyPatch) -> VaultKv:
    return VaultKv({"address": url, "key_name": "main", "role_id": "a-role", "secret_id": "a-secret"})


def turnkey_at(url: str, monkeypatch: pytest.MonkeyPatch) -> Turnkey:
    monkeypatch.setenv("TURNKEY_API_URL", url)
    return turnkey()


UNREACHABLE = "{} cannot be reached or does not respond in time."
INVALID = "{} returned an invalid response."
BACKENDS = pytest.mark.parametrize(
    ("make", "name", "too_long"),
    [
        (aws_kms, "AWS KMS", UNREACHABLE),
        (google_kms, "Google Cloud KMS", UNREACHABLE),
        (vault, "Vault", INVALID),
        (turnkey_at, "Turnkey", INVALID),
    ],
)


@BACKENDS
def test_an_endless_answer_is_cut_off(
    make: Callable[..., Any], name: str, too_long: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HostileServer(slow=False) as server:
        assert failure(make(server.url, monkeypatch)) == (too_long.format(name), False)
    # What the sockets of both sides hold comes on top of what is read.
    assert server.sent < ENDLESS / 2


@BACKENDS
def test_an_answer_that_comes_byte_by_byte_is_not_waited_for(
    make: Callable[..., Any], name: str, too_long: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("CALL_SECONDS", "ATTEMPT_SECONDS"):
        monkeypatch.setattr(f"signers.backends.http.{limit}", 0.2)
    with HostileServer(slow=True) as server:
        assert failure(make(server.url, monkeypatch)) == (UNREACHABLE.format(name), False)
