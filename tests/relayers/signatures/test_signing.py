"""Signatures over REST: whole answers, and what the audit log has of them."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from chain.messages import message_digest
from relayer_service.models import AuditEntry
from tests.api import Api
from tests.contract import bodies
from tests.relayer_service.audit.entries import written_by
from tests.relayers import factories
from tests.relayers.signatures.requests import (
    BODIES,
    HASHES,
    MESSAGE,
    PARSED,
    PERMIT,
    SIGN,
    SIGN_TYPED_DATA,
    of_message,
    of_typed_data,
    relayer,
)
from tokens.models import AccessToken


def test_a_message_is_signed_with_the_published_signature(caller: Api) -> None:
    relayer(identifier="a/b c")
    r = "a461f509887bd19e312c0c58467ce8ff8e300d3c1a90b608a760c5b80318eaf1"
    s = "5fe57c96f9175d6cd4daad4663763baa7e78836e067d0163e9a2ccf2ff753f5b"
    # A path can end with a slash.
    answer = caller.post("/api/v1/relayers/a%2Fb%20c/sign/", MESSAGE)
    assert (answer.status, answer.body) == (200, bodies.success({"r": r, "s": s, "v": 27, "sig": f"{r}{s}1b"}))


def test_any_text_is_signed_as_text_and_bytes_as_bytes(caller: Api) -> None:
    relayer()
    for text in ("", "0xdeadbeef", "Grüße\n👋", "a\0b", " ", "x" * 100_000):
        assert caller.post(SIGN, {"message": text}).body == bodies.success(of_message(text))
    for text in ("0x68656C6c6f", "68656c6c6f"):
        assert caller.post(SIGN, {"message_hex": text}).body == bodies.success(of_message("hello"))


def test_typed_data_is_signed_by_its_hashes_and_as_a_whole(caller: Api) -> None:
    relayer()
    whole = {key: value for key, value in PERMIT.items() if key != "primary_type"}
    prefixed = {name: f"0x{value}" for name, value in HASHES.items()}
    for body in (HASHES, prefixed, whole, PERMIT, whole | {"primaryType": "Permit"}):
        answer = caller.post(SIGN_TYPED_DATA, body)
        assert (answer.status, answer.body) == (200, bodies.success(of_typed_data(PERMIT)))


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        (SIGN, MESSAGE, f"Signed a message. Digest: 0x{message_digest(b'hello world').hex()}"),
        (SIGN_TYPED_DATA, PERMIT, f"Signed typed data. Digest: 0x{PARSED.digest.hex()}"),
        (SIGN_TYPED_DATA, HASHES, f"Signed typed data, sent as two hashes. Digest: 0x{PARSED.digest.hex()}"),
    ],
)
def test_every_signature_is_in_the_audit_log_without_its_content(
    caller: Api, caplog: pytest.LogCaptureFixture, path: str, body: dict[str, Any], reason: str
) -> None:
    relayer()
    caplog.set_level(logging.DEBUG)
    (entry,) = written_by(lambda: caller.post(path, body, headers={"X-Request-ID": "request-1"}))
    assert entry == {
        "object_type": "relayer",
        "object_id": "relayer-1",
        "action": "acted",
        "changes": {},
        "reason": reason,
        "actor_kind": "token",
        "actor": "dapp",
        "actor_key": AccessToken.objects.get().key,
        "request_id": "request-1",
        "address": "127.0.0.1",
    }
    logged = json.dumps(entry) + "".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    contents = ("hello world", "1000000", "A Token", PERMIT["message"]["spender"], PARSED.message_hash.hex())
    assert [content for content in contents if content.lower() in logged.lower()] == []


def test_a_signature_leaves_only_with_its_audit_entry(caller: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    relayer()

    def fail(*_: Any) -> None:
        raise RuntimeError("the audit log is full")

    monkeypatch.setattr("relayers.signatures.signing.record", fail)
    answer = caller.post(SIGN, MESSAGE)
    assert (answer.status, answer.body) == (500, bodies.failure("Internal Server Error"))


def test_it_signs_only_what_the_relayer_allows_which_is_nothing_at_first(caller: Api) -> None:
    row = factories.relayer()
    labels = {"messages": "messages (EIP-191)", "typed_data": "typed data (EIP-712)"}
    for allowed in ([], ["messages"], ["typed_data"]):
        row.allow_signing = allowed
        row.save()
        for (path, body), (kind, label) in zip(BODIES.items(), labels.items(), strict=True):
            answer = caller.post(path, body)
            if kind in allowed:
                assert answer.status == 200
                continue
            message = f"Relayer does not allow signing {label}: `allow_signing` must have `{kind}`"
            assert (answer.status, answer.body) == (403, bodies.failure(message))
            assert "www-authenticate" not in answer.headers
    assert AuditEntry.objects.filter(object_type="relayer").count() == 2
