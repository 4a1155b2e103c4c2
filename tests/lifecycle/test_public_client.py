"""Every call of the public TypeScript client, in the bytes that it sends, and the whole answer."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from eth_account import Account

from chain.networks import networks
from chain.typed_data import parse
from relayer_service.database.clock import timestamp
from relayer_service.net.addresses import mask
from tests.api import Answer, Api
from tests.chain.fee_node import FeeNode, serve
from tests.conftest import forget_everything
from tests.contract import bodies
from tests.contract.rpc_calls import FEE
from tests.contract.rpc_calls import TRANSFER as ENCODED_TRANSFER
from tests.contract.test_rpc import NO_METHOD
from tests.lifecycle.test_answers import EXPONENT
from tests.relayers import factories
from tests.relayers.factories import ADDRESS, KEY
from tests.relayers.signatures.requests import PERMIT, of_message, of_typed_data
from tests.signers.examples import CONFIGS
from tests.transactions import factories as lanes
from tests.transactions.rest.requests import RECEIVER
from tests.transactions.rest.test_sending import ACCEPTED
from tokens.writes import issue
from transactions.models import Status, Transaction

AT = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
ID = "a/b c"
# As `encodeURIComponent` writes it.
ENCODED = quote(ID, safe="!'()*~")
SIGNERS, NOTIFICATIONS, RELAYERS, NETWORKS = (
    f"/api/v1/{name}" for name in ("signers", "notifications", "relayers", "networks")
)
SIGNER_PATH, NOTIFICATION_PATH, RELAYER_PATH = (f"{path}/{ENCODED}" for path in (SIGNERS, NOTIFICATIONS, RELAYERS))
TRANSACTIONS = f"{RELAYER_PATH}/transactions"

SIGNER = {"id": ID, "type": "local", "config": {}}
URL = "https://hooks.example.com/relayers"
NOTIFICATION = {"id": ID, "type": "webhook", "url": URL, "has_signing_key": False}
# The answer to a change is the contract's, without these two.
MANAGED = {"enabled": True, "events": ["relayer.*", "transaction.*"]}
LISTED = {
    "id": ID,
    "name": "Relayer 1",
    "network": "hardhat",
    "network_type": "evm",
    "address": ADDRESS,
    "signer_id": "signer-1",
    "paused": False,
    "system_disabled": False,
}
UNUSED = LISTED | {"id": "unused", "network": "hoodi"}
NODES = {"custom_rpc_urls": [{"url": "NODE", "weight": 100}]}
# The contract's list does not have `allow_signing`.
RELAYER = LISTED | NODES | {"allow_signing": ["messages", "typed_data"]}
NEW_RELAYER = {
    "id": "new/b",
    "name": "Payments",
    "network": "sepolia",
    "network_type": "evm",
    "signer_id": "signer-1",
    "paused": False,
    "policies": {"min_balance": 1, "gas_price_cap": 999999999999999900000},
}
CHANGES = {"name": "Refunds", "notification_id": ID, "paused": True, "policies": {"min_balance": 2}}
NETWORK = {
    "id": "evm:hardhat",
    "name": "hardhat",
    "network_type": "evm",
    "chain_id": 31337,
    "symbol": "ETH",
    "is_testnet": True,
    "average_blocktime_ms": 1000,
    "rpc_urls": [{"url": "http://127.0.0.1:8545", "weight": 100}],
}
SIGNED = Account.sign_transaction(
    {"chainId": 31337, "nonce": 7, "to": RECEIVER, "value": 0, "gas": 21_000, "gasPrice": 800}, KEY
)
R, S, V = f"{SIGNED.r:064x}", f"{SIGNED.s:064x}", 27 + (SIGNED.v - 35) % 2
TIMES = {"created_at": timestamp(AT), "valid_until": timestamp(lanes.VALID_UNTIL)}
PENDING = {**ACCEPTED, **TIMES, "relayer_id": ID, "id": "PENDING", "value": "0"}
SUBMITTED = {
    **PENDING,
    "id": "SUBMITTED",
    "status": "submitted",
    "status_reason": "In the mempool since 2026-01-01T12:00:00.000000Z.",
    "nonce": 7,
    "hash": "0x" + "01" * 32,
    "gas_limit": 21_000,
    "gas_price": "800",
    "sent_at": timestamp(AT),
    "signature": {"r": R, "s": S, "v": V, "sig": f"{R}{S}{V:x}"},
}
SENT = {
    **PENDING,
    "id": "SENT",
    "created_at": "SENT_AT",
    "status_reason": "Position 2 of 2 in the queue of this relayer.",
}
CANCELED = {
    **PENDING,
    "status": "canceled",
    "status_reason": "It was canceled before it was sent.",
    "version": 2,
    "is_canceled": True,
}
ALL_CANCELED = {
    "queued_for_cancellation_transaction_ids": ["PENDING", "SUBMITTED"],
    "failed_to_queue_transaction_ids": [],
    "total_processed": 2,
}
STATUS = {
    "network_type": "evm",
    "balance": str(2**100),
    "balance_at": timestamp(AT),
    "nonce": "8",
    "pending_transactions_count": 2,
    "last_confirmed_transaction_timestamp": None,
    "paused": False,
    "system_disabled": False,
    "checked_at": timestamp(AT),
}
SENDING = {"to": RECEIVER, "valid_until": "2100-01-01T00:00:00Z", "value": 0}
PERMIT_ON_HARDHAT = PERMIT | {"domain": PERMIT["domain"] | {"chainId": 31337}}
PARSED = parse(**PERMIT_ON_HARDHAT)
HASHES = {"domain_separator": PARSED.domain_separator.hex(), "hash_struct_message": PARSED.message_hash.hex()}
ESTIMATE = {"fee_token": "ETH", "network": "hardhat", "transaction": ENCODED_TRANSFER}


class BalanceNode(FeeNode):
    def result(self, method: str, params: list[Any]) -> Any:
        return hex(2**70) if method == "eth_getBalance" else super().result(method, params)


@dataclass
class Fleet:
    """A client with every scope that the calls need, and the words of the table that stand for values."""

    api: Api
    words: dict[str, str]

    def replace(self, text: str) -> str:
        for word, value in self.words.items():
            text = text.replace(word, value)
        return text

    def send(self, method: str, path: str, body: Any = None) -> Answer:
        """Send a request as the client does: a content type with a body alone, without a charset."""
        text = "" if body is None else json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        raw = self.replace(text).encode() or None
        return self.api(method, self.replace(path), raw=raw, headers={"Accept": "application/json, text/plain, */*"})


@pytest.fixture
def node() -> Iterator[FeeNode]:
    with serve(BalanceNode()) as served:
        yield served


@pytest.fixture
def fleet(user: User, settings: Any, node: FeeNode) -> Fleet:
    """A relayer with two transactions, one without any, and a signer and a notification that nothing uses."""
    settings.EXTENSIONS = ["lifecycle", "transactions", "signing"]
    factories.signer(ID)
    factories.notification(ID)
    relayer = factories.relayer(
        identifier=ID,
        network="hardhat",
        rpc_urls=[{"url": node.url, "weight": 100}],
        allow_signing=["messages", "typed_data"],
        nonce=7,
        balance_text=str(2**100),
        balance_at=AT,
        checked_at=AT,
    )
    factories.relayer(identifier="unused", network="hoodi", allow_signing=["messages", "typed_data"])
    lane = lanes.lane(relayer, next_nonce=8)
    pending = lanes.transaction(lane, created_at=AT)
    submitted = lanes.transaction(lane, created_at=AT, nonce=7, status=Status.SUBMITTED, sent_at=AT, submitted_at=AT)
    lanes.attempt(submitted, hash="0x" + "01" * 32, raw=bytes(SIGNED.raw_transaction), gas_price_text="800")
    token = issue(name="client", user=user, scopes=["manage", "send", "sign"])[1]
    words = {"PENDING": pending.identifier, "SUBMITTED": submitted.identifier}
    words |= {"NODE": mask(node.url), "PLAIN_URL": node.url}
    return Fleet(Api(token), words)


def one(data: Any) -> dict[str, Any]:
    return bodies.success(data)


WHY_ALIAS = "type: {} is an alias: use {}, or set SIGNER_TYPE_ALIASES=true"
WHY_SIGNER = "a signer cannot be changed: create another one, assign it to the relayers and delete this one"
WHY_NETWORK = "Networks cannot be changed over REST: change NETWORKS_FILE, or custom_rpc_urls of a relayer"
WHY_SIGN = "signing a transaction is not supported for EVM relayers: send it, so that its nonce is tracked"
WHY_SPONSORED = "Sponsored transactions are not supported: send a transaction, or estimate its fee with feeEstimate"

# Each call: the method, the path and the body that are sent, the status and the body that are answered.
CALLS: dict[str, tuple[str, str, Any, int, Any]] = {
    "listSigners()": ("GET", SIGNERS, None,
                      200, bodies.page([SIGNER, SIGNER | {"id": "signer-1"}], total_items=2)),
    "listSigners(2, 1)": ("GET", f"{SIGNERS}?page=2&per_page=1", None,
                          200, bodies.page([SIGNER | {"id": "signer-1"}], current_page=2, per_page=1, total_items=2)),
    "createSigner": ("POST", SIGNERS, {"config": {"key": KEY}, "id": "s", "type": "plain"},
                     201, one(SIGNER | {"id": "s"})),
    "createSigner, aws_kms": ("POST", SIGNERS, {"config": {"region": "eu", "key_id": "k"}, "type": "aws_kms"},
                              400, bodies.bad_request(WHY_ALIAS.format("aws_kms", "provider_a_kms"))),
    "createSigner, vault": ("POST", SIGNERS, {"config": CONFIGS["provider_c"], "id": "s", "type": "vault"},
                            400, bodies.bad_request(WHY_ALIAS.format("vault", "provider_c"))),
    "getSigner": ("GET", SIGNER_PATH, None, 200, one(SIGNER)),
    "getSigner, unknown": ("GET", f"{SIGNERS}/b", None, 404, bodies.failure("Signer with ID b not found")),
    "updateSigner": ("PATCH", SIGNER_PATH, {}, 400, bodies.bad_request(WHY_SIGNER)),
    "deleteSigner": ("DELETE", SIGNER_PATH, None, 200, one("Signer deleted successfully")),

    "listNotifications()": ("GET", NOTIFICATIONS, None, 200, bodies.page([NOTIFICATION | MANAGED], total_items=1)),
    "createNotification": ("POST", NOTIFICATIONS, {"id": "n", "signing_key": "k" * 32, "type": "webhook", "url": URL},
                           201, one(NOTIFICATION | MANAGED | {"id": "n", "has_signing_key": True})),
    "getNotification": ("GET", NOTIFICATION_PATH, None, 200, one(NOTIFICATION | MANAGED)),
    "getNotification, unknown": ("GET", f"{NOTIFICATIONS}/b", None,
                                 404, bodies.failure("Notification with ID b not found")),
    "updateNotification": ("PATCH", NOTIFICATION_PATH, {"url": f"{URL}/2"},
                           200, one(NOTIFICATION | {"url": f"{URL}/2"})),
    "deleteNotification": ("DELETE", NOTIFICATION_PATH, None, 200, one("Notification deleted successfully")),

    "listRelayers()": ("GET", RELAYERS, None, 200, bodies.page([LISTED | NODES, UNUSED], total_items=2)),
    "listRelayers(2, 1)": ("GET", f"{RELAYERS}?page=2&per_page=1", None,
                           200, bodies.page([UNUSED], current_page=2, per_page=1, total_items=2)),
    "createRelayer": ("POST", RELAYERS, NEW_RELAYER,
                      201, one(NEW_RELAYER | {"address": ADDRESS, "system_disabled": False})),
    "getRelayer": ("GET", RELAYER_PATH, None, 200, one(RELAYER)),
    "getRelayer, unknown": ("GET", f"{RELAYERS}/b", None, 404, bodies.failure("Relayer with ID b not found")),
    "updateRelayer": ("PATCH", RELAYER_PATH, CHANGES, 200, one(RELAYER | CHANGES)),
    "updateRelayer, plain URLs": ("PATCH", RELAYER_PATH, {"custom_rpc_urls": ["PLAIN_URL"]}, 200, one(RELAYER)),
    "updateRelayer, 1e+21": ("PATCH", RELAYER_PATH, {"policies": {"gas_price_cap": 1e21}},
                             400, bodies.bad_request(f"policies.gas_price_cap: {EXPONENT}")),
    "deleteRelayer": ("DELETE", f"{RELAYERS}/unused", None, 200, one("Relayer deleted successfully")),
    "getRelayerStatus": ("GET", f"{RELAYER_PATH}/status", None, 200, one(STATUS)),
    "getRelayerBalance": ("GET", f"{RELAYER_PATH}/balance", None, 200, one({"balance": 2**70, "unit": "wei"})),

    # Numbers up to the largest that JavaScript writes without an exponent.
    "sendTransaction, speed": ("POST", TRANSACTIONS, SENDING | {"speed": "safeLow"},
                               200, one(SENT | {"speed": "safeLow"})),
    "sendTransaction, gas_price": (
        "POST", TRANSACTIONS,
        SENDING | {"data": "0x", "gas_limit": 21000, "gas_price": 20000000000, "value": 999999999999999900000},
        200, one(SENT | {"gas_limit": 21000, "gas_price": "20000000000", "speed": None,
                         "value": "999999999999999900000"})),
    "sendTransaction, maximum fees": (
        "POST", TRANSACTIONS,
        SENDING | {"data": None, "gas_limit": None, "max_fee_per_gas": 3, "max_priority_fee_per_gas": 1},
        200, one(SENT | {"max_fee_per_gas": "3", "max_priority_fee_per_gas": "1", "speed": None})),
    "sendTransaction, 1e+21": ("POST", TRANSACTIONS, {"speed": "fast", "to": RECEIVER, "value": 1e21},
                               400, bodies.bad_request(f"value: {EXPONENT}")),
    "listTransactions()": ("GET", f"{TRANSACTIONS}/", None, 200, bodies.page([SUBMITTED, PENDING], total_items=2)),
    "listTransactions(2, 1)": ("GET", f"{TRANSACTIONS}/?page=2&per_page=1", None,
                               200, bodies.page([PENDING], current_page=2, per_page=1, total_items=2)),
    "getTransactionById": ("GET", f"{TRANSACTIONS}/PENDING", None, 200, one(PENDING)),
    "getTransactionByNonce": ("GET", f"{TRANSACTIONS}/by-nonce/7", None, 200, one(SUBMITTED)),
    "getTransactionByNonce, unknown": ("GET", f"{TRANSACTIONS}/by-nonce/0", None,
                                       404, bodies.failure("Transaction with nonce 0 not found")),
    "cancelTransaction": ("DELETE", f"{TRANSACTIONS}/PENDING", None, 200, one(CANCELED)),
    "replaceTransaction": ("PUT", f"{TRANSACTIONS}/PENDING", SENDING | {"speed": "fastest", "value": 5},
                           200, one(PENDING | {"speed": "fastest", "value": "5", "version": 2})),
    "replaceTransaction, 1e+21": ("PUT", f"{TRANSACTIONS}/PENDING", {"speed": "fast", "to": RECEIVER, "value": 1e21},
                                  400, bodies.bad_request(f"value: {EXPONENT}")),
    "deletePendingTransactions": ("DELETE", f"{TRANSACTIONS}/pending", None, 200, one(ALL_CANCELED)),
    "quoteSponsoredTransaction": ("POST", f"{TRANSACTIONS}/sponsored/quote", {"fee_token": "t", "transaction": "AQ=="},
                                  404, bodies.failure(WHY_SPONSORED)),
    "buildSponsoredTransaction": ("POST", f"{TRANSACTIONS}/sponsored/build", {"fee_token": "t", "transaction": "AQ=="},
                                  404, bodies.failure(WHY_SPONSORED)),

    "sign": ("POST", f"{RELAYER_PATH}/sign", {"message": "Grüße"}, 200, one(of_message("Grüße"))),
    "signTypedData": ("POST", f"{RELAYER_PATH}/sign-typed-data", HASHES,
                      200, one(of_typed_data(PERMIT_ON_HARDHAT))),
    "signTransaction": ("POST", f"{RELAYER_PATH}/sign-transaction", {"unsigned_xdr": "AAAA"},
                        400, bodies.bad_request(WHY_SIGN)),
    "rpc": ("POST", f"{RELAYER_PATH}/rpc", {"id": 1, "jsonrpc": "2.0", "method": "feeEstimate", "params": ESTIMATE},
            200, bodies.rpc_result(FEE)),
    "rpc, another method": (
        "POST", f"{RELAYER_PATH}/rpc", {"id": 1, "jsonrpc": "2.0", "method": "eth_blockNumber", "params": {}},
        200, bodies.rpc_error(-32601, "Method not found", NO_METHOD)),
    "rpc, params as an array": (
        "POST", f"{RELAYER_PATH}/rpc", {"id": 1, "jsonrpc": "2.0", "method": "feeEstimate", "params": ["ETH"]},
        400, bodies.bad_request("params: an object is required")),

    "getNetwork": ("GET", f"{NETWORKS}/evm%3Ahardhat", None, 200, one(NETWORK)),
    "getNetwork, unknown": ("GET", f"{NETWORKS}/evm%3Amoon", None,
                            404, bodies.failure("Network with ID evm:moon not found")),
    "updateNetwork": ("PATCH", f"{NETWORKS}/evm%3Ahardhat", {"rpc_urls": ["https://node.example.com"]},
                      405, bodies.failure(WHY_NETWORK)),
}  # fmt: skip


def test_each_call_is_answered(fleet: Fleet) -> None:
    words, wrong = fleet.words, {}
    for call, (method, path, body, status, expected) in CALLS.items():
        with transaction.atomic():
            answer = fleet.send(method, path, body)
            newest = Transaction.objects.latest("pk")
            transaction.set_rollback(True)
        forget_everything()
        fleet.words = words | {"SENT_AT": timestamp(newest.created_at), "SENT": newest.identifier}
        found = answer.body
        # The next page of a list is read with a cursor, too; the client ignores it.
        found.get("pagination", {}).pop("next_cursor", None)
        if status == 400 and any("code" in entry for entry in found["metadata"]["logs"]):
            found = bodies.uncoded(found)
        if (answer.status, found) != (status, json.loads(fleet.replace(json.dumps(expected)))):
            wrong[call] = (answer.status, found)
    assert wrong == {}


def test_networks_are_listed_and_name_their_methods(fleet: Fleet) -> None:
    first = fleet.send("GET", f"{NETWORKS}?page=1&per_page=2").body
    assert first["pagination"] == {"current_page": 1, "per_page": 2, "total_items": len(networks())}
    assert len(first["data"]) == 2
    everything = fleet.send("GET", f"{NETWORKS}?page=1&per_page=1000").body["data"]
    assert everything[:2] == first["data"]
    assert NETWORK in everything
    assert fleet.send("PATCH", f"{NETWORKS}/evm%3Ahardhat", {}).headers["allow"] == "GET, HEAD"
    for path in ("health", "ready"):
        assert Api().get(f"/api/v1/{path}").text == Api().get(f"/{path}").text
