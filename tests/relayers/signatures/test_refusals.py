"""What is not signed: bodies of a wrong shape, and relayers that cannot sign now."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from django.db import connection, connections

from relayer_service.background.shares import WAITING_BESIDE_CALLS
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from relayers.signatures import signing
from signers.backends.base import Secp256k1Backend, SignerError
from signers.backends.local import Local
from signers.models import Signer
from spending.models import SpendingPolicy
from spending.rules import Verdict
from tests.api import Api
from tests.contract import bodies
from tests.relayers.signatures.requests import (
    BODIES,
    HASHES,
    MESSAGE,
    PARSED,
    PERMIT,
    SIGN,
    SIGN_TRANSACTION,
    SIGN_TYPED_DATA,
    relayer,
)
from tests.signers.examples import CONFIGS
from tokens.models import AccessToken, forget

ONE_FORM = "send either domain_separator and hash_struct_message, or types, domain and message"
HASH = "32 bytes in hexadecimal are required"


def without(body: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in names}


WRONG_BODIES: list[tuple[str, Any, list[str]]] = [
    (SIGN, {}, ["message: this field is required"]),
    (SIGN, {"message": "a", "message_hex": "61"}, ["send either message or message_hex"]),
    (SIGN, {"message_hex": "0x6"}, ["message_hex: bytes in hexadecimal are required"]),
    (SIGN, [], ["an object is required"]),
    (SIGN, {"message": None}, ["message: null is not allowed here"]),
    (SIGN, {"message": 5, "kind": "text"}, ["kind: unknown field", "message: a string is required"]),
    (SIGN_TYPED_DATA, {}, [ONE_FORM]),
    (SIGN_TYPED_DATA, HASHES | PERMIT, [ONE_FORM]),
    (SIGN_TYPED_DATA, HASHES | {"primaryType": "Permit"}, [ONE_FORM]),
    (SIGN_TYPED_DATA, without(HASHES, "domain_separator"), ["domain_separator: this field is required"]),
    (SIGN_TYPED_DATA, {"primary_type": "Permit"},
     [f"{name}: this field is required" for name in ("types", "domain", "message")]),
    (SIGN_TYPED_DATA, {"domain_separator": "zz" * 32, "hash_struct_message": "0x" + "00" * 31},
     [f"domain_separator: {HASH}", f"hash_struct_message: {HASH}"]),
    (SIGN_TYPED_DATA, HASHES | {"domain_separator": 7}, [f"domain_separator: {HASH}"]),
    (SIGN_TYPED_DATA, HASHES | {"domain_separator": "0x0x" + "00" * 31}, [f"domain_separator: {HASH}"]),
    (SIGN_TYPED_DATA, PERMIT | {"types": [], "message": "permit"},
     ["types: an object is required", "message: an object is required"]),
    (SIGN_TYPED_DATA, PERMIT | {"primaryType": "Permit"},
     ["primaryType: is given more than once, also as primary_type"]),
    (SIGN_TYPED_DATA, without(PERMIT, "primary_type") | {"primaryType": "Order"},
     ["primaryType: must be one of the types, other than EIP712Domain"]),
    (SIGN_TYPED_DATA, PERMIT | {"message": PERMIT["message"] | {"value": -1, "nonce": 0}},
     ["message.nonce: unknown field",
      "message.value: a whole number in the range of uint256 is required, or a string with one"]),
    (SIGN_TYPED_DATA, PERMIT | {"message": PERMIT["message"] | {"x" * 41: 0}},
     ["message.(a name of over 40 characters): unknown field"]),
    (SIGN_TYPED_DATA, PERMIT | {"types": {"Permit": [{"name": "owner"}]}},
     ["types.Permit[0]: an object with name and type is required"]),
    (SIGN_TYPED_DATA, PERMIT | {"domain": PERMIT["domain"] | {"chainId": 1}},
     ["domain.chainId: must be 11155111, the chain ID of the relayer"]),
]  # fmt: skip


def test_a_wrong_body_is_refused_with_one_entry_per_fault(caller: Api) -> None:
    relayer()
    for path, body, faults in WRONG_BODIES:
        answer = caller.post(path, body)
        assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(*faults))
    assert not AuditEntry.objects.filter(object_type="relayer").exists()


def test_a_chain_id_must_be_left_out_where_the_chain_of_the_relayer_is_unknown(caller: Api) -> None:
    relayer(network="my-chain")
    answer = caller.post(SIGN_TYPED_DATA, PERMIT)
    fault = "domain.chainId: cannot be checked: the relayer has no chain ID"
    assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))
    domain = without(PERMIT["domain"], "chainId")
    assert caller.post(SIGN_TYPED_DATA, PERMIT | {"domain": domain}).status == 200


def test_transactions_are_not_signed(caller: Api) -> None:
    relayer()
    fault = "signing a transaction is not supported for EVM relayers: send it, so that its nonce is tracked"
    for body in ({}, {"transaction": "AQ=="}):
        answer = caller.post(SIGN_TRANSACTION, body)
        assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))


def test_an_unknown_relayer_is_not_found(caller: Api) -> None:
    for path in (*BODIES, SIGN_TRANSACTION):
        for identifier in ("nobody", "a\0b", "a/sign"):
            answer = caller.post(path.replace("relayer-1", identifier), BODIES.get(path, {}))
            assert (answer.status, answer.body) == (404, bodies.failure(f"Relayer with ID {identifier} not found"))


@pytest.mark.parametrize(
    ("change", "status", "code", "message"),
    [
        ({"paused": True}, 403, "relayer_paused", "Relayer paused"),
        (
            {"system_disabled": True, "disabled_reason_type": "NonceSyncFailed"},
            403,
            "relayer_disabled",
            "Relayer disabled",
        ),
        ({"address": ""}, 409, "account_unknown", "Relayer has no address: its signer has not provided one yet"),
    ],
)
def test_a_relayer_that_cannot_sign_now_refuses(
    caller: Api, change: dict[str, Any], status: int, code: str, message: str
) -> None:
    relayer(**change)
    for path, body in BODIES.items():
        answer = caller.post(path, body)
        assert (answer.status, answer.body) == (status, bodies.failure(message))
        assert answer.headers["error-code"] == code
    assert not AuditEntry.objects.filter(object_type="relayer").exists()


def test_a_signer_of_another_curve_is_refused(caller: Api) -> None:
    transit = Signer(identifier="transit", type="provider_c_transit")
    transit.set_config(CONFIGS["provider_c_transit"])
    transit.save()
    relayer(signer=transit)
    answer = caller.post(SIGN, MESSAGE)
    (fault,) = [entry["message"] for entry in answer.body["metadata"]["logs"]]
    assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))
    assert fault.endswith("is an Ed25519 signer: it signs messages only and cannot be used by an evm relayer.")


def while_signing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Do something while the signer is called."""
    sign = Secp256k1Backend.sign_digest

    def sign_after(backend: Secp256k1Backend, digest: bytes) -> Any:
        act()
        return sign(backend, digest)

    monkeypatch.setattr(Local, "sign_digest", sign_after)


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"paused": True}, "relayer_paused", "Relayer paused"),
        (
            {"allow_signing": ["typed_data"]},
            "signing_not_allowed",
            "Relayer does not allow signing messages (EIP-191): `allow_signing` must have `messages`",
        ),
    ],
)
def test_a_relayer_that_is_stopped_meanwhile_returns_no_signature(
    caller: Api, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], code: str, message: str
) -> None:
    relayer()
    while_signing(monkeypatch, lambda: Relayer.objects.update(**change))
    answer = caller.post(SIGN, MESSAGE)
    assert (answer.status, answer.body) == (403, bodies.failure(message))
    assert answer.headers["error-code"] == code
    assert not AuditEntry.objects.filter(object_type="relayer").exists()


def test_a_signer_that_fails_is_unavailable_and_shows_why_to_staff(
    caller: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    relayer()
    error = "The provider cannot be reached or does not respond in time."

    def fail(*_: Any) -> None:
        raise SignerError(error, permanent=False)

    with monkeypatch.context() as patch:
        patch.setattr(Local, "sign_digest", fail)
        answer = caller.post(SIGN, MESSAGE)
    assert (answer.status, answer.body) == (503, bodies.failure(signing.CANNOT_SIGN))
    assert (answer.headers["retry-after"], answer.headers["error-code"]) == ("5", "signer_unavailable")
    assert f"The signer of the relayer relayer-1 cannot sign: {error}" in caplog.messages
    assert Signer.objects.get().last_error == error
    assert not AuditEntry.objects.filter(object_type="relayer").exists()
    assert caller.post(SIGN, MESSAGE).status == 200
    assert Signer.objects.get().last_error == ""


def test_a_signer_with_another_key_does_not_sign_for_the_account(caller: Api) -> None:
    relayer(address="0x70997970C51812dc3A010C7d01b50e0d17dc79C8")
    assert caller.post(SIGN, MESSAGE).status == 503
    expected = "The signer's address is not 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 any more."
    assert Signer.objects.get().last_error == expected


@pytest.mark.django_db(transaction=True)
def test_a_signer_elsewhere_holds_a_waiting_thread_and_no_connection(
    caller: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    relayer()
    held: list[bool] = []
    while_signing(monkeypatch, lambda: held.append(connections["default"].connection is not None))
    monkeypatch.setattr("signers.signing.is_local", lambda signer: False)
    assert caller.post(SIGN, MESSAGE).status == 200
    # SQLite has a connection for each thread, and no others that need it.
    assert held == [connection.vendor == "sqlite"]
    with ExitStack() as stack:
        for _ in range(WAITING_BESIDE_CALLS.size):
            stack.enter_context(WAITING_BESIDE_CALLS.occupied())
        answer = caller.post(SIGN, MESSAGE)
    refused = (429, bodies.failure("Too Many Requests"), "1")
    assert (answer.status, answer.body, answer.headers["retry-after"]) == refused


def test_signing_is_limited_as_other_requests_that_wait(caller: Api, settings: Any) -> None:
    settings.RATE_LIMIT_RPC = "2/d"
    relayer()
    answers = [caller.post(path, body).status for path, body in (*BODIES.items(), (SIGN, MESSAGE))]
    assert answers == [200, 200, 429]


def refuse_on(monkeypatch: pytest.MonkeyPatch, seen: list[Any]) -> None:
    """Have spending rules that refuse typed data, and note what they are asked."""

    def verdicts(rules: Any, typed_data: Any) -> list[Verdict]:
        seen.append((rules, typed_data))
        return [Verdict("max_value", True, "fits"), Verdict("tokens", False, "A Token is not allowed.")]

    monkeypatch.setattr(signing, "typed_data_verdicts", verdicts)


@pytest.mark.parametrize("holder", ["relayer", "token"])
def test_spending_rules_of_relayer_and_token_refuse_typed_data(
    caller: Api, monkeypatch: pytest.MonkeyPatch, holder: str
) -> None:
    rules: dict[str, Any] = {"tokens": []}
    policy = SpendingPolicy.objects.create(rules=rules)
    row = relayer(spending=policy if holder == "relayer" else None)
    if holder == "token":
        AccessToken.objects.update(spending=policy)
        forget({AccessToken.objects.get().key})
    seen: list[Any] = []
    refuse_on(monkeypatch, seen)
    for body in (PERMIT, HASHES):
        answer = caller.post(SIGN_TYPED_DATA, body)
        assert (answer.status, answer.body) == (403, bodies.failure("A Token is not allowed."))
        assert answer.headers["error-code"] == "spending_refused"
    assert seen == [(rules, PARSED.as_json()), (rules, None)]
    entry = AuditEntry.objects.for_row(row)[0]
    refusal = "Refused to sign typed data, by the spending rule tokens."
    assert (entry.reason, entry.actor) == (f"{refusal} Digest: 0x{PARSED.digest.hex()}", "dapp")


@pytest.mark.parametrize(
    ("text", "status"), [("a" * 31, 200), ("a" * 30 + "é", 403), ("a" * 32, 403), ("é" * 32, 200)]
)
def test_with_spending_rules_a_message_is_not_as_long_as_a_hash(caller: Api, text: str, status: int) -> None:
    """Contracts accept a message of 32 bytes as the hash of a call, and a hash that is text is found by trying."""
    row = relayer(spending=SpendingPolicy.objects.create(rules={"max_value": "1"}))
    assert caller.post(SIGN, {"message": text}).status == status
    reason = AuditEntry.objects.for_row(row).get().reason
    expected = "Signed a message. " if status == 200 else "Refused to sign a message, by the spending rule messages. "
    assert reason.startswith(expected)


def test_the_first_rules_of_a_token_bind_at_once_and_count_repeated_refusals(caller: Api) -> None:
    """Another process has set them, and this one has the token in its cache."""
    row = relayer()
    assert caller.post(SIGN, {"message": "a" * 32}).status == 200
    AccessToken.objects.update(spending=SpendingPolicy.objects.create(rules={"max_value": "1"}))
    assert [caller.post(SIGN, {"message": letter * 32}).status for letter in "abc"] == [403, 403, 403]
    assert caller.post(SIGN_TYPED_DATA, HASHES).status == 403
    _, message, typed_data = AuditEntry.objects.for_row(row).order_by("pk")
    assert message.reason.startswith("Refused to sign a message, by the spending rule messages. Digest: 0x")
    assert typed_data.reason.startswith("Refused to sign typed data, by the spending rule ")
    assert (message.changes, typed_data.changes) == ({"count": "3"}, {})


def test_nothing_is_signed_under_rules_that_no_longer_exist(caller: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token was deleted and its policy pruned, while this process still has it in its cache."""
    relayer()
    monkeypatch.setattr(AccessToken, "read_spending_id", lambda self: 2**31)
    answer = caller.post(SIGN, MESSAGE)
    assert (answer.status, answer.headers["error-code"]) == (403, "spending_refused")


def test_spending_rules_without_content_and_messages_are_not_judged(
    caller: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    refuse_on(monkeypatch, seen)
    policy = SpendingPolicy.objects.create(rules={})
    relayer(spending=policy)
    assert caller.post(SIGN_TYPED_DATA, PERMIT).status == 200
    SpendingPolicy.objects.filter(pk=policy.pk).update(rules={"tokens": []})
    assert caller.post(SIGN, MESSAGE).status == 200
    assert seen == []


def test_only_post_is_allowed_and_without_the_extension_nothing(caller: Api, settings: Any) -> None:
    relayer()
    answers = [caller(method, SIGN) for method in ("GET", "PUT", "DELETE")]
    assert [(answer.status, answer.headers["allow"]) for answer in answers] == [(405, "POST")] * 3
    settings.EXTENSIONS = []
    answers = [caller.post(path, MESSAGE) for path in (SIGN, SIGN_TYPED_DATA, SIGN_TRANSACTION)]
    assert [(answer.status, answer.body) for answer in answers] == [(404, bodies.failure("Not Found"))] * 3
