"""Addresses, rules and calldata of the tests of spending rules."""

from typing import Any

from spending.rules import Payload

TOKEN = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
OTHER_TOKEN = "0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512"
ALICE = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
BOB = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
MALLORY = "0x90F79bf6EB2c4f870365E785982E1f101E93b906"
TRANSFER, APPROVE, TRANSFER_FROM = "a9059cbb", "095ea7b3", "23b872dd"


def words(*arguments: str | int) -> bytes:
    """Return the ABI encoding of addresses and integers."""
    numbers = (int(each, 16) if isinstance(each, str) else each for each in arguments)
    return b"".join(number.to_bytes(32, "big") for number in numbers)


def call(selector: str, *arguments: str | int) -> bytes:
    return bytes.fromhex(selector) + words(*arguments)


def payload(to: str | None = ALICE, value: int = 0, data: bytes = b"") -> Payload:
    return Payload(to, value, data)


def permit(**changes: Any) -> dict[str, Any]:
    """Return an ERC-2612 permit of 5 units for Alice."""
    types = {"owner": "address", "spender": "address", "value": "uint256", "nonce": "uint256", "deadline": "uint256"}
    return {
        "types": {
            "EIP712Domain": [
                {"name": "name", "type": "string"},
                {"name": "version", "type": "string"},
                {"name": "chainId", "type": "uint256"},
                {"name": "verifyingContract", "type": "address"},
            ],
            "Permit": [{"name": name, "type": each} for name, each in types.items()],
        },
        "primaryType": "Permit",
        "domain": {"name": "Coin", "version": "1", "chainId": 31337, "verifyingContract": TOKEN},
        "message": {"owner": BOB, "spender": ALICE, "value": "5", "nonce": 0, "deadline": 2**256 - 1},
        **changes,
    }
