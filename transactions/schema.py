"""Parameters, responses and examples of the OpenAPI document for transactions."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse

from transactions.requests.dry_run import Check, DryRun, Estimate, LimitCheck
from transactions.serializers import (
    CanceledTransactionsSerializer,
    DryRunSerializer,
    ReasonSerializer,
    SendTransactionSerializer,
    SpeedUpSerializer,
    TransactionSerializer,
)

TRANSACTION: dict[str, Any] = {
    "id": "3f1c2a52-6a0c-4d1b-9d52-1d0f6a1f0c11",
    "relayer_id": "relayer-1",
    "status": "confirmed",
    "status_reason": None,
    "version": 5,
    "hash": "0x9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b",
    "nonce": 7,
    "from": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    "value": "1000000000000000",
    "data": None,
    "data_size": 0,
    "gas_limit": 21_000,
    "gas_price": None,
    "max_fee_per_gas": "3000000000",
    "max_priority_fee_per_gas": "1000000000",
    "speed": "fast",
    "signature": {"r": "<32 bytes in hex>", "s": "<32 bytes in hex>", "v": 27, "sig": "<65 bytes in hex>"},
    "is_canceled": False,
    "created_at": "2026-01-01T00:00:00.000000Z",
    "sent_at": "2026-01-01T00:00:00.100000Z",
    "confirmed_at": "2026-01-01T00:02:36.000000Z",
    "valid_until": "2026-01-01T08:00:00.000000Z",
    "block_number": 9_000_000,
    "gas_used": 21_000,
    "effective_gas_price": "2100000000",
    "contract_address": None,
    "external_id": "invoice-4711",
    "metadata": {"customer": "81", "shop": "berlin"},
}
NOT_FINAL = dict.fromkeys(("confirmed_at", "block_number", "gas_used", "effective_gas_price"))
NOT_SENT = dict.fromkeys(("hash", "nonce", "gas_limit", "max_fee_per_gas", "max_priority_fee_per_gas", "sent_at"))
PENDING: dict[str, Any] = {
    **TRANSACTION,
    **NOT_FINAL,
    **NOT_SENT,
    "signature": None,
    "status": "pending",
    "status_reason": "Position 1 of 1 in the queue of this relayer.",
    "version": 1,
}
EXAMPLE = OpenApiExample("Transaction", TRANSACTION, response_only=True)

RELAYER_ID = OpenApiParameter(
    "relayer_id",
    str,
    OpenApiParameter.PATH,
    description="The relayer's ID. Any character may be percent-encoded, including slashes.",
    examples=[OpenApiExample("relayer", "relayer-1")],
)
TRANSACTION_ID = OpenApiParameter("transaction_id", {"type": "string", "format": "uuid"}, OpenApiParameter.PATH)
NONCE = OpenApiParameter("nonce", {"type": "integer", "minimum": 0}, OpenApiParameter.PATH)
GENERATION = OpenApiParameter(
    "Relayer-Generation",
    {"type": "integer", "minimum": 0},
    OpenApiParameter.HEADER,
    description=(
        "How often transactions of the relayer's account were signed and committed. It falls if an older database was "
        "restored."
    ),
    response=[200],
)
BY_SPEED = {"to": TRANSACTION["to"], "value": "1000000000000000", "speed": "fast"}
CALL = {
    "to": TRANSACTION["to"],
    "value": 0,
    "data": "0xa9059cbb00000000000000000000000070997970c51812dc3a010c7d01b50e0d17dc79c8"
    "0000000000000000000000000000000000000000000000000000000000000001",
    "gas_limit": 65_000,
    "max_fee_per_gas": 3_000_000_000,
    "max_priority_fee_per_gas": 1_000_000_000,
    "valid_until": "2026-12-31T00:00:00Z",
    "external_id": TRANSACTION["external_id"],
    "metadata": TRANSACTION["metadata"],
}

PAYLOADS = [
    OpenApiExample("by-speed", BY_SPEED, summary="Pay the market price", request_only=True),
    OpenApiExample("explicit", CALL, summary="Call a contract at explicit prices", request_only=True),
]
LIST: dict[str, Any] = {
    "parameters": [RELAYER_ID, GENERATION],
    "responses": {200: TransactionSerializer(many=True)},
    "examples": [EXAMPLE],
}
OLD_DRY_RUN = OpenApiParameter(
    "dry_run",
    bool,
    description="If true, the request and its response are those of `dry_run_transaction`: use that.",
    deprecated=True,
)
MAX_TEXT = "Value 1000000000000000 wei; the maximum of a transaction is 2000000000000000 wei."
DRY_RUN_RESULT = DryRun(
    [Check("state", "paused", True, "The relayer accepts transactions."), Check("token", "max_value", True, MAX_TEXT)],
    [LimitCheck("token", "max_value_per_day", "value", 5 * 10**15, 45 * 10**14, 10**15, allowed=False)],
    Estimate(21_000, max_fee=3 * 10**9, max_priority_fee=10**9, max_gas_cost=63 * 10**12),
)
TRACEPARENT = OpenApiParameter(
    "traceparent",
    str,
    OpenApiParameter.HEADER,
    description=(
        "The caller's trace (W3C Trace Context). It is stored with the transaction and continued by its webhooks and "
        "the requests that broadcast it. An invalid value is ignored."
    ),
)
SEND: dict[str, Any] = {
    "parameters": [RELAYER_ID, OLD_DRY_RUN, TRACEPARENT, GENERATION],
    "request": SendTransactionSerializer,
    "responses": {200: OpenApiResponse(TransactionSerializer, description="The transaction was accepted.")},
    "examples": [*PAYLOADS, OpenApiExample("Transaction", PENDING, response_only=True)],
}
DRY_RUN: dict[str, Any] = {
    "parameters": [RELAYER_ID],
    "request": SendTransactionSerializer,
    "responses": {
        200: OpenApiResponse(
            DryRunSerializer,
            description=(
                "Whether the transaction would be accepted, with every rule and its verdict, what is used and left of "
                "each limit, and the gas and price that nodes report now."
            ),
        )
    },
    "examples": [*PAYLOADS, OpenApiExample("Dry run", DryRunSerializer(DRY_RUN_RESULT).data, response_only=True)],
}
GET: dict[str, Any] = {
    "parameters": [RELAYER_ID, TRANSACTION_ID, GENERATION],
    "responses": {200: TransactionSerializer},
    "examples": [EXAMPLE],
}
GET_BY_NONCE: dict[str, Any] = {**GET, "parameters": [RELAYER_ID, NONCE, GENERATION]}
# In flight: signed, and not in a block.
IN_FLIGHT: dict[str, Any] = {**TRANSACTION, **NOT_FINAL, "status": "submitted", "version": 4}
NOOP_REQUESTED = "It is being replaced by a no-op: Its cancellation was requested."
CANCELING = {**IN_FLIGHT, "status_reason": NOOP_REQUESTED, "is_canceled": True}
REPLACING = {**IN_FLIGHT, "status_reason": "Its replacement is being signed."}
SPEEDING_UP = {**IN_FLIGHT, "status_reason": "It is being signed at a higher price.", "speed": "fastest"}
CANCELED = {
    "queued_for_cancellation_transaction_ids": [TRANSACTION["id"]],
    "failed_to_queue_transaction_ids": [],
    "total_processed": 1,
}
FEES = {"max_fee_per_gas": 4_000_000_000, "max_priority_fee_per_gas": 2_000_000_000}


def _change(description: str, changed: dict[str, Any], *examples: OpenApiExample, **more: Any) -> dict[str, Any]:
    return {
        "parameters": [RELAYER_ID, TRANSACTION_ID, ReasonSerializer, GENERATION],
        "responses": {200: OpenApiResponse(TransactionSerializer, description=description)},
        "examples": [*examples, OpenApiExample("Transaction", changed, response_only=True)],
        **more,
    }


CANCEL = _change("It is canceled, or will be if possible.", CANCELING)
REPLACE = _change("It is replaced, or will be if possible.", REPLACING, *PAYLOADS, request=SendTransactionSerializer)
SPEED_UP = _change(
    "Its price is raised, or will be.",
    SPEEDING_UP,
    OpenApiExample("speed", {"speed": "fastest"}, summary="Pay the market price of a speed", request_only=True),
    OpenApiExample("explicit", FEES, summary="Pay explicit prices", request_only=True),
    request=SpeedUpSerializer,
)
CANCEL_ALL: dict[str, Any] = {
    "parameters": [RELAYER_ID, ReasonSerializer, GENERATION],
    "responses": {200: OpenApiResponse(CanceledTransactionsSerializer, description="They are canceled if possible.")},
    "examples": [OpenApiExample("Transactions", CANCELED, response_only=True)],
}
