"""JSON-RPC calls that are measured, and the relayers and tokens that they need."""

import json
from typing import Any

from benchmarks.databases import run_apart

# A transfer on chain 31337, not signed.
TRANSACTION = "0x02e1827a698080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0"
SENDER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
ESTIMATE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "feeEstimate",
    "params": {"fee_token": "BENCH", "network": "evm", "transaction": TRANSACTION},
}
# Tokens whose prices are those of a Chainlink feed each.
QUOTED_TOKENS = [f"FEED{number:02}" for number in range(20)]


def quote(fee_tokens: list[str]) -> dict[str, Any]:
    params = {"network": "evm", "transaction": TRANSACTION, "fee_tokens": fee_tokens}
    return {"jsonrpc": "2.0", "id": 1, "method": "feeQuote", "params": params}


METHODS = {
    "feeEstimate": ESTIMATE,
    "feeQuote, 1 token": quote(QUOTED_TOKENS[:1]),
    "feeQuote, 20 tokens": quote(QUOTED_TOKENS),
}
# What the service asks its node for, once prices and fee history are cached.
BARE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "eth_estimateGas",
    "params": [
        {"from": SENDER, "value": "0x1", "data": "0x", "to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"},
    ],
}


def relayer_id(milliseconds: int) -> str:
    """Return the relayer whose node takes so long."""
    return f"node-of-{milliseconds}-ms"


def create_apart(environment: dict[str, str], nodes: dict[int, str], tokens: int) -> list[str]:
    """Create the rows in the database that an environment names, and return the access tokens."""
    code = f"from benchmarks.rpc import create; create({nodes!r}, {tokens})"
    issued: list[str] = json.loads(run_apart(["manage.py", "shell", "--no-imports", "-c", code], environment))
    return issued


def create(nodes: dict[int, str], tokens: int) -> None:
    """Create a relayer for each node, fee tokens, and access tokens; print these."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from relayers.models import Relayer
    from rpc.models import FeeToken, PriceSource
    from signers.models import Signer
    from tokens.writes import issue

    signer = Signer(identifier="bench", type="plain")
    signer.set_config({"key": "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"})
    signer.save()
    for milliseconds, url in nodes.items():
        name = relayer_id(milliseconds)
        relayer = Relayer(identifier=name, name=name, network="hardhat", address=SENDER, signer=signer)
        relayer.set_rpc_urls([{"url": url, "weight": 100}])
        relayer.save()
    token = FeeToken.objects.create(network="hardhat", symbol="BENCH", address="0x" + "11" * 20, decimals=6)
    PriceSource.objects.create(
        token=token, kind="fixed", rate_text="3000.5", rate_set_at=timezone.now(), max_age_seconds=86400
    )
    for number, symbol in enumerate(QUOTED_TOKENS):
        token = FeeToken.objects.create(network="hardhat", symbol=symbol, address=f"0x{number:040x}", decimals=6)
        feed = f"0x{number + 1000:040x}"
        PriceSource.objects.create(token=token, kind="chainlink_native", feed=feed, heartbeat_seconds=86400)
    user, _ = User.objects.get_or_create(username="callers")
    print(json.dumps([str(issue(name=f"{n}", user=user)[1]) for n in range(tokens)]))
