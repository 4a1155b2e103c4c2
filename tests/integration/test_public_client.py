"""Every call of the published TypeScript client of the interface, made by the client itself."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from relayer_service.models import PeriodicRun
from signers.config_shapes import SignerType
from tests import processes
from tests.chain.encoded import transfer
from tests.chain.fee_node import FeeNode, serve
from tests.concurrency import PATIENCE_SECONDS
from tests.relayers import factories
from tests.relayers.factories import ADDRESS
from tests.servers import PROJECT
from tests.transactions import factories as transactions
from tests.transactions.rest.requests import RECEIVER
from tokens.writes import issue

SDK = PROJECT / "tests/sdk"
RECEIVERS_KEY = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
EXTENSIONS = "lifecycle,transactions,signing"
SIGNER = {"id": "signer/1", "type": "local", "config": {}}
HOOK = {"id": "hook/1", "type": "webhook", "url": "https://hooks.example.com/relayers", "has_signing_key": True}
RELAYER = {
    "id": "new/1",
    "name": "New",
    "network": "hardhat",
    "network_type": "evm",
    "address": ADDRESS,
    "signer_id": "signer/1",
    "notification_id": "hook/1",
    "paused": False,
    "system_disabled": False,
    "policies": {"min_balance": 0},
}
# What the client reads of these calls, whole. Others are below.
DATA: dict[str, tuple[int, Any]] = {
    "createSigner": (201, SIGNER),
    "getSigner": (200, SIGNER),
    "createNotification": (201, HOOK),
    "listNotifications": (200, [HOOK]),
    "getNotification": (200, HOOK),
    "updateNotification": (200, HOOK | {"has_signing_key": False}),
    "createRelayer": (201, RELAYER),
    "getRelayer": (200, RELAYER),
    "updateRelayer": (
        200,
        RELAYER | {"name": "Renamed", "policies": {"min_balance": 0, "gas_price_cap": 15 * 10**20}},
    ),
    "getRelayerBalance": (200, {"balance": 2**70, "unit": "wei"}),
    "deleteRelayer": (200, "Relayer deleted successfully"),
    "deleteNotification": (200, "Notification deleted successfully"),
    "deleteSigner": (200, "Signer deleted successfully"),
}
# What is refused, and why.
REFUSED = {
    "createSigner aws_kms": (
        400,
        f"type: must be one of: {', '.join(SignerType.values)}",
    ),
    "updateSigner": (
        400,
        "a signer cannot be changed: create another one, assign it to the relayers and delete this one",
    ),
    "updateNetwork": (
        405,
        "Networks cannot be changed over REST: change NETWORKS_FILE, or custom_rpc_urls of a relayer",
    ),
    "sendTransaction 1e21": (
        400,
        'value: a number with an exponent may be rounded: send a string, such as "1000000000000000000000"',
    ),
    **dict.fromkeys(
        ("quoteSponsoredTransaction", "buildSponsoredTransaction"),
        (404, "Sponsored transactions are not supported: send a transaction, or estimate its fee with feeEstimate"),
    ),
    "signTransaction": (
        400,
        "signing a transaction is not supported for EVM relayers: send it, so that its nonce is tracked",
    ),
}


@dataclass
class Node(FeeNode):
    def result(self, method: str, params: list[Any]) -> Any:
        return hex(2**70) if method == "eth_getBalance" else super().result(method, params)


@pytest.mark.long
@pytest.mark.one_engine
@pytest.mark.django_db(transaction=True)
def test_every_call_works_or_is_refused_with_a_reason(user: User, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not (SDK / "node_modules").exists():
        pytest.skip("The public client: there is no Node.js, or `npm ci` was not run in tests/sdk")
    token = issue(name="client", user=user, scopes=["manage", "send", "sign"])[1]
    PeriodicRun.objects.create(
        name="heartbeat", slot=1, started_at=timezone.now(), finished_at=timezone.now(), seconds=0.0
    )
    with serve(Node()) as chain, processes.web(tmp_path / "log", EXTENSIONS=EXTENSIONS) as port:
        row = transaction_with_nonce(chain.url)
        command = [node, "calls.js", f"http://127.0.0.1:{port}", token, transfer()]
        done = subprocess.run(command, cwd=SDK, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)

    assert {name: data(answers.pop(name)) for name in DATA} == DATA
    assert {name: reason(answers.pop(name)) for name in REFUSED} == REFUSED
    statuses = {name: answer["status"] for name, answer in answers.items()}
    assert statuses == dict.fromkeys(statuses, 200)
    assert ids(answers["listSigners"]) == ["signer-1", "signer/1"]
    assert ids(answers["listRelayers"]) == ["relayer-1", "new/1"]
    assert answers["listNetworks"]["body"]["pagination"]["per_page"] == len(ids(answers["listNetworks"])) == 2
    assert answers["getNetwork"]["body"]["data"]["chain_id"] == 31337
    assert answers["health"]["body"] == {"status": "ok"}
    assert answers["readiness"]["body"]["status"] == "ready"
    assert answers["getRelayerStatus"]["body"]["data"]["pending_transactions_count"] == 1
    fee = {"estimated_fee": "0.00004389", "conversion_rate": "1", "method": "feeEstimate"}
    assert answers["rpc"]["body"] == {"jsonrpc": "2.0", "id": "1", "result": fee}
    sent = answers["sendTransaction"]["body"]["data"]
    assert (sent["status"], sent["to"], sent["value"], sent["speed"]) == ("pending", RECEIVER, "1", "safeLow")
    assert ids(answers["listTransactions"]) == [sent["id"], row]
    assert answers["getTransactionById"]["body"]["data"] == sent
    assert answers["getTransactionByNonce"]["body"]["data"]["id"] == row
    replaced, canceled = (answers[f"{name}Transaction"]["body"]["data"] for name in ("replace", "cancel"))
    assert (replaced["id"], replaced["value"]) == (sent["id"], "2")
    assert (canceled["id"], canceled["status"]) == (sent["id"], "canceled")
    canceling = answers["deletePendingTransactions"]["body"]["data"]
    assert canceling["queued_for_cancellation_transaction_ids"] == [row]
    for name in ("sign", "signTypedData"):
        signature = answers[name]["body"]["data"]
        assert signature["sig"] == f"{signature['r']}{signature['s']}{signature['v']:x}"


def transaction_with_nonce(url: str) -> str:
    """Create the relayer that the calls expect, and return the ID of its transaction."""
    relayer = factories.relayer(
        network="hardhat",
        signer=factories.signer("signer-1", RECEIVERS_KEY),
        address=RECEIVER,
        allow_signing=["messages", "typed_data"],
        rpc_urls=[{"url": url, "weight": 100}],
    )
    row = transactions.transaction(transactions.lane(relayer, next_nonce=8), nonce=7, status="sent")
    transactions.attempt(row)
    return row.identifier


def data(answer: dict[str, Any]) -> tuple[int, Any]:
    return answer["status"], answer["body"]["data"]


def reason(answer: dict[str, Any]) -> tuple[int, str]:
    """Return why a call was refused: the fault of a bad request, or the message."""
    body = answer["body"]
    assert (body["data"], body["success"]) == (None, False)
    logs = body.get("metadata", {}).get("logs", [])
    return answer["status"], logs[0]["message"] if logs else body["message"]


def ids(answer: dict[str, Any]) -> list[str]:
    return [entry["id"] for entry in answer["body"]["data"]]
