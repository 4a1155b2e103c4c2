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
from tests.signers.backends.vault_server import Answer, VaultServer, all_that_shows, everything_logged

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


def failure(backend: VaultKv) -> tuple[str, bool]:
    with pytest.raises(SignerError) as caught:
        backend.sign_digest(DIGEST)
    return str(caught.value), caught.value.permanent


def test_a_digest_is_signed_with_the_key_in_vault(server: VaultServer) -> None:
    backend = VaultKv(config(server))
    assert backend.address() == ADDRESS
    assert backend.sign_digest(DIGEST) == Local({"key": KEY}).sign_digest(DIGEST)


def test_the_login_has_no_token_and_the_read_has_the_new_one(
    server: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_TOKEN", "hvs.of-the-environment")
    VaultKv(config(server)).address()
    assert [
        (path, asked.headers["X-Vault-Token"]) for path, asked in zip(server.paths, server.asked, strict=True)
    ] == [
        (LOGIN, None),
        (READ, "hvs.token-1"),
    ]


def test_the_namespace_is_sent_with_every_request(server: VaultServer) -> None:
    VaultKv(config(server)).address()
    assert [asked.headers["X-Vault-Namespace"] for asked in server.asked] == ["team-a", "team-a"]


def test_without_a_namespace_no_header_is_sent(server: VaultServer) -> None:
    server.namespace = None
    without = config(server)
    del without["namespace"]
    VaultKv(without).address()
    assert [asked.headers["X-Vault-Namespace"] for asked in server.asked] == [None, None]


def test_another_namespace_is_refused(server: VaultServer) -> None:
    assert failure(VaultKv(config(server, namespace="team-b"))) == ("Vault refused the AppRole login.", True)


def test_the_secret_is_read_from_the_given_mount_point(server: VaultServer) -> None:
    server.secrets = {"/v1/keys/evm/data/relayers/main": {"value": "0x" + KEY}}
    assert VaultKv(config(server, mount_point="keys/evm")).address() == ADDRESS


def test_space_around_the_key_is_no_part_of_it(server: VaultServer) -> None:
    server.secrets["/v1/secret/data/relayers/main"] = {"value": f" 0x{KEY}\n"}
    assert VaultKv(config(server)).address() == ADDRESS


def test_many_signatures_cost_one_login_one_read_and_one_connection(server: VaultServer) -> None:
    backend = VaultKv(config(server))
    for _ in range(5):
        backend.sign_digest(DIGEST)
    assert server.paths == [LOGIN, READ]
    assert server.connections == 1


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
    backend.sign_digest(DIGEST)
    forget(backend)
    backend.sign_digest(DIGEST)
    assert [path for path in server.paths if path == LOGIN] == [LOGIN]
    assert server.paths.count(READ) >= 2


def forget(backend: VaultKv) -> None:
    """Wait until the key is no longer in memory."""
    tick = threading.Event()
    for _ in range(1000):
        if backend._key is None:
            return
        tick.wait(0.01)
    pytest.fail("the key is still in memory")


def test_a_key_that_was_withdrawn_signs_no_more_once_it_is_forgotten(
    server: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VaultKv, "keep_seconds", 0.01)
    backend = VaultKv(config(server))
    backend.sign_digest(DIGEST)
    server.secrets.clear()
    forget(backend)
    assert failure(backend) == ("Vault did not find this signer's key (HTTP 404).", True)


def test_a_key_that_was_exchanged_for_another_is_refused(server: VaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VaultKv, "keep_seconds", 0.01)
    backend = VaultKv(config(server))
    backend.sign_digest(DIGEST)
    server.secrets["/v1/secret/data/relayers/main"] = {"value": "11" * 32}
    forget(backend)
    assert failure(backend) == ("The returned signature was not made with this signer's key.", True)


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


def test_a_wrong_secret_id_is_refused_for_good(server: VaultServer) -> None:
    assert failure(VaultKv(config(server, secret_id="another"))) == ("Vault refused the AppRole login.", True)
    assert server.paths == [LOGIN]


def test_a_missing_secret_is_a_missing_key(server: VaultServer) -> None:
    backend = VaultKv(config(server, key_name="relayers/other"))
    assert failure(backend) == ("Vault did not find this signer's key (HTTP 404).", True)


@pytest.mark.parametrize(
    "fields", [{}, {"key": KEY}, {"value": ""}, {"value": KEY[:-2]}, {"value": 7}, {"value": None}]
)
def test_a_secret_without_a_key_is_said_so(server: VaultServer, fields: dict[str, Any]) -> None:
    server.secrets["/v1/secret/data/relayers/main"] = fields
    backend = VaultKv(config(server))
    problem = "The field `value` of the Vault secret is not a 32-byte secp256k1 key in hex."
    assert failure(backend) == (problem, True)
    server.secrets["/v1/secret/data/relayers/main"] = {"value": KEY}
    assert backend.address() == ADDRESS


@pytest.mark.parametrize("path", ["/login", "/data/"])
@pytest.mark.parametrize("status", [412, 429, 500, 502, 503])
def test_a_fault_that_passes_is_not_seen(server: VaultServer, pauses: list[float], path: str, status: int) -> None:
    server.plan(path, Answer(status, {"errors": []}), Answer(status, b"<html>"))
    assert VaultKv(config(server)).address() == ADDRESS
    assert pauses == [0.2, 0.6]


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


def test_the_pause_that_vault_asks_for_is_kept(server: VaultServer, pauses: list[float]) -> None:
    server.plan("/data/", Answer(429, {"errors": []}, {"Retry-After": "2"}))
    VaultKv(config(server)).address()
    assert pauses == [2.0]


@pytest.mark.parametrize("path", ["/login", "/data/"])
@pytest.mark.parametrize(
    "content", [b"<html>", b"\xff", [], "text", {}, {"auth": 1, "data": 1}, {"auth": {}, "data": 1}]
)
def test_an_answer_of_another_shape_is_not_understood(server: VaultServer, path: str, content: Any) -> None:
    server.plan(path, Answer(200, content))
    assert failure(VaultKv(config(server))) == ("Vault returned an invalid response.", False)


def test_a_server_that_does_not_answer_is_not_waited_for(server: VaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signers.backends.http.ATTEMPT_SECONDS", 0.5)
    server.plan("/login", *[Answer(200, {}, hang=True)] * 3)
    assert failure(VaultKv(config(server))) == ("Vault cannot be reached or does not respond in time.", False)
    assert server.paths == [LOGIN, LOGIN, LOGIN]


def test_a_server_that_is_not_there_cannot_be_reached(server: VaultServer) -> None:
    with VaultServer() as gone:
        address = gone.url
    backend = VaultKv(config(server, address=address))
    assert failure(backend) == ("Vault cannot be reached or does not respond in time.", False)


@pytest.mark.parametrize("path", ["/login", "/data/"])
@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_carries_no_credentials_to_another_host(server: VaultServer, path: str, status: int) -> None:
    with VaultServer() as other:
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


@pytest.mark.parametrize("host", ["169.254.169.254", "[64:ff9b:1::a9fe:a9fe]"])
def test_the_metadata_of_a_cloud_is_never_asked(server: VaultServer, host: str) -> None:
    assert failure(VaultKv(config(server, address=f"http://{host}"))) == ("The address of Vault is not allowed.", True)


def test_a_private_network_that_a_setting_leaves_out_is_not_reached(server: VaultServer, settings: Settings) -> None:
    settings.NODE_AND_SIGNER_PRIVATE_NETWORKS = []
    assert failure(VaultKv(config(server))) == ("The address of Vault is not allowed.", True)
    assert server.connections == 0


def test_several_slashes_in_a_path_are_one(server: VaultServer) -> None:
    assert VaultKv(config(server, mount_point="/secret/", key_name="/relayers//main")).address() == ADDRESS


def test_a_thread_waits_for_the_login_of_another_no_longer_than_a_call_takes(
    server: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signers.backends.http.CALL_SECONDS", 0.05)
    backend = VaultKv(config(server))
    with backend._vault._lock:
        assert failure(backend) == ("Vault cannot be reached or does not respond in time.", False)
    assert server.asked == []


@pytest.mark.parametrize("changes", [{"address": "vault"}, {"address": "ftp://vault"}, {"namespace": "a\nb"}])
def test_an_address_or_a_namespace_that_cannot_be_used_is_said_so(
    server: VaultServer, changes: dict[str, str]
) -> None:
    backend = VaultKv(config(server, **changes))
    assert failure(backend) == ("The address or namespace of Vault is not valid.", True)


@pytest.mark.parametrize(
    ("path", "status", "auth"),
    [
        ("/login", 400, {}),
        ("/login", 500, {}),
        ("/login", 200, {}),
        ("/login", 200, None),
        ("/data/", 400, None),
        ("/data/", 403, None),
        ("/data/", 500, None),
        ("/data/", 200, None),
    ],
)
def test_no_failure_shows_a_secret(server: VaultServer, path: str, status: int, auth: dict[str, Any] | None) -> None:
    secrets = [server.role_id, server.secret_id, "hvs.token-1", "hvs.token-2", KEY]
    # The worst answer: one that holds every secret and is not what was asked for.
    auth = None if auth is None else {"other": secrets}
    server.plan(path, *[Answer(status, {"errors": secrets, "auth": auth, "data": {"data": {"other": secrets}}})] * 6)
    backend = VaultKv(config(server))
    with everything_logged() as logged, pytest.raises(SignerError) as caught:
        backend.sign_digest(DIGEST)
    shown = all_that_shows(caught.value) + str(logged) + repr(backend)
    assert "Vault" in shown
    assert [secret for secret in secrets if secret in shown] == []


def test_a_bad_key_is_not_shown(server: VaultServer) -> None:
    server.secrets["/v1/secret/data/relayers/main"] = {"value": "a-key-in-the-wrong-form"}
    with everything_logged() as logged, pytest.raises(SignerError) as caught:
        VaultKv(config(server)).address()
    shown = all_that_shows(caught.value) + str(logged)
    assert "field `value`" in shown
    assert "a-key-in-the-wrong-form" not in shown


def test_a_signature_logs_no_secret(server: VaultServer) -> None:
    with everything_logged() as lines:
        VaultKv(config(server)).sign_digest(DIGEST)
    logged = str(lines)
    assert [secret for secret in (server.role_id, server.secret_id, "hvs.token-1", KEY) if secret in logged] == []
