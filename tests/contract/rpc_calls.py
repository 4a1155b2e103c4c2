"""JSON-RPC calls over HTTP, through a relayer whose node always answers the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from relayers.models import Relayer
from tests.api import Answer, Api
from tests.chain.encoded import transfer
from tests.chain.fee_node import FeeNode, serve
from tests.relayers import factories

PATH = "/api/v1/relayers/relayer-1/rpc"
TRANSFER = transfer()
PARAMS = {"fee_token": "ETH", "network": "hardhat", "transaction": TRANSFER}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": PARAMS}
# What the node's answers come to; it says how.
FEE = {"estimated_fee": "0.00004389", "conversion_rate": "1", "method": "feeEstimate"}


@pytest.fixture
def node() -> Iterator[FeeNode]:
    with serve(FeeNode()) as served:
        yield served


def relayer(node: FeeNode | None = None, **changes: Any) -> Relayer:
    """Create a relayer on the network of the node; without one, it has none that could answer."""
    url = node.url if node else "http://127.0.0.1:9/v1/s3cret"
    values = {"network": "hardhat", "rpc_urls": [{"url": url, "weight": 100}]}
    return factories.relayer(**values | changes)


def estimate(api: Api, **changes: Any) -> Answer:
    """Ask for a fee, with changes to the params."""
    return api.post(PATH, CALL | {"params": PARAMS | changes})
