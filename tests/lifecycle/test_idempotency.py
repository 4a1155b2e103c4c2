"""Idempotency-Key: a request that is sent twice creates once."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from notifications.models import Delivery, Notification
from relayer_service.models import IdempotentRequest, Job
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
        *(
            (path, {"filter": {}}, Job)
            for path in ("/api/v1/relayers/pause", "/api/v1/notifications/hook-1/deliveries/replay")
        ),
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


def test_a_key_is_of_one_token_one_route_and_one_body_for_a_day(manager: Api, user: User, settings: Any) -> None:
    other = Api(issue(name="another", user=user, scopes=["manage"])[1])
    factories.signer()
    notifications = "/api/v1/notifications"
    answers = [manager.post(notifications, HOOK, headers=dict(KEY))]
    # Nothing of the body is kept but a digest.
    kept = IdempotentRequest.objects.values().get()
    assert (HOOK["signing_key"] in str(kept), len(kept["digest"])) == (False, 64)
    answers += [other.post(notifications, HOOK, headers=dict(KEY))]
    answers += [manager.post("/api/v1/relayers", RELAYER, headers=dict(KEY))]
    refused = manager.post(notifications, HOOK | {"signing_key": "another"}, headers=dict(KEY))
    message = "The Idempotency-Key was already used with a different body"
    assert (refused.status, refused.body) == (409, bodies.failure(message))
    a_day_ago = timezone.now() - timedelta(hours=24, seconds=1)
    IdempotentRequest.objects.update(at=a_day_ago)
    answers += [manager.post(notifications, HOOK, headers=dict(KEY))]
    settings.EXTENSIONS = []
    answers += [manager.post("/api/v1/signers", SIGNER, headers=dict(KEY)) for _ in range(2)]
    assert [answer.status for answer in answers] == [201] * 6
    assert len({answer.body["data"]["id"] for answer in answers}) == 6
    IdempotentRequest.objects.update(at=a_day_ago)
    IdempotentRequest.objects.prune()
    assert not IdempotentRequest.objects.exists()


def test_a_request_that_failed_can_be_sent_again(manager: Api) -> None:
    body = {"id": "hook-1", **HOOK}
    factories.notification("hook-1")
    assert manager.post("/api/v1/notifications", body, headers=dict(KEY)).status == 409
    assert manager.post("/api/v1/notifications", {"url": "nowhere"}, headers=dict(KEY)).status == 400
    Notification.objects.all().delete()
    assert manager.post("/api/v1/notifications", body, headers=dict(KEY)).status == 201


def test_a_key_that_cannot_be_kept_is_refused(manager: Api) -> None:
    fault = "Idempotency-Key: one key of 1 to 255 visible ASCII characters without commas is required"
    for key in ("", " ", "ä", "a b", "a,b", "x" * 256):
        answer = manager.post("/api/v1/notifications", HOOK, headers={"Idempotency-Key": key})
        assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))
    assert not Notification.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_requests_at_once_one_creates_and_both_get_its_answer(manager: Api) -> None:
    def send() -> Answer:
        return manager.post("/api/v1/notifications", HOOK, headers=dict(KEY))

    answers = in_threads(*[send] * 8)
    assert {answer.status for answer in answers} == {201}
    assert len({answer.text for answer in answers}) == 1
    assert Notification.objects.count() == 1
