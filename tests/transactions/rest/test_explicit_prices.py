"""Explicit prices under spending rules are at most what automatic prices can be: others could burn funds."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from chain.units import gwei
from relayers.models import Relayer
from tests.api import Answer, Api
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.limits import limit_relayer, policy
from tests.transactions.rest.requests import PATH, TRANSFER
from tokens.models import AccessToken, verified_tokens
from tokens.writes import issue
from transactions.models import Lane, Transaction

GWEI = 10**9
# On Sepolia, where all prices are below 10,000 gwei, and tips below a tenth.
MAXIMUM = 10_000 * GWEI
HIGHEST = {"gas_price": MAXIMUM // 10, "max_fee_per_gas": MAXIMUM, "max_priority_fee_per_gas": MAXIMUM // 10}
FEES = {"max_fee_per_gas": MAXIMUM, "max_priority_fee_per_gas": MAXIMUM // 10}
TOO_HIGH: list[tuple[dict[str, int], str]] = [
    ({"gas_price": MAXIMUM // 10 + 1}, "gas_price"),
    ({"max_fee_per_gas": MAXIMUM + 1, "max_priority_fee_per_gas": 1}, "max_fee_per_gas"),
    ({"max_fee_per_gas": MAXIMUM, "max_priority_fee_per_gas": MAXIMUM // 10 + 1}, "max_priority_fee_per_gas"),
]
RULES = {"max_value": "500000000000000000", "max_value_per_day": "5000000000000000000"}


@pytest.fixture
def relayer() -> Relayer:
    return factories.relayer()


@pytest.fixture
def lane(relayer: Relayer) -> Lane:
    return lanes.lane(relayer)


def limit(holder: str, relayer: Relayer) -> None:
    """Set rules that do not concern gas."""
    if holder == "relayer":
        limit_relayer(relayer, **RULES)
    else:
        AccessToken.objects.update(spending=policy(**RULES))


def fault(name: str, maximum: int) -> str:
    rest = "the maximum of automatic prices: the relayer or the token has spending rules"
    return f"{name}: must not be above {gwei(maximum)}, {rest}"


def refused(answer: Answer, name: str) -> None:
    expected = bodies.bad_request(fault(name, HIGHEST[name]), code="not_allowed")
    assert (answer.status, answer.body) == (400, expected)


@pytest.mark.parametrize(("holder", "index"), [("relayer", 0), ("token", 1), ("relayer", 2)])
def test_a_price_above_automatic_ones_is_refused_in_every_request(
    sender: Api, relayer: Relayer, lane: Lane, holder: str, index: int
) -> None:
    price, name = TOO_HIGH[index]
    row = lanes.transaction(lane)
    limit(holder, relayer)
    # A token that manages some relayers can raise the cap.
    relayer.policies = {"gas_price_cap": 2**128 - 1}
    relayer.save()
    path = f"{PATH}/{row.identifier}"
    refused(sender.post(PATH, {**TRANSFER, **price}), name)
    refused(sender("PUT", path, {**TRANSFER, "value": 2, **price}), name)
    refused(sender.post(f"{path}/speed-up", price), name)
    dry_run = sender.post(f"{PATH}/dry-run", {**TRANSFER, **price}).body["data"]
    text = fault(name, HIGHEST[name]).partition(": ")[2]
    assert {"source": "policies", "rule": name, "allowed": False, "text": text} in dry_run["checks"]
    found = Transaction.objects.get()
    assert (dry_run["allowed"], found.payload_version, found.pricing) == (False, 1, "speed")
    for highest in (FEES, {"gas_price": MAXIMUM // 10}, {"speed": "fastest"}):
        assert sender.post(PATH, {**TRANSFER, **highest}).status == 200
    limit_relayer(relayer)
    AccessToken.objects.update(spending=None)
    verified_tokens.clear()
    assert sender.post(PATH, {**TRANSFER, **price}).status == 200


def test_a_token_without_rules_does_not_raise_the_price_of_one_with_rules(user: User, relayer: Relayer) -> None:
    other = Api(issue(name="other", user=user, scopes=["send", "manage"])[1])
    text = issue(name="limited", user=user, scopes=["send"])[1]
    AccessToken.objects.filter(name="limited").update(spending=policy(**RULES))
    verified_tokens.clear()
    accepted = Api(text).post(PATH, TRANSFER).body["data"]["id"]
    refused(other.post(f"{PATH}/{accepted}/speed-up", {"gas_price": MAXIMUM}), "gas_price")


def test_steps_up_end_below_automatic_prices(sender: Api, relayer: Relayer, lane: Lane) -> None:
    limit("relayer", relayer)
    row = lanes.transaction(lane, pricing="eip1559", speed="", max_fee_text=str(MAXIMUM), max_priority_fee_text="1")
    answer = sender.post(f"{PATH}/{row.identifier}/speed-up")
    refused(answer, "max_fee_per_gas")
    # A gas price of this amount would be too high.
    Transaction.objects.update(max_fee_text=str(MAXIMUM // 2))
    assert sender.post(f"{PATH}/{row.identifier}/speed-up").status == 200
