"""Bodies of the service, with fixed values."""

from typing import Any

TRANSACTION: dict[str, Any] = {
    "id": "3f1c2a52-6a0c-4d1b-9d52-1d0f6a1f0c11",
    "relayer_id": "sender",
    "status": "pending",
    "status_reason": "Position 1 of 1 in the queue of this relayer.",
    "version": 1,
    "hash": None,
    "nonce": None,
    "from": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    "value": "1000000000000000000000",
    "data": None,
    "data_size": 0,
    "gas_limit": None,
    "gas_price": None,
    "max_fee_per_gas": None,
    "max_priority_fee_per_gas": None,
    "speed": "fast",
    "signature": None,
    "is_canceled": False,
    "created_at": "2026-11-16T12:00:00.000000Z",
    "sent_at": None,
    "confirmed_at": None,
    "valid_until": "2026-11-16T20:00:00.000000Z",
    "block_number": None,
    "gas_used": None,
    "effective_gas_price": None,
    "contract_address": None,
    "external_id": None,
    "metadata": {},
}
SUBMITTED = TRANSACTION | {"status": "submitted", "version": 2, "hash": f"0x{'ab' * 32}", "nonce": 7}
CONFIRMED = SUBMITTED | {"status": "confirmed", "version": 4, "block_number": 9, "status_reason": None}
FAILED = CONFIRMED | {"status": "failed", "status_reason": "It reverted in block 9."}
EXPIRED = TRANSACTION | {"status": "expired", "version": 2, "status_reason": "It was not sent in time."}
CANCELED = TRANSACTION | {"status": "canceled", "version": 2, "status_reason": "It was canceled.", "is_canceled": True}
TYPED_DATA: dict[str, Any] = {
    "domain": {"name": "Mail", "chainId": 31337, "verifyingContract": f"0x{'cc' * 20}"},
    "types": {
        "EIP712Domain": [
            {"name": "name", "type": "string"},
            {"name": "chainId", "type": "uint256"},
            {"name": "verifyingContract", "type": "address"},
        ],
        "Mail": [{"name": "contents", "type": "string"}, {"name": "amount", "type": "uint256"}],
    },
    "primaryType": "Mail",
    "message": {"contents": "hello", "amount": 2**255},
}
