"""Sending and reading as the published TypeScript client of the interface does."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.api import Answer, Api
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions.rest.requests import RECEIVER

ID = "a/b c"
# As `encodeURIComponent` writes it.
ENCODED = quote(ID, safe="!'()*~")
PATH = f"/api/v1/relayers/{ENCODED}/transactions"
# The names of the client's model of a transaction.
NAMES = {
    "id", "hash", "status", "status_reason", "created_at", "sent_at", "confirmed_at", "gas_price", "max_fee_per_gas",
    "max_priority_fee_per_gas", "gas_limit", "nonce", "value", "from", "to", "relayer_id", "data", "signature",
    "speed",
}  # fmt: skip


def send(api: Api, method: str, path: str, raw: bytes | None = None) -> Answer:
    """Send a request with the client's headers: a content type with a body alone, and no charset."""
    return api(
        method, path, raw=raw, headers={"Accept": "application/json, text/plain, */*", "User-Agent": "axios/1.7.9"}
    )


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        # Numbers as JavaScript writes them, up to the largest without an exponent.
        (b'{"to":"%s","value":1,"speed":"safeLow"}', {"value": "1", "speed": "safeLow"}),
        (b'{"to":"%s","value":999999999999999900000,"data":"0x","gas_price":20000000000,"gas_limit":21000}',
         {"value": "999999999999999900000", "gas_price": "20000000000", "gas_limit": 21_000, "speed": None}),
        (b'{"to":"%s","value":0,"data":null,"gas_limit":null,"max_fee_per_gas":3,"max_priority_fee_per_gas":1}',
         {"value": "0", "max_fee_per_gas": "3", "max_priority_fee_per_gas": "1", "speed": None}),
    ],
)  # fmt: skip
def test_a_transaction_is_sent_listed_and_read(sender: Api, body: bytes, shown: dict[str, Any]) -> None:
    factories.relayer(identifier=ID)
    sent = send(sender, "POST", PATH, body % RECEIVER.encode())
    assert sent.status == 200
    transaction = sent.body["data"]
    assert {name: transaction[name] for name in shown} == shown
    assert (transaction["relayer_id"], transaction["status"], transaction["hash"]) == (ID, "pending", None)
    assert transaction.keys() >= NAMES
    listed = send(sender, "GET", f"{PATH}/?page=1&per_page=5")
    assert listed.body == bodies.page([transaction], per_page=5, total_items=1)
    read = send(sender, "GET", f"{PATH}/{transaction['id']}")
    assert (read.status, read.body) == (200, sent.body)
    by_nonce = send(sender, "GET", f"{PATH}/by-nonce/0")
    assert (by_nonce.status, by_nonce.body) == (404, bodies.failure("Transaction with nonce 0 not found"))


def test_a_number_with_an_exponent_is_refused_as_it_may_not_be_exact(sender: Api) -> None:
    factories.relayer(identifier=ID)
    answer = send(sender, "POST", PATH, b'{"to":"%s","value":1e+21}' % RECEIVER.encode())
    fault = "value: a whole number from 0 to 2^256 - 1 is required, as an integer or a string without exponent"
    assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))
