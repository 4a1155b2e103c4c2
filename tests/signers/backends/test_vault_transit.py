"""An Ed25519 key in Vault's Transit engine, against a stand-in for Vault."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from signers.backends.base import SignerError
from signers.backends.vault import VaultTransit
from tests.signers.backends.vault_server import Answer, VaultServer, all_that_shows, everything_logged, failure

PUBLIC_KEY = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
LOGIN = "POST /v1/auth/approle/login"
SIGN = "POST /v1/transit/sign/relayer-key"


@pytest.fixture
def server() -> Iterator[VaultServer]:
    with VaultServer() as server:
        yield server


def config(server: VaultServer, **changes: str) -> dict[str, Any]:
    return {
        "address": server.url,
        "key_name": "relayer-key",
        "namespace": "team-a",
        "pubkey": PUBLIC_KEY,
        "role_id": server.role_id,
        "secret_id": server.secret_id,
        **changes,
    }


def test_messages_are_signed_by_the_key_in_vault_after_one_login(server: VaultServer) -> None:
    backend, messages = VaultTransit(config(server)), [b"", b"a message", bytes(range(256)) * 40]
    for message in messages:
        signature = backend.sign(message)
        server.transit_key.public_key().verify(signature, message)
    assert (server.paths, server.connections) == ([LOGIN, SIGN, SIGN, SIGN], 1)
    sent = [json.loads(asked.body) for asked in server.asked[1:]]
    assert sent == [{"input": base64.b64encode(message).decode()} for message in messages]
    asked = server.asked[1]
    assert (asked.headers["X-Vault-Token"], asked.headers["X-Vault-Namespace"]) == ("hvs.token-1", "team-a")


def test_the_engine_is_found_at_the_given_mount_point(server: VaultServer) -> None:
    signature = base64.b64encode(server.transit_key.sign(b"a message")).decode()
    server.plan("/v1/keys/ed/sign/relayer-key", Answer(200, {"data": {"signature": f"vault:v12:{signature}"}}))
    backend = VaultTransit(config(server, mount_point="keys/ed"))
    assert backend.sign(b"a message") == server.transit_key.sign(b"a message")
    assert server.paths == [LOGIN, "POST /v1/keys/ed/sign/relayer-key"]


def test_the_public_key_is_given_in_hex_or_base64(server: VaultServer) -> None:
    for pubkey in (PUBLIC_KEY, "0x" + PUBLIC_KEY, base64.b64encode(bytes.fromhex(PUBLIC_KEY)).decode()):
        backend = VaultTransit(config(server, pubkey=pubkey))
        assert backend.identity() == PUBLIC_KEY
        backend.sign(b"a message")
    for pubkey in ("x", "zz" * 32, PUBLIC_KEY[2:], base64.b64encode(bytes(31)).decode(), "é"):
        problem = "pubkey is not an Ed25519 public key in base64 or hex."
        assert failure(VaultTransit(config(server, pubkey=pubkey))) == (problem, True)


def test_a_signature_by_another_key_and_an_unknown_key_are_refused(server: VaultServer) -> None:
    backend = VaultTransit(config(server, pubkey="d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"))
    assert failure(backend) == ("The returned signature was not made with this signer's key.", True)
    problem = "Vault refused the request (HTTP 400). Check the config."
    assert failure(VaultTransit(config(server, key_name="another"))) == (problem, True)


def test_a_signature_in_another_form_is_not_understood(server: VaultServer) -> None:
    zeros = "A" * 86 + "=="
    for signature in (None, 7, "", "vault:v1:", "vault:v1:AAAA", zeros, "vault:v1:" + "*" * 88, f"vault:x:{zeros}"):
        server.plan("/sign/", Answer(200, {"data": {"signature": signature}}))
        assert failure(VaultTransit(config(server))) == ("Vault returned an invalid response.", False)


def test_no_failure_shows_a_secret(server: VaultServer) -> None:
    secrets = [server.role_id, server.secret_id, "hvs.token-"]
    for status in (200, 400, 403, 500):
        server.plan("/sign/", *[Answer(status, {"errors": secrets, "other": secrets})] * 6)
        backend = VaultTransit(config(server))
        with everything_logged() as logged, pytest.raises(SignerError) as caught:
            backend.sign(b"a message")
        server.unplan()
        shown = all_that_shows(caught.value) + str(logged) + repr(backend)
        assert "Vault" in shown
        assert [secret for secret in secrets if secret in shown] == []
