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
    relayer()
    answer = caller.post(SIGN, MESSAGE)
    r = "a461f509887bd19e312c0c58467ce8ff8e300d3c1a90b608a760c5b80318eaf1"
    s = "5fe57c96f9175d6cd4daad4663763baa7e78836e067d0163e9a2ccf2ff753f5b"
    assert (answer.status, answer.body) == (200, bodies.success({"r": r, "s": s, "v": 27, "sig": f"{r}{s}1b"}))


@pytest.mark.parametrize("text", ["", "0xdeadbeef", "Grüße\n👋", "a\0b", " ", "x" * 100_000])
def test_any_text_is_signed_as_text(caller: Api, text: str) -> None:
    relayer()
    assert caller.post(SIGN, {"message": text}).body == bodies.success(of_message(text))


@pytest.mark.parametrize("prefix", ["", "0x"])
def test_typed_data_is_signed_by_its_hashes(caller: Api, prefix: str) -> None:
    relayer()
    answer = caller.post(SIGN_TYPED_DATA, {name: prefix + value for name, value in HASHES.items()})
    assert (answer.status, answer.body) == (200, bodies.success(of_typed_data(PERMIT)))


@pytest.mark.parametrize("name", ["primary_type", "primaryType", None])
def test_typed_data_is_signed_as_a_whole(caller: Api, name: str | None) -> None:
    relayer()
    body = {key: value for key, value in PERMIT.items() if key != "primary_type"}
    answer = caller.post(SIGN_TYPED_DATA, body | ({name: "Permit"} if name else {}))
    assert (answer.status, answer.body) == (200, bodies.success(of_typed_data(PERMIT)))


def test_a_path_can_end_with_a_slash_and_an_id_have_one(caller: Api) -> None:
    relayer(identifier="a/b c")
    assert caller.post("/api/v1/relayers/a%2Fb%20c/sign/", MESSAGE).body == bodies.success(of_message("hello world"))


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        (SIGN, MESSAGE, f"Signed a message. Digest: 0x{message_digest('hello world').hex()}"),
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


@pytest.mark.parametrize("path", BODIES)
def test_it_signs_only_what_the_relayer_allows(caller: Api, path: str) -> None:
    label, kind = {SIGN: ("messages (EIP-191)", "messages"), SIGN_TYPED_DATA: ("typed data (EIP-712)", "typed_data")}[
        path
    ]
    allowed = ["messages", "typed_data"]
    row = relayer(allow_signing=[other for other in allowed if other != kind])
    answer = caller.post(path, BODIES[path])
    message = f"Relayer does not allow signing {label}: `allow_signing` must have `{kind}`"
    assert (answer.status, answer.body) == (403, bodies.failure(message))
    assert "www-authenticate" not in answer.headers
    row.allow_signing = [kind]
    row.save()
    assert caller.post(path, BODIES[path]).status == 200


def test_it_is_off_for_a_new_relayer(caller: Api) -> None:
    factories.relayer()
    assert [caller.post(path, body).status for path, body in BODIES.items()] == [403, 403]
    assert not AuditEntry.objects.filter(object_type="relayer").exists()
