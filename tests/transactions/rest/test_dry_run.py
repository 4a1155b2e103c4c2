"""Dry runs: every rule with its verdict, and nothing that is accepted."""

from __future__ import annotations

from typing import Any

import pytest

from relayers.models import Relayer
from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.servers import free_port
from tests.transactions.hardhat import LocalChain
from tests.transactions.limits import limit_relayer, used
from tests.transactions.rest.requests import PATH, TRANSFER
from transactions.models import Charge, Lane, Transaction

DRY_RUN = f"{PATH}/dry-run"
STATE = {"source": "state", "rule": "paused", "allowed": True, "text": "The relayer accepts transactions."}
QUEUE = {"source": "queue", "rule": "queue", "allowed": True, "text": "0 of 1000 places are taken."}
POLICIES = {
    "source": "policies",
    "rule": "policies",
    "allowed": True,
    "text": "The relayer's policies and the limits of hardhat allow it.",
}


@pytest.fixture
def relayer(local_chain: LocalChain) -> Relayer:
    return factories.relayer(network="hardhat", rpc_urls=[{"url": local_chain.url, "weight": 100}])


def limit(source: str, rule: str, maximum: int, used: int, amount: int, name: str = "value") -> dict[str, Any]:
    left = maximum - used
    texts = {"maximum": maximum, "used": used, "left": left, "amount": amount}
    shown = {key: str(value) for key, value in texts.items()}
    return {"source": source, "rule": rule, "name": name, **shown, "allowed": amount <= left}


def test_a_dry_run_returns_every_rule_and_accepts_nothing(sender: Api, relayer: Relayer) -> None:
    chosen = limit_relayer(relayer, max_value="9", max_value_per_day="10", max_gas_cost_per_day=str(10**18))
    assert sender.post(PATH, {**TRANSFER, "value": 4}).status == 200
    answer = sender.post(DRY_RUN, {**TRANSFER, "value": 8, "gas_limit": 30_000})
    estimate = answer.body["data"]["estimate"]
    cost = 30_000 * int(estimate["max_fee_per_gas"])
    rule = "Value 8 wei; the maximum of a transaction is 9 wei."
    assert (answer.status, answer.body) == (
        200,
        bodies.success(
            {
                "allowed": False,
                "checks": [
                    STATE,
                    POLICIES,
                    {**QUEUE, "text": "1 of 1000 places are taken."},
                    {"source": "relayer", "rule": "max_value", "allowed": True, "text": rule},
                ],
                "limits": [
                    limit("relayer", "max_value_per_day", 10, 4, 8),
                    limit("relayer", "max_gas_cost_per_day", 10**18, 0, cost, "gas"),
                ],
                "estimate": {
                    "gas_limit": 30_000,
                    "gas_price": None,
                    "max_fee_per_gas": estimate["max_fee_per_gas"],
                    "max_priority_fee_per_gas": estimate["max_priority_fee_per_gas"],
                    "max_gas_cost": str(cost),
                    "reason": None,
                },
            }
        ),
    )
    assert (Transaction.objects.count(), used(chosen)) == (1, 4)
    assert sender.post(DRY_RUN, {**TRANSFER, "value": 6}).body["data"]["allowed"] is True


def test_a_gas_limit_that_can_never_be_enough_refuses(sender: Api, relayer: Relayer) -> None:
    limit_relayer(relayer, max_gas_cost_per_day="0")
    data = sender.post(DRY_RUN, TRANSFER).body["data"]
    text = "Gas cost of at least 1 wei; the maximum in 24 hours is 0 wei."
    refused = {"source": "relayer", "rule": "max_gas_cost_per_day", "allowed": False, "text": text}
    assert (data["allowed"], data["checks"][-1]) == (False, refused)
    # One that is reached does not.
    limit_relayer(relayer, max_gas_cost_per_day="1")
    data = sender.post(DRY_RUN, TRANSFER).body["data"]
    assert (data["allowed"], [each["allowed"] for each in data["limits"]]) == (True, [False])


def test_a_malformed_dry_run_or_one_without_an_account_is_refused(sender: Api) -> None:
    for path, body, status, words in [
        (f"{PATH}?dry_run=yes", TRANSFER, 400, "dry_run"),
        (DRY_RUN, {}, 400, "value"),
        (DRY_RUN, TRANSFER, 404, "Relayer with ID relayer-1 not found"),
    ]:
        answer = sender.post(path, body)
        assert (answer.status, words in str(answer.body)) == (status, True)
    factories.relayer(address="")
    data = sender.post(DRY_RUN, TRANSFER).body["data"]
    text = "Relayer has no address: its signer has not provided one yet"
    assert data["checks"] == [{"source": "state", "rule": "state", "allowed": False, "text": text}]


def test_a_dry_run_reports_what_would_be_refused_otherwise(sender: Api) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    policies: dict[str, Any] = {"whitelist_receivers": []}
    factories.relayer(paused=True, network="hardhat", policies=policies, rpc_urls=[{"url": url, "weight": 1}])
    data = sender.post(DRY_RUN, TRANSFER).body["data"]
    text = "The relayer's policy whitelist_receivers does not allow this receiver."
    assert data["allowed"] is False
    assert data["checks"] == [
        {**STATE, "allowed": False, "text": "Relayer paused"},
        {"source": "policies", "rule": "to", "allowed": False, "text": text},
        QUEUE,
    ]
    assert data["estimate"]["reason"] == "No node answered: connection failed."
    # As of the last release.
    assert sender.post(f"{PATH}?dry_run=true", TRANSFER).body["data"] == data
    assert (Transaction.objects.count(), Lane.objects.count(), Charge.objects.count()) == (0, 0, 0)
