"""What one token can send and store: rates per second, and bytes per day."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from relayers.models import Relayer
from tests.api import Answer, Api
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.limits import limit_relayer
from tests.transactions.rest.requests import PATH, RECEIVER, TRANSFER
from tokens.models import AccessToken
from tokens.writes import issue, rotate
from transactions.models import Transaction

pytestmark = pytest.mark.django_db

TOO_MANY = bodies.failure("Too Many Requests")
STORED = bodies.failure("The token has stored as much as it can per day")
DRY_RUN = f"{PATH}/dry-run"
KIB = 1024
CALL = {"to": RECEIVER, "value": 0, "data": "0x" + "01" * KIB}


@pytest.fixture(autouse=True)
def relayer() -> None:
    lanes.lane(factories.relayer())


@pytest.fixture
def other(user: User) -> Api:
    return Api(issue(name="other", user=user, scopes=["send"])[1])


def successor() -> Api:
    return Api(rotate(AccessToken.objects.get(name="payments").pk).text)


def refused(answer: Answer) -> tuple[int, Any, str, bool]:
    is_later = 1 <= int(answer.headers["retry-after"]) <= 86_400
    return answer.status, answer.body, answer.headers["error-code"], is_later


def send(client: Api, path: str = PATH, body: Any = TRANSFER, times: int = 1) -> list[int]:
    return [client.post(path, body).status for _ in range(times)]


def test_changes_count_on_the_rate_of_sending(sender: Api, settings: Any) -> None:
    settings.RATE_LIMIT_SEND = "4/d"
    path = f"{PATH}/{sender.post(PATH, TRANSFER).body['data']['id']}"
    requests = [
        ("PUT", path, {**TRANSFER, "value": 5}),
        ("POST", f"{path}/speed-up", {}),
        ("DELETE", path, None),
        ("DELETE", f"{PATH}/pending", None),
    ]
    assert [sender(*each).status for each in requests] == [200, 200, 200, 429]


def test_a_token_stores_so_many_bytes_per_day(sender: Api, other: Api, settings: Any) -> None:
    settings.TRANSACTION_BYTES_PER_DAY = 0
    assert send(other, body=CALL, times=6) == [200] * 6
    settings.TRANSACTION_BYTES_PER_DAY = 5 * KIB
    key = {"Idempotency-Key": "order-1"}
    assert sender.post(PATH, CALL, headers=dict(key)).status == 200
    assert send(sender, body=CALL, times=2) == [200, 429]
    assert refused(sender.post(PATH, CALL)) == (429, STORED, "storage_limit", True)
    # One without data has room.
    assert send(sender, times=2) == [200, 429]
    assert send(other, body=CALL) == [200]
    assert Transaction.objects.count() == 10
    # Neither canceling nor rotating frees bytes.
    assert sender("DELETE", f"{PATH}/pending").body["data"]["total_processed"] == 3
    assert [*send(sender), *send(successor())] == [429, 429]
    assert sender.post(PATH, CALL, headers=dict(key)).status == 200


def test_replacing_and_speeding_up_count_with_what_is_signed(sender: Api, settings: Any) -> None:
    settings.TRANSACTION_BYTES_PER_DAY = 7 * KIB
    path = f"{PATH}/{sender.post(PATH, TRANSFER).body['data']['id']}"
    assert sender("PUT", path, CALL).status == 200
    prices = [{"gas_price": price} for price in (5, 6, 7)]
    answers = [sender.post(f"{path}/speed-up", price) for price in prices]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert refused(sender("PUT", path, {**CALL, "value": 1})) == (429, STORED, "storage_limit", True)
    row = Transaction.objects.get()
    assert (row.gas_price_text, row.value, row.payload_version) == ("6", 0, 2)


def test_what_is_refused_by_a_rule_counts_as_it_is_recorded(sender: Api, settings: Any) -> None:
    settings.TRANSACTION_BYTES_PER_DAY = 2 * KIB
    limit_relayer(Relayer.objects.get(), max_value="0")
    assert send(sender, times=3) == [403, 403, 429]


@pytest.mark.parametrize(
    ("name", "path", "other_path"),
    [
        ("RATE_LIMIT_SEND", PATH, DRY_RUN),
        ("RATE_LIMIT_RPC", DRY_RUN, PATH),
        ("RATE_LIMIT_RPC", f"{PATH}?dry_run=true", PATH),
    ],
)
def test_a_token_sends_and_tries_at_its_rates(
    sender: Api, other: Api, settings: Any, name: str, path: str, other_path: str
) -> None:
    setattr(settings, name, "")
    assert send(sender, path, times=3) == [200] * 3
    setattr(settings, name, "2/d")
    assert send(sender, path, times=2) == [200, 200]
    assert refused(sender.post(path, TRANSFER)) == (429, TOO_MANY, "throttled", True)
    # Reading and the other kind of requests are counted elsewhere.
    assert (sender.get(PATH).status, send(sender, other_path), send(other, path)) == (200, [200], [200])
    assert send(successor(), path) == [429]
