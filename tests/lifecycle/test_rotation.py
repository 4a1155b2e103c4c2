"""A token replaces itself: with an overlap, and with neither more rights nor more time than it had."""

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections, transaction
from django.utils import timezone

from relayer_service.database.clock import timestamp
from relayer_service.models import AuditEntry, IdempotentRequest
from spending.models import SpendingPolicy
from tests.api import Api
from tests.concurrency import in_threads, wait_until, waits_for_a_lock
from tests.contract import bodies
from tokens import credentials, writes
from tokens.models import AccessToken
from tokens.writes import AccessTokenWrite, NotRotatable, issue, rotate

PATH = "/api/v1/tokens/rotate"
SCOPES = ["read", "rotate"]
LATER = datetime(2036, 1, 1, tzinfo=UTC)


def tokens() -> list[AccessToken]:
    return list(AccessToken.objects.order_by("pk"))


def status(text: str) -> int:
    return Api(text).get("/api/v1/signers").status


def test_a_successor_has_the_rights_limits_and_expiry_of_the_token(user: User) -> None:
    policy = SpendingPolicy.objects.create(rules={"max_value": "1"})
    kept: dict[str, Any] = {
        "name": "ci",
        "user": user,
        "scopes": [*SCOPES, "send"],
        "allowed_relayers": ["relayer-1"],
        "allowed_networks": ["127.0.0.0/8"],
        "spending": policy,
        "expires_at": LATER,
    }
    _, text = issue(**kept)
    before = timezone.now()
    answer = Api(text).post(PATH, {"overlap_seconds": 3600})
    old, new = tokens()
    assert {name: getattr(new, name) for name in kept} == kept
    assert old.expires_at
    assert before <= old.expires_at - timedelta(hours=1) <= timezone.now()
    issued = answer.body["data"]["token"]
    assert (answer.status, answer.body) == (
        201,
        bodies.success(
            {
                "token": issued,
                "name": "ci",
                "scopes": ["read", "rotate", "send"],
                "allowed_relayers": ["relayer-1"],
                "expires_at": "2036-01-01T00:00:00.000000Z",
                "replaces": {"token": f"rms_{old.key}", "expires_at": timestamp(old.expires_at)},
            }
        ),
    )
    credential = credentials.parse(issued)
    assert credential
    assert credential.key == new.key
    assert [status(each) for each in (text, issued)] == [200, 200]
    entries = AuditEntry.objects.filter(actor__startswith="ci").order_by("pk")
    assert [(each.object_pk, each.action, each.reason) for each in entries] == [
        (str(new.pk), "created", ""),
        (str(old.pk), "changed", f"Replaced by {new}."),
    ]


def test_the_overlap_is_a_day_without_a_body_at_most_a_week_and_may_be_none(user: User) -> None:
    _, text = issue(name="ci", user=user, scopes=SCOPES)
    fault = "overlap_seconds: a whole number from 0 to 604800 is required"
    for overlap in (-1, 604_801, True, "60"):
        refused = Api(text).post(PATH, {"overlap_seconds": overlap})
        assert bodies.uncoded(refused.body) == bodies.bad_request(fault)
    second = Api(text).post(PATH).body["data"]["token"]
    assert tokens()[0].expires_at == tokens()[0].replaced_at + timedelta(days=1)  # type: ignore[operator]
    Api(second).post(PATH, {"overlap_seconds": 0})
    assert [status(each) for each in (text, second)] == [200, 401]
    assert [token.expires_at for token in tokens()][2] is None
    # It does not extend the token.
    soon = timezone.now() + timedelta(minutes=5)
    assert Api(issue(name="ci", user=user, scopes=SCOPES, expires_at=soon)[1]).post(PATH).status == 201
    assert [token.expires_at for token in tokens()[3:]] == [soon, soon]


def test_a_request_that_is_sent_again_issues_nothing_and_stores_no_secret(user: User) -> None:
    _, text = issue(name="ci", user=user, scopes=SCOPES)
    answers = [Api(text).post(PATH, {}, headers={"Idempotency-Key": "4b1e-7"}) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 409]
    assert answers[1].body == bodies.failure("Token was already rotated")
    assert (len(tokens()), IdempotentRequest.objects.count()) == (2, 0)


def test_a_token_and_its_successors_rotate_at_one_rate(user: User, settings: Any) -> None:
    settings.RATE_LIMIT_RPC = "2/d"
    _, text = issue(name="ci", user=user, scopes=SCOPES)
    _, other = issue(name="other", user=user, scopes=SCOPES)
    for _ in range(2):
        answer = Api(text).post(PATH)
        assert answer.status == 201
        text = answer.body["data"]["token"]
    answer = Api(text).post(PATH)
    assert (answer.status, answer.body) == (429, bodies.failure("Too Many Requests"))
    assert answer.headers["error-code"] == "throttled"
    assert (len(tokens()), Api(other).post(PATH).status) == (4, 201)


def test_a_token_is_not_rotated_without_end_or_when_it_is_over(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """A family is locked and revoked at once."""
    monkeypatch.setattr(writes, "MAX_FAMILY", 2)
    token, _ = issue(name="ci", user=user, scopes=SCOPES)
    successor = rotate(token.pk).new
    with pytest.raises(NotRotatable, match="the token was rotated 2 times: issue a new one"):
        rotate(successor.pk)
    ends: list[Any] = [{"enabled": False}, {"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, None]
    for over in ends:
        token, text = issue(name="ci", user=user, scopes=SCOPES)
        assert status(text) == 200
        # As another process would: the token is still cached in this one.
        row = AccessToken.objects.filter(pk=token.pk)
        if over:
            row.update(**over)
        else:
            row._raw_delete(row.db)
        assert Api(text).post(PATH).status == 401
    assert len(tokens()) == 2 + 2


@pytest.mark.django_db(transaction=True)
def test_of_concurrent_rotations_one_issues_a_token(user: User) -> None:
    _, text = issue(name="ci", user=user, scopes=SCOPES)
    answers = in_threads(*[lambda: Api(text).post(PATH).status] * 4)
    assert sorted(answers) == [201, 409, 409, 409]
    assert len(tokens()) == 2


def family(user: User, overlap: timedelta = timedelta(hours=1)) -> list[str]:
    """Issue a token, rotate it twice and return the texts of all three."""
    first, text = issue(name="ci", user=user, scopes=SCOPES)
    second = rotate(first.pk, overlap)
    third = rotate(second.new.pk, overlap)
    texts = [text, second.text, third.text]
    assert [status(each) for each in texts[2:]] == [200]
    return texts


def test_revoking_a_token_revokes_its_successors_and_not_those_before(user: User) -> None:
    other, others = issue(name="other", user=user, scopes=SCOPES)[0], family(user)
    texts = family(user)
    AccessToken.objects.filter(pk=tokens()[-2].pk).disable()
    assert [status(each) for each in (*texts, *others)] == [200, 401, 401, 200, 200, 200]
    entries = AuditEntry.objects.filter(changes__has_key="enabled", action="changed").order_by("object_pk")
    assert [each.reason for each in entries] == ["", "Disabled with the token that it succeeds."]
    assert other.enabled


@pytest.mark.django_db(transaction=True)
def test_a_rotation_in_progress_does_not_survive_a_revocation(user: User) -> None:
    for _ in range(5):
        first = issue(name="ci", user=user, scopes=SCOPES)[0]
        second = rotate(first.pk).new

        def rotate_second(pk: int = second.pk) -> None:
            with suppress(NotRotatable):
                rotate(pk)

        in_threads(rotate_second, AccessToken.objects.filter(pk=first.pk).disable)
    assert not AccessToken.objects.filter(enabled=True).exists()


def set_rules(token_id: int, **rules: str) -> None:
    with transaction.atomic():
        write = AccessTokenWrite(AccessToken.objects.get(pk=token_id))
        write.change({"spending_rules": rules})
        write.save()


def shared_rules() -> Any:
    """Return the rules of the only policy, which all tokens have."""
    policy = SpendingPolicy.objects.get()
    assert {token.spending_id for token in tokens()} == {policy.pk}
    return policy.rules


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_first_rules_after_a_rotation_are_those_of_the_whole_family(user: User, chosen: int) -> None:
    family(user)
    others = [each.pk for each in tokens()]
    changed = others.pop(chosen)
    set_rules(changed, max_value="1")
    assert shared_rules() == {"max_value": "1"}
    reason = f"Shares the rules of {AccessToken.objects.get(pk=changed)}."
    entries = AuditEntry.objects.filter(action="changed", changes__has_key="spending_rules.max_value").order_by("pk")
    assert [(each.object_pk, each.reason, each.changes) for each in entries if each.reason] == [
        (str(pk), reason, {"spending_rules.max_value": [None, "1"]}) for pk in others
    ]
    # So are those that it changes.
    set_rules(changed, max_value="2")
    assert shared_rules() == {"max_value": "2"}


def test_first_rules_do_not_concern_another_family(user: User) -> None:
    other = issue(name="other", user=user)[0]
    family(user)
    set_rules(tokens()[-1].pk, max_value="1")
    assert AccessToken.objects.get(pk=other.pk).spending is None
    set_rules(other.pk, max_value="2")
    assert [policy.rules["max_value"] for policy in SpendingPolicy.objects.order_by("pk")] == ["1", "2"]


def test_a_family_with_several_policies_gets_the_one_whose_rules_are_set(user: User) -> None:
    """Before families shared first rules, each of their tokens could have got its own, or none."""
    family(user)
    policies = [SpendingPolicy.objects.create(rules={"max_value": str(number)}) for number in range(2)]
    for token, policy in zip(tokens(), [*policies, None], strict=True):
        AccessToken.objects.filter(pk=token.pk).update(spending=policy)
    set_rules(tokens()[1].pk, max_value="7")
    assert {token.spending for token in tokens()} == {policies[1]}
    AccessToken.objects.filter(pk=tokens()[2].pk).update(spending=None)
    set_rules(tokens()[2].pk, max_value="8")
    assert {token.spending for token in tokens()} == {policies[1]}
    assert SpendingPolicy.objects.get(pk=policies[1].pk).rules == {"max_value": "8"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("rotated", [0, 1])
def test_a_rotation_in_progress_does_not_escape_first_rules(user: User, rotated: int) -> None:
    """Until the first one of a token is committed, it has no family."""
    first = issue(name="ci", user=user, scopes=SCOPES)[0]
    if rotated:
        rotate(first.pk)

    def set_first_rules() -> None:
        set_rules(first.pk, max_value="1")
        connections.close_all()

    other = threading.Thread(target=set_first_rules)
    with transaction.atomic():
        rotate(tokens()[-1].pk)
        other.start()
        wait_until(waits_for_a_lock)
    other.join()
    assert (shared_rules(), len(tokens())) == ({"max_value": "1"}, 2 + rotated)


@pytest.mark.django_db(transaction=True)
def test_a_rotation_that_waits_for_first_rules_has_them(user: User) -> None:
    first = issue(name="ci", user=user, scopes=SCOPES)[0]

    def rotate_first() -> None:
        rotate(first.pk)
        connections.close_all()

    other = threading.Thread(target=rotate_first)
    with transaction.atomic():
        set_rules(first.pk, max_value="1")
        other.start()
        wait_until(waits_for_a_lock)
    other.join()
    assert (shared_rules(), len(tokens())) == ({"max_value": "1"}, 2)


@pytest.mark.django_db(transaction=True)
def test_first_rules_of_two_tokens_of_a_family_at_once_are_one_policy(user: User) -> None:
    for _ in range(5):
        AccessToken.objects.all().delete()
        first = issue(name="ci", user=user, scopes=SCOPES)[0]
        second = rotate(first.pk).new
        works = [lambda pk=pk: set_rules(pk, max_value=str(pk)) for pk in (first.pk, second.pk)]
        in_threads(*works)
        assert len({token.spending_id for token in tokens()}) == 1
