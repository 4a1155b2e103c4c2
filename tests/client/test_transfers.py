"""Transfers of ERC-20 tokens: exact amounts, and where decimals come from."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_utils.address import to_checksum_address

from relayer_client import errors
from relayer_client.addresses import check_address
from relayer_client.erc20 import to_units, transfer
from tests.client.examples import TRANSACTION
from tests.client.scripted_server import calling, ok, refused

TOKEN = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
RECEIVER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


@pytest.mark.parametrize(
    ("amount", "decimals", "units"),
    [
        (Decimal("1.5"), 6, 1_500_000),
        (Decimal("0.000001"), 6, 1),
        (Decimal("123456789012345678901234567890.123456"), 6, 123456789012345678901234567890123456),
        (Decimal("1.500"), 1, 15),
        (Decimal("1E+3"), 0, 1000),
        (7, 18, 7 * 10**18),
        (2**256 - 1, 0, 2**256 - 1),
        (Decimal(0), 6, 0),
    ],
)
def test_an_amount_is_exact(amount: Decimal | int, decimals: int, units: int) -> None:
    assert to_units(amount, decimals) == units


@pytest.mark.parametrize(
    ("amount", "kind", "words"),
    [
        (Decimal("0.0000001"), ValueError, "more digits than the token, which has 6 decimals"),
        (Decimal("-1"), ValueError, "not be negative"),
        (2**256, ValueError, "not be negative or above"),
        (Decimal("NaN"), ValueError, "must be a number"),
        (Decimal("Infinity"), ValueError, "must be a number"),
        (1.5, TypeError, r'as Decimal\("12.50"\), or an int, not float'),
        ("1.5", TypeError, "not str"),
        (True, TypeError, "not bool"),
    ],
)
def test_an_amount_that_is_not_exact_is_refused(amount: Any, kind: type[Exception], words: str) -> None:
    with calling(ok(TRANSACTION)) as (server, client), pytest.raises(kind, match=words):
        client.relayer("sender").transfer_token(TOKEN, RECEIVER, amount, decimals=6)
    assert server.requests == []


def test_addresses_are_checked_before_anything_is_sent() -> None:
    wrong = [RECEIVER.replace("C8", "c8"), RECEIVER[:-1], RECEIVER[2:], f"{RECEIVER}\n", None]
    with calling(ok(TRANSACTION)) as (server, client):
        for each in wrong:
            with pytest.raises(ValueError, match=r"checksum of the address|An address is"):
                client.relayer("sender").transfer_token(TOKEN, each, 1, decimals=6)  # type: ignore[arg-type]
            with pytest.raises(ValueError, match=r"checksum of the address|An address is"):
                client.relayer("sender").transfer_token(each, RECEIVER, 1)  # type: ignore[arg-type]
        assert server.requests == []
    for number in range(0, 2**160, 2**160 // 50):
        address = to_checksum_address(f"{number:040x}")
        assert check_address(address) == address
        assert check_address(address.lower()) == address.lower()


def test_the_fields_of_a_transfer_are_those_of_any_call() -> None:
    data = f"0xa9059cbb{encode(['address', 'uint256'], [RECEIVER, 1_500_000]).hex()}"
    assert transfer(TOKEN, RECEIVER, Decimal("1.5"), decimals=6) == {"to": TOKEN, "data": data}


def test_decimals_are_those_of_the_fee_token_and_read_once_per_relayer_object() -> None:
    values = {"id": "r", "name": "R", "network": "sepolia", "network_type": "evm", "signer_id": "s"}
    states = {"paused": False, "system_disabled": False}
    token = {"id": "sepolia:USDC", "network": "sepolia", "symbol": "USDC", "address": TOKEN, "enabled": True}
    token |= {"margin_bps": 0, "max_spread_bps": 0, "sources": [], "decimals": 6}
    listed = ok([token], pagination={"current_page": 1, "per_page": 100, "total_items": 1})
    moved = ok(values | states | {"network": "other"})
    others = ok([token | {"decimals": 18}], pagination={"current_page": 1, "per_page": 100, "total_items": 1})
    script = (ok(values | states), listed, ok(TRANSACTION), ok(TRANSACTION), moved, others, ok(TRANSACTION))
    with calling(*script) as (server, client):
        relayer = client.relayer("sender")
        for key in ("one", "two"):
            relayer.transfer_token(TOKEN.lower(), RECEIVER, Decimal("0.5"), idempotency_key=key, speed="fast")
        assert [(each.method, each.path.partition("?")[0]) for each in server.requests] == [
            ("GET", "/api/v1/relayers/sender"),
            ("GET", "/api/v1/fee-tokens"),
            *[("POST", "/api/v1/relayers/sender/transactions")] * 2,
        ]
        assert json.loads(server.requests[3].body) == {
            "value": 0,
            "to": TOKEN.lower(),
            "data": f"0xa9059cbb{encode(['address', 'uint256'], [RECEIVER, 500_000]).hex()}",
            "speed": "fast",
        }
        assert server.requests[3].headers["idempotency-key"] == "two"
        # At the same address, another network has another token.
        client.relayer("sender").transfer_token(TOKEN, RECEIVER, 1)
        assert server.requests[5].path == "/api/v1/fee-tokens?network=other&per_page=100"
        assert json.loads(server.requests[6].body)["data"].endswith(f"{10**18:064x}")
    with (
        calling(ok(values | states), listed) as (_server, client),
        pytest.raises(ValueError, match="provide decimals"),
    ):
        client.relayer("sender").transfer_token(RECEIVER, RECEIVER, 1)
    with calling(refused(403, "insufficient_scope")) as (_server, client), pytest.raises(errors.InsufficientScope):
        client.relayer("sender").transfer_token(TOKEN, RECEIVER, 1)
