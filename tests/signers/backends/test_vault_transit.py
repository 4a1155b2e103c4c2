"""An Ed25519 key in Vault's Transit engine, against a stand-in for Vault."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from signers.backends.base import Curve, SignerError
from signers.backends.vault import VaultTransit
from tests.signers.backends.vault_server import Answer, VaultServer, all_that_shows, everything_logged

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


def failure(backend: VaultTransit) -> tuple[str, bool]:
    with pytest.raises(SignerError) as caught:
        backend.sign(b"a message")
    return str(caught.value), caught.value.permanent


@pytest.mark.parametrize("message", [b"", b"a message", bytes(range(256)) * 40])
def test_a_message_is_signed_by_the_key_in_vault(server: VaultServer, message: bytes) -> None:
    signature = VaultTransit(config(server)).sign(message)
    assert signature == server.transit_key.sign(message)
    server.transit_key.public_key().verify(signature, message)


def test_the_message_goes_to_vault_in_base64_with_the_token_and_the_namespace(server: VaultServer) -> None:
    VaultTransit(config(server)).sign(b"a message")
    assert server.paths == [LOGIN, SIGN]
    asked = server.asked[1]
    assert json.loads(asked.body) == {"input": base64.b64encode(b"a message").decode()}
    assert (asked.headers["X-Vault-Token"], asked.headers["X-Vault-Namespace"]) == ("hvs.token-1", "team-a")


def test_the_engine_is_found_at_the_given_mount_point(server: VaultServer) -> None:
    signature = base64.b64encode(server.transit_key.sign(b"a message")).decode()
    server.plan("/v1/keys/ed/sign/relayer-key", Answer(200, {"data": {"signature": f"vault:v12:{signature}"}}))
    backend = VaultTransit(config(server, mount_point="keys/ed"))
    assert backend.sign(b"a message") == server.transit_key.sign(b"a message")
    assert server.paths == [LOGIN, "POST /v1/keys/ed/sign/relayer-key"]


@pytest.mark.parametrize(
    "pubkey", [PUBLIC_KEY, "0x" + PUBLIC_KEY, base64.b64encode(bytes.fromhex(PUBLIC_KEY)).decode()]
)
def test_the_public_key_is_given_in_hex_or_base64(server: VaultServer, pubkey: str) -> None:
    backend = VaultTransit(config(server, pubkey=pubkey))
    assert backend.identity() == PUBLIC_KEY
    backend.sign(b"a message")


@pytest.mark.parametrize("pubkey", ["x", "zz" * 32, PUBLIC_KEY[2:], base64.b64encode(bytes(31)).decode(), "é"])
def test_another_text_is_no_public_key(server: VaultServer, pubkey: str) -> None:
    problem = "pubkey is not an Ed25519 public key in base64 or hex."
    assert failure(VaultTransit(config(server, pubkey=pubkey))) == (problem, True)


def test_it_serves_no_evm_relayer() -> None:
    assert VaultTransit.curve is Curve.ED25519
    assert VaultTransit.curve.network_types == frozenset()


def test_many_signatures_cost_one_login_and_one_connection(server: VaultServer) -> None:
    backend = VaultTransit(config(server))
    for _ in range(3):
        backend.sign(b"a message")
    assert server.paths == [LOGIN, SIGN, SIGN, SIGN]
    assert server.connections == 1


def test_a_revoked_token_is_replaced_by_one_new_login(server: VaultServer) -> None:
    backend = VaultTransit(config(server))
    backend.sign(b"a message")
    server.revoked.update(server.tokens)
    backend.sign(b"a message")
    assert server.paths == [LOGIN, SIGN, SIGN, LOGIN, SIGN]


def test_a_signature_by_another_key_is_refused(server: VaultServer) -> None:
    backend = VaultTransit(config(server, pubkey="d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"))
    assert failure(backend) == ("The returned signature was not made with this signer's key.", True)


def test_a_key_that_vault_does_not_have_is_refused_for_good(server: VaultServer) -> None:
    problem = "Vault refused the request (HTTP 400). Check the config."
    assert failure(VaultTransit(config(server, key_name="another"))) == (problem, True)


@pytest.mark.parametrize(
    "signature",
    [None, 7, "", "vault:v1:", "vault:v1:AAAA", "A" * 86 + "==", "vault:v1:" + "*" * 88, "vault:x:" + "A" * 86 + "=="],
)
def test_a_signature_in_another_form_is_not_understood(server: VaultServer, signature: object) -> None:
    server.plan("/sign/", Answer(200, {"data": {"signature": signature}}))
    assert failure(VaultTransit(config(server))) == ("Vault returned an invalid response.", False)


def test_a_fault_that_passes_is_not_seen(server: VaultServer, pauses: list[float]) -> None:
    server.plan("/sign/", Answer(503, b"sealed", {"Retry-After": "1"}), Answer(500, {"errors": []}))
    backend = VaultTransit(config(server))
    assert backend.sign(b"a message") == server.transit_key.sign(b"a message")
    assert pauses == [1.0, 0.6]


def test_a_fault_that_stays_is_told_after_three_tries(server: VaultServer) -> None:
    server.plan("/sign/", *[Answer(429, {"errors": []})] * 3)
    assert failure(VaultTransit(config(server))) == ("Vault is throttling requests.", False)
    assert server.paths == [LOGIN, SIGN, SIGN, SIGN]


@pytest.mark.parametrize("status", [200, 400, 403, 500])
def test_no_failure_shows_a_secret(server: VaultServer, status: int) -> None:
    secrets = [server.role_id, server.secret_id, "hvs.token-1", "hvs.token-2"]
    server.plan("/sign/", *[Answer(status, {"errors": secrets, "other": secrets})] * 6)
    backend = VaultTransit(config(server))
    with everything_logged() as logged, pytest.raises(SignerError) as caught:
        backend.sign(b"a message")
    shown = all_that_shows(caught.value) + str(logged) + repr(backend)
    assert "Vault" in shown
    assert [secret for secret in secrets if secret in shown] == []
