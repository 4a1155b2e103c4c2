"""Accounts with funds, relayers that send from them, and requests that the ledger counts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from eth_account import Account
from eth_utils.crypto import keccak

from relayers.models import Relayer
from tests.api import Answer, Api
from tests.chain.hardhat import Chain
from tests.relayers import factories
from tests.transactions.hardhat import record
from tokens.writes import issue

# A part of a node's URL that must not appear anywhere.
URL_SECRET = "hunter2-of-the-node"
FUNDS = 10 * 10**18


@dataclass(frozen=True)
class Sender:
    """A relayer with its own key, and a client that may send with it."""

    relayer: Relayer
    key: str
    api: Api
    ledger: str

    @property
    def address(self) -> str:
        return self.relayer.address

    @property
    def secrets(self) -> list[str]:
        return [self.key.removeprefix("0x"), URL_SECRET]

    def payload(self, ledger_id: bytes) -> dict[str, Any]:
        return {"to": self.ledger, "value": 0, "data": "0x" + record(ledger_id).hex(), "speed": "fast"}

    def path(self, identifier: str) -> str:
        return f"/api/v1/relayers/{self.relayer.identifier}/transactions/{identifier}"

    def cancel(self, identifier: str) -> Answer:
        return self.api("DELETE", self.path(identifier))

    def replace(self, identifier: str, ledger_id: bytes) -> Answer:
        """Request that another id is recorded."""
        return self.api("PUT", self.path(identifier), self.payload(ledger_id))

    def speed_up(self, identifier: str, speed: str = "") -> Answer:
        return self.api("POST", f"{self.path(identifier)}/speed-up", {"speed": speed} if speed else {})

    def post(self, ledger_id: bytes, key: str = "", **changes: Any) -> Answer:
        """Request a call that records an id in the ledger."""
        body = self.payload(ledger_id) | changes
        headers = {"Idempotency-Key": key} if key else {}
        return self.api.post(f"/api/v1/relayers/{self.relayer.identifier}/transactions", body, headers=headers)

    def send(self, ledger_id: bytes, key: str = "", **changes: Any) -> str:
        """Request a call that records an id in the ledger, and return the transaction's id."""
        answer = self.post(ledger_id, key, **changes)
        assert answer.status == 200, answer.text
        return str(answer.body["data"]["id"])


def new_key(name: str) -> str:
    """Return the key of an account that nothing else uses."""
    return "0x" + keccak(text=name).hex()


def address_of(key: str) -> str:
    return str(Account.from_key(key).address)


def ledger_id(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def sender(chain: Chain, ledger: str, name: str = "sender", *, url: str = "", **changes: Any) -> Sender:
    """Create a relayer on the chain with funds, a webhook and a token that may send."""
    key = new_key(name)
    chain.set_balance(address_of(key), FUNDS)
    values = {
        "identifier": name,
        "network": "hardhat",
        "address": address_of(key),
        "signer": factories.signer(name, key),
        "rpc_urls": [{"url": url or f"{chain.url}/{URL_SECRET}", "weight": 100}],
    } | changes
    if "notification" not in values:
        # Nobody listens there: what matters is in the outbox.
        values["notification"] = factories.notification(name, "http://127.0.0.1:9/hook")
    relayer = factories.relayer(**values)
    user, _ = User.objects.get_or_create(username="sender")
    token = issue(name=name, user=user, scopes=["send"])[1]
    return Sender(relayer, key, Api(token), ledger)
