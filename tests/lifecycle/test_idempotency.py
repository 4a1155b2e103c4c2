"""Idempotency-Key: a request that is sent twice creates once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from notifications.models import Delivery, Notification
from relayer_service.models import IdempotentRequest
from relayers.models import Relayer
from signers.models import Signer
from tests.api import Answer, Api
from tests.concurrency import in_threads
from tests.contract import bodies
from tests.relayers import factories
from tokens.writes import issue

KEY = {"Idempotency-Key": "4b1e-7"}
SIGNER = {"type": "plain", "config": {"key": factories.KEY}}
RELAYER = {"name": "R", "network": "sepolia", "network_type": "evm", "signer_id": "signer-1", "paused": False}
HOOK = {"url": "https://hooks.example.com", "signing_key": "a secret of ours"}


@pytest.mark.parametrize(
    ("path", "body", "model"),
    [
        ("/api/v1/signers", SIGNER, Signer),
        ("/api/v1/notifications", HOOK, Notification),
        ("/api/v1/relayers", RELAYER, Relayer),
        ("/api/v1/notifications/hook-1/test", None, Delivery),
    ],
)
def test_the_same_request_gets_the_same_answer_and_creates_once(
    manager: Api, path: str, body: Any, model: Any
) -> None:
    factories.signer()
    factories.notification("hook-1")
    before = model.objects.count()
    first = manager.post(path, body, headers=dict(KEY))
    again = manager.post(f"{path}/", body, headers=dict(KEY))
    assert (first.status, again.status, again.text) == (201, 201, first.text)
    assert ("idempotent-replayed" in first.headers, again.headers["idempotent-replayed"]) == (False, "true")
    assert model.objects.count() == before + 1


def test_another_body_under_the_same_key_is_a_conflict(manager: Api) -> None:
    manager.post("/api/v1/notifications", HOOK, headers=dict(KEY))
    answer = manager.post("/api/v1/notifications", HOOK | {"signing_key": "another"}, headers=dict(KEY))
    message = "The Idempotency-Key was already used with a different body"
    assert (answer.status, answer.body) == (409, bodies.failure(message))
    assert Notification.objects.count() == 1


def test_a_key_is_of_one_token_and_one_route(manager: Api, user: User) -> None:
    other = Api(issue(name="another", user=user, scopes=["manage"])[1])
    factories.signer()
    answers = [
        manager.post("/api/v1/notifications", HOOK, headers=dict(KEY)),
        other.post("/api/v1/notifications", HOOK, headers=dict(KEY)),
        manager.post("/api/v1/relayers", RELAYER, headers=dict(KEY)),
    ]
    assert [answer.status for answer in answers] == [201, 201, 201]
    assert len({answer.body["data"]["id"] for answer in answers}) == 3


def test_a_request_that_failed_can_be_sent_again(manager: Api) -> None:
    body = {"id": "hook-1", **HOOK}
    factories.notification("hook-1")
    assert manager.post("/api/v1/notifications", body, headers=dict(KEY)).status == 409
    assert manager.post("/api/v1/notifications", {"url": "nowhere"}, headers=dict(KEY)).status == 400
    Notification.objects.all().delete()
    assert manager.post("/api/v1/notifications", body, headers=dict(KEY)).status == 201


def test_a_key_is_kept_for_a_day(manager: Api) -> None:
    first = manager.post("/api/v1/notifications", HOOK, headers=dict(KEY))
    IdempotentRequest.objects.update(at=timezone.now() - timedelta(hours=24, seconds=1))
    again = manager.post("/api/v1/notifications", HOOK, headers=dict(KEY))
    assert first.body["data"]["id"] != again.body["data"]["id"]
    IdempotentRequest.objects.update(at=timezone.now() - timedelta(hours=24, seconds=1))
    IdempotentRequest.objects.prune()
    assert not IdempotentRequest.objects.exists()


@pytest.mark.parametrize("key", ["", " ", "ä", "a b", "a,b", "x" * 256])
def test_a_key_that_cannot_be_kept_is_refused(manager: Api, key: str) -> None:
    answer = manager.post("/api/v1/notifications", HOOK, headers={"Idempotency-Key": key})
    fault = "Idempotency-Key: one key of 1 to 255 visible ASCII characters without commas is required"
    assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))
    assert not Notification.objects.exists()


def test_nothing_of_the_body_is_kept_but_a_digest(manager: Api) -> None:
    manager.post("/api/v1/notifications", HOOK, headers=dict(KEY))
    kept = IdempotentRequest.objects.values().get()
    assert HOOK["signing_key"] not in str(kept)
    assert len(kept["digest"]) == 64


@pytest.mark.django_db(transaction=True)
def test_of_two_requests_at_once_one_creates_and_both_get_its_answer(manager: Api) -> None:
    def send() -> Answer:
        return manager.post("/api/v1/notifications", HOOK, headers=dict(KEY))

    answers = in_threads(*[send] * 8)
    assert {answer.status for answer in answers} == {201}
    assert len({answer.text for answer in answers}) == 1
    assert Notification.objects.count() == 1


def test_without_the_extension_the_header_is_ignored(manager: Api, settings: Any) -> None:
    settings.EXTENSIONS = []
    ids = {manager.post("/api/v1/signers", SIGNER, headers=dict(KEY)).body["data"]["id"] for _ in range(2)}
    assert len(ids) == 2
