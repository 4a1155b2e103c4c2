"""The header `Relayer-Generation`: a client notices a restored database when it falls."""

from __future__ import annotations

from tests.api import Api
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.rest.requests import PATH, TRANSFER
from transactions.models import Lane

KEY = {"Idempotency-Key": "order-4711"}


def test_every_operation_reports_the_generation(sender: Api) -> None:
    lane = lanes.lane(factories.relayer(), generation=42)
    sent = lanes.transaction(lane, status="submitted", nonce=3)
    lanes.attempt(sent, gas_price_text="1")
    waiting = f"{PATH}/{lanes.transaction(lane).identifier}"
    answers = {
        "send": sender.post(PATH, TRANSFER, headers=KEY),
        "send again": sender.post(PATH, TRANSFER, headers=KEY),
        "list": sender.get(PATH),
        "get": sender.get(waiting),
        "by nonce": sender.get(f"{PATH}/by-nonce/3"),
        "replace": sender("PUT", waiting, {**TRANSFER, "value": 2}),
        "speed up": sender.post(f"{waiting}/speed-up", {"speed": "fastest"}),
        "cancel": sender("DELETE", waiting),
        "cancel all": sender("DELETE", f"{PATH}/pending"),
    }
    found = {name: (answer.status, answer.headers["relayer-generation"]) for name, answer in answers.items()}
    assert found == dict.fromkeys(answers, (200, "42"))


def test_a_replay_reports_that_of_the_relayers_present_account(sender: Api) -> None:
    relayer = factories.relayer()
    assert sender.get(PATH).headers["relayer-generation"] == "0"
    assert sender.post(PATH, TRANSFER, headers=KEY).headers["relayer-generation"] == "0"
    Lane.objects.update(relayer=None, generation=7)
    Lane.objects.create(chain_id=1, address=relayer.address, relayer=relayer, generation=2)
    assert sender.post(PATH, TRANSFER, headers=KEY).headers["relayer-generation"] == "2"
