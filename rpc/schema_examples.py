"""The examples of the JSON-RPC call in the OpenAPI document."""

from typing import Any

from drf_spectacular.utils import OpenApiExample

from rpc.serializers import VERSION

# A transfer of one wei, not signed; it holds nothing that is secret.
TRANSACTION = "0x02e283aa36a78080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0"
NOTHING = {"expected": "0", "maximum": "0"}
NOT_SUPPORTED = {
    "code": -32001,
    "message": "Token not supported",
    "description": "Fees cannot be told in this token on sepolia: it is not registered or has no source of its price.",
}
QUOTE = {
    "method": "feeQuote",
    "network": "sepolia",
    "block_number": "9700000",
    "block_time": "2026-11-15T12:00:00.000Z",
    "valid_until": "2026-11-15T12:00:12.000Z",
    "gas": {"estimate": "21000", "buffer": "0", "expected": "21000", "maximum": "21000"},
    "gas_price": {
        "base_fee": "1650000000",
        "base_fee_source": "eth_feeHistory",
        "priority_fee": "110000000",
        "expected": "1760000000",
        "maximum": "2090000000",
    },
    "gas_fee": {"expected": "36960000000000", "maximum": "43890000000000"},
    "l1_fee": NOTHING,
    "operator_fee": NOTHING,
    "blob_fee": NOTHING,
    "native": {"symbol": "ETH", "decimals": 18, "expected": "36960000000000", "maximum": "43890000000000"},
    "tokens": [
        {
            "fee_token": "USDC",
            "symbol": "USDC",
            "address": "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238",
            "decimals": 6,
            "expected": "0.11088",
            "maximum": "0.13167",
            "conversion_rate": "3000",
            "margin_bps": 0,
            "sources": [{"name": "Fixed rate", "rate": "3000", "age_seconds": 3600}],
        },
        {"fee_token": "DAI", "error": NOT_SUPPORTED},
    ],
}


def _call(name: str, summary: str, method: str, params: dict[str, Any]) -> OpenApiExample:
    body = {"jsonrpc": VERSION, "id": 1, "method": method, "params": params}
    return OpenApiExample(name, body, summary=summary, request_only=True)


def _answer(name: str, summary: str, **outcome: Any) -> OpenApiExample:
    return OpenApiExample(name, {"jsonrpc": VERSION, "id": "1", **outcome}, summary=summary, response_only=True)


# By the method's name.
EXAMPLES: dict[str, list[OpenApiExample]] = {
    "feeEstimate": [
        _call(
            "FeeEstimate",
            "The fee of a transaction, in the network's coin",
            "feeEstimate",
            {"fee_token": "ETH", "network": "sepolia", "transaction": TRANSACTION},
        ),
        _answer(
            "Result",
            "A fee",
            result={"estimated_fee": "0.00004389", "conversion_rate": "1", "method": "feeEstimate"},
        ),
    ],
    "feeQuote": [
        _call(
            "FeeQuote",
            "The fee of a transaction in two tokens, with all that it rests on",
            "feeQuote",
            {"network": "sepolia", "transaction": TRANSACTION, "fee_tokens": ["USDC", "DAI"], "speed": "fast"},
        ),
        _answer("Quote", "A fee in one token, and why there is none in the other", result=QUOTE),
    ],
}
FAILURE = _answer("Failure", "A call that has failed", error=NOT_SUPPORTED)
