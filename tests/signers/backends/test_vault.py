"""A key in Vault's KV engine, against a stand-in for Vault."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pytest_django import Settings

from signers.backends import vault
from signers.backends.base import SignerError
from signers.backends.local import Local
from signers.backends.vault import VaultKv
from tests.signers.backends.vault_server import Answer, VaultServer, all_that_shows, everything_logged, failure

KEY = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
DIGEST = bytes(range(32))
LOGIN = "POST /v1/auth/approle/login"
READ = "GET /v1/secret/data/relayers/main"


@pytest.fixture
def server() -> Iterator[VaultServer]:
    with VaultServer() as server:
        server.secrets["/v1/secret/data/relayers/main"] = {"value": KEY}
        yield server


def config(server: VaultServer, **changes: str) -> dict[str, Any]:
    return {
        "address": server.url,
        "key_name": "relayers/main",
        "namespace": "team-a",
        "role_id": server.role_id,
        "secret_id": server.secret_id,
        **changes,
    }


def test_digests_are_signed_with_the_key_in_vault_after_one_login_and_one_read(
    server: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_TOKEN", "hvs.of-the-environment")
    backend = VaultKv(config(server))
    assert backend.address() == ADDRESS
    for _ in range(3):
        assert backend.sign_digest(DIGEST) == Local({"key": KEY}).sign_digest(DIGEST)
    assert (server.paths, server.connections) == ([LOGIN, READ], 1)
    headers = [(asked.headers["X-Vault-Token"], asked.headers["X-Vault-Namespace"]) for asked in server.asked]
    assert headers == [(None, "team-a"), ("hvs.token-1", "team-a")]


def test_a_login_that_is_refused_is_a_permanent_error(server: VaultServer) -> None:
    for changes in ({"namespace": "team-b"}, {"secret_id": "another"}):
        assert failure(VaultKv(config(server, **changes))) == ("Vault refused the AppRole login.", True)
    assert server.paths == [LOGIN, LOGIN]


def test_the_secret_is_read_from_the_given_place(server: VaultServer) -> None:
    server.secrets["/v1/keys/evm/data/relayers/main"] = {"value": f" 0x{KEY}\n"}
    for changes in ({"mount_point": "keys/evm"}, {"mount_point": "/secret/", "key_name": "/relayers//main"}):
        assert VaultKv(config(server, **changes)).address() == ADDRESS
    server.namespace = None
    without = config(server)
    del without["namespace"]
    assert VaultKv(without).address() == ADDRESS
    assert "X-Vault-Namespace" not in server.asked[-1].headers


def test_threads_that_start_together_log_in_once(server: VaultServer) -> None:
    backend = VaultKv(config(server))
    together = threading.Barrier(8)

    def sign(_: int) -> Any:
        together.wait()
        return backend.sign_digest(DIGEST)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(sign, range(8))) == {Local({"key": KEY}).sign_digest(DIGEST)}
    assert server.paths == [LOGIN, READ]


def test_the_key_is_forgotten_after_a_while_and_read_again(
    server: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VaultKv, "keep_seconds", 0.01)
    backend = VaultKv(config(server))
    for _ in range(2):
        backend.sign_digest(DIGEST)
        forget(backend)
    assert server.paths.count(LOGIN) == 1
    assert server.paths.count(READ) >= 2
    # One that was exchanged or withdrawn signs no more.
    server.secrets["/v1/secret/data/relayers/main"] = {"value": "11" * 32}
    assert failure(backend) == ("The returned signature was not made with this signer's key.", True)
    forget(backend)
    server.secrets.clear()
    assert failure(backend) == ("Vault did not find this signer's key (HTTP 404).", True)


def forget(backend: VaultKv) -> None:
    """Wait until the key is no longer in memory."""
    tick = threading.Event()
    for _ in range(1000):
        if backend._key is None:
            return
        tick.wait(0.01)
    pytest.fail("the key is still in memory")


@pytest.mark.parametrize(
    ("lease", "later", "logins"),
    [(3600, 3569, 1), (3600, 3571, 2), (60, 53, 1), (60, 55, 2), (0, 10**9, 1)],
)
def test_a_login_is_used_until_shortly_before_its_lease_ends(
    server: VaultServer, monkeypatch: pytest.MonkeyPatch, lease: int, later: int, logins: int
) -> None:
    now = [1000.0]
    monkeypatch.setattr(vault, "monotonic", lambda: now[0])
    server.lease = lease
    backend = VaultKv(config(server))
    backend.sign_digest(DIGEST)
    now[0] += later
    backend._forget()
    backend.sign_digest(DIGEST)
    assert len(server.tokens) == logins
    assert server.asked[-1].headers["X-Vault-Token"] == server.tokens[-1]


def test_a_revoked_token_is_replaced_by_one_new_login(server: VaultServer) -> None:
    backend = VaultKv(config(server))
    backend.sign_digest(DIGEST)
    server.revoked.update(server.tokens)
    backend._forget()
    backend.sign_digest(DIGEST)
    assert server.paths == [LOGIN, READ, READ, LOGIN, READ]
    assert server.connections == 1


def test_a_role_that_may_not_read_the_key_logs_in_again_only_once(server: VaultServer) -> None:
    denied = Answer(403, {"errors": ["1 error occurred: permission denied"]})
    server.plan("/data/", denied, denied)
    assert failure(VaultKv(config(server))) == ("Vault refused this signer's credentials (HTTP 403).", True)
    assert server.paths == [LOGIN, READ, LOGIN, READ]


def test_a_secret_without_a_key_is_said_so(server: VaultServer) -> None:
    backend = VaultKv(config(server))
    for fields in ({}, {"key": KEY}, {"value": ""}, {"value": KEY[:-2]}, {"value": 7}, {"value": None}):
        server.secrets["/v1/secret/data/relayers/main"] = fields
        problem = "The field `value` of the Vault secret is not a 32-byte secp256k1 key in hex."
        assert failure(backend) == (problem, True)
    server.secrets["/v1/secret/data/relayers/main"] = {"value": KEY}
    assert backend.address() == ADDRESS


@pytest.mark.parametrize("path", ["/login", "/data/"])
def test_a_fault_that_passes_is_not_seen(server: VaultServer, pauses: list[float], path: str) -> None:
    for status in (412, 429, 500, 502, 503):
        server.plan(path, Answer(status, {"errors": []}), Answer(status, b"<html>"))
        assert VaultKv(config(server)).address() == ADDRESS
    assert pauses == [0.2, 0.6] * 5


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (429, "Vault is throttling requests."),
        (500, "Vault is unavailable (HTTP 500)."),
        (503, "Vault is unavailable (HTTP 503)."),
    ],
)
def test_a_fault_that_stays_is_told_after_three_tries(server: VaultServer, status: int, problem: str) -> None:
    server.plan("/data/", *[Answer(status, {"errors": ["sealed"]})] * 3)
    assert failure(VaultKv(config(server))) == (problem, False)
    assert server.paths == [LOGIN, READ, READ, READ]


@pytest.mark.parametrize("path", ["/login", "/data/"])
def test_an_answer_of_another_shape_is_not_understood(server: VaultServer, path: str) -> None:
    contents: list[Any] = [b"<html>", b"\xff", [], "text", {}, {"auth": 1, "data": 1}, {"auth": {}, "data": 1}]
    for content in contents:
        server.plan(path, Answer(200, content))
        assert failure(VaultKv(config(server))) == ("Vault returned an invalid response.", False)


def test_a_server_that_does_not_answer_is_not_waited_for(server: VaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signers.backends.http.ATTEMPT_SECONDS", 0.5)
    server.plan("/login", *[Answer(200, {}, hang=True)] * 3)
    unreachable = ("Vault cannot be reached or does not respond in time.", False)
    assert failure(VaultKv(config(server))) == unreachable
    assert server.paths == [LOGIN, LOGIN, LOGIN]
    with VaultServer() as gone:
        address = gone.url
    assert failure(VaultKv(config(server, address=address))) == unreachable


@pytest.mark.parametrize("path", ["/login", "/data/"])
def test_a_redirect_carries_no_credentials_to_another_host(server: VaultServer, path: str) -> None:
    with VaultServer() as other:
        for status in (302, 307):
            server.plan(path, Answer(status, b"", {"Location": f"{other.url}/v1{path}"}))
            problem = f"Vault returned a redirect (HTTP {status}). Check its address."
            assert failure(VaultKv(config(server))) == (problem, True)
        assert other.asked == []


def test_a_proxy_of_the_environment_is_not_used(server: VaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with VaultServer() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert VaultKv(config(server)).address() == ADDRESS
        assert proxy.asked == []


def test_only_allowed_addresses_are_asked(server: VaultServer, settings: Settings) -> None:
    for changes in ({"address": "vault"}, {"address": "ftp://vault"}, {"namespace": "a\nb"}):
        problem = "The address or namespace of Vault is not valid."
        assert failure(VaultKv(config(server, **changes))) == (problem, True)
    refused, asked = ("The address of Vault is not allowed.", True), len(server.asked)
    # The metadata of a cloud is never asked.
    for host in ("169.254.169.254", "[64:ff9b:1::a9fe:a9fe]"):
        assert failure(VaultKv(config(server, address=f"http://{host}"))) == refused
    settings.NODE_AND_SIGNER_PRIVATE_NETWORKS = []
    assert failure(VaultKv(config(server))) == refused
    assert len(server.asked) == asked


def test_a_thread_waits_for_the_login_of_another_no_longer_than_a_call_takes(
    server: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signers.backends.http.CALL_SECONDS", 0.05)
    backend = VaultKv(config(server))
    with backend._vault._lock:
        assert failure(backend) == ("Vault cannot be reached or does not respond in time.", False)
    assert server.asked == []


def test_no_failure_shows_a_secret(server: VaultServer) -> None:
    bad = "a-key-in-the-wrong-form"
    secrets = [server.role_id, server.secret_id, "hvs.token-", KEY, bad]
    # The worst answers: those that hold every secret and are not what was asked for.
    worst = {"errors": secrets, "data": {"data": {"other": secrets}}}
    shown = ""
    for path, status, auth in (
        *(("/login", status, {"other": secrets}) for status in (400, 500, 200)),
        *(("/data/", status, None) for status in (400, 403, 500, 200)),
        ("no path", 200, None),
    ):
        server.plan(path, *[Answer(status, worst | {"auth": auth})] * 6)
        server.secrets["/v1/secret/data/relayers/main"] = {"value": bad}
        backend = VaultKv(config(server))
        with everything_logged() as logged, pytest.raises(SignerError) as caught:
            backend.sign_digest(DIGEST)
        shown += all_that_shows(caught.value) + str(logged) + repr(backend)
        server.unplan()
    server.secrets["/v1/secret/data/relayers/main"] = {"value": KEY}
    with everything_logged() as logged:
        VaultKv(config(server)).sign_digest(DIGEST)
    shown += str(logged)
    assert "Vault" in shown
    assert "field `value`" in shown
    assert [secret for secret in secrets if secret in shown] == []
