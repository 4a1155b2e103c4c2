"""Requests, responses and examples of the OpenAPI document for signing."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample

from relayers.signatures.serializers import SignatureSerializer, SignMessageSerializer, SignTypedDataSerializer

SIGNATURE_EXAMPLE = OpenApiExample(
    "Signature",
    {
        "r": "a461f509887bd19e312c0c58467ce8ff8e300d3c1a90b608a760c5b80318eaf1",
        "s": "5fe57c96f9175d6cd4daad4663763baa7e78836e067d0163e9a2ccf2ff753f5b",
        "v": 27,
        "sig": "a461f509887bd19e312c0c58467ce8ff8e300d3c1a90b608a760c5b80318eaf1"
        "5fe57c96f9175d6cd4daad4663763baa7e78836e067d0163e9a2ccf2ff753f5b1b",
    },
    response_only=True,
)
TYPED_DATA = {
    "types": {
        "Permit": [
            {"name": "owner", "type": "address"},
            {"name": "spender", "type": "address"},
            {"name": "value", "type": "uint256"},
            {"name": "nonce", "type": "uint256"},
            {"name": "deadline", "type": "uint256"},
        ]
    },
    "domain": {
        "name": "USD Coin",
        "version": "2",
        "chainId": 1,
        "verifyingContract": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
    },
    "primary_type": "Permit",
    "message": {
        "owner": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        "spender": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        "value": "1000000",
        "nonce": 0,
        "deadline": 1893456000,
    },
}
HASHES = {
    "domain_separator": "0xf2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f",
    "hash_struct_message": "0xc52c0ee5d84264471806290a3f2c4cecfc5490626bf912d01f240d7a274b371e",
}
MESSAGE: dict[str, Any] = {
    "request": SignMessageSerializer,
    "responses": {200: SignatureSerializer},
    "examples": [
        OpenApiExample("message", {"message": "hello world"}, summary="Text", request_only=True),
        OpenApiExample("message_hex", {"message_hex": "0x68656c6c6f"}, summary="Bytes", request_only=True),
        SIGNATURE_EXAMPLE,
    ],
}
DATA: dict[str, Any] = {
    "request": SignTypedDataSerializer,
    "responses": {200: SignatureSerializer},
    "examples": [
        OpenApiExample("typed data", TYPED_DATA, summary="Typed data", request_only=True),
        OpenApiExample("hashes", HASHES, summary="Its two hashes", request_only=True),
        SIGNATURE_EXAMPLE,
    ],
}
TRANSACTION: dict[str, Any] = {"request": OpenApiTypes.OBJECT, "responses": {}}
