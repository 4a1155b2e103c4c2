"""What calls return. Amounts in wei are integers, fees and rates in tokens are decimals, times are aware.

Fields that a response omits are None. The service may add fields and values of enumerations: unknown fields are
ignored, unknown values returned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, Literal, TypeVar

Speed = Literal["safeLow", "average", "fast", "fastest"]
TransactionStatus = Literal["pending", "sent", "submitted", "mined", "confirmed", "failed", "canceled", "expired"]
DeliveryState = Literal["pending", "delivered", "failed"]
JobState = Literal["waiting", "running", "stopped", "finished"]
Signing = Literal["messages", "typed_data"]
Item = TypeVar("Item")
FINAL = frozenset({"confirmed", "failed", "canceled", "expired"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[Item]):
    """A page of a list; lists with cursors have a total on the first page alone."""

    items: tuple[Item, ...]
    total_items: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """A signature in hexadecimal, without `0x`."""

    r: str
    s: str
    v: int
    sig: str

    def to_bytes(self) -> bytes:
        """Return the 65 bytes of `r`, `s` and `v`."""
        return bytes.fromhex(self.sig)


@dataclass(frozen=True, kw_only=True, slots=True)
class Transaction:
    """A transaction of a relayer; `hash` is that of the attempt in a block, or else of the newest.

    In lists, `data` of more than 1,024 bytes is None (`is_data_omitted`): `get_transaction` returns it.
    """

    id: str
    relayer_id: str
    status: TransactionStatus
    status_reason: str | None
    version: int
    hash: str | None
    nonce: int | None
    sender: str = field(metadata={"name": "from"})
    to: str | None
    value: int
    data: str | None
    # In bytes, even where `data` is None; older releases of the service return all data and no size.
    data_size: int = 0
    gas_limit: int | None
    gas_price: int | None
    max_fee_per_gas: int | None
    max_priority_fee_per_gas: int | None
    speed: Speed | None
    signature: Signature | None
    is_canceled: bool
    created_at: datetime
    sent_at: datetime | None
    confirmed_at: datetime | None
    valid_until: datetime
    block_number: int | None
    gas_used: int | None
    effective_gas_price: int | None
    contract_address: str | None
    # Older releases of the service return neither.
    external_id: str | None = None
    metadata: dict[str, str] = field(default_factory=dict, hash=False)

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def is_data_omitted(self) -> bool:
        return self.data is None and self.data_size > 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CanceledTransactions:
    queued_for_cancellation_transaction_ids: tuple[str, ...]
    failed_to_queue_transaction_ids: tuple[str, ...]
    total_processed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRunCheck:
    source: Literal["state", "policies", "queue", "relayer", "token"]
    rule: str
    allowed: bool
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRunLimit:
    source: Literal["relayer", "token"]
    rule: str
    name: str
    maximum: int
    used: int
    left: int
    amount: int | None
    allowed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRunEstimate:
    gas_limit: int | None
    gas_price: int | None
    max_fee_per_gas: int | None
    max_priority_fee_per_gas: int | None
    max_gas_cost: int | None
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """Whether a transaction would be accepted now, by which rules, and what it would cost."""

    allowed: bool
    checks: tuple[DryRunCheck, ...]
    limits: tuple[DryRunLimit, ...]
    estimate: DryRunEstimate


@dataclass(frozen=True, kw_only=True, slots=True)
class Signer:
    id: str
    type: str
    config: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Notification:
    id: str
    type: Literal["webhook"]
    url: str
    has_signing_key: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ManagedNotification(Notification):
    enabled: bool
    events: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    id: str
    event: str
    state: DeliveryState
    attempts: int
    response_code: int | None = None
    error: str | None = None
    created_at: datetime
    attempted_at: datetime | None = None
    next_attempt_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FullAttempt:
    started_at: datetime
    milliseconds: int
    response_code: int | None = None
    error: str | None = None
    response_body: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FullDelivery(Delivery):
    headers: dict[str, str]
    payload: dict[str, Any]
    attempt_log: tuple[FullAttempt, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DisabledReason:
    details: str
    type: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RpcUrl:
    url: str
    weight: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EvmPolicies:
    eip1559_pricing: bool | None = None
    gas_limit_estimation: bool | None = None
    gas_price_cap: int | None = None
    min_balance: int | None = None
    private_transactions: bool | None = None
    whitelist_receivers: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceiverRule:
    address: str
    selectors: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRule:
    contract: str
    recipients: tuple[str, ...] | None = None
    max_amount: int | None = None
    max_amount_per_day: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SpendingRules:
    max_value: int | None = None
    max_value_per_day: int | None = None
    max_gas_cost_per_day: int | None = None
    receivers: tuple[ReceiverRule, ...] | None = None
    tokens: tuple[TokenRule, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TopUp:
    funding_relayer_id: str
    minimum: int
    target: int
    daily_limit: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedRelayer:
    """A relayer as lists show it."""

    id: str
    name: str
    network: str
    network_type: str
    address: str | None = None
    signer_id: str
    notification_id: str | None = None
    paused: bool
    system_disabled: bool
    disabled_reason: DisabledReason | None = None
    custom_rpc_urls: tuple[RpcUrl, ...] | None = None
    policies: EvmPolicies | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ManagedRelayer(ListedRelayer):
    """A relayer with all its configuration."""

    tags: tuple[str, ...] | None = None
    allow_signing: tuple[Signing, ...] | None = None
    spending_rules: SpendingRules | None = None
    top_up: TopUp | None = None
    reserve: int | None = None
    private_rpc_urls: tuple[RpcUrl, ...] | None = None
    private_fallback_blocks: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """The last health check of a relayer."""

    network_type: str
    balance: int | None
    balance_at: datetime | None
    nonce: int | None
    pending_transactions_count: int
    last_confirmed_transaction_timestamp: datetime | None
    paused: bool
    system_disabled: bool
    checked_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    balance: int
    unit: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    id: str
    name: str
    network_type: str
    chain_id: int
    symbol: str
    is_testnet: bool
    average_blocktime_ms: int
    explorer_urls: tuple[str, ...] | None = None
    rpc_urls: tuple[RpcUrl, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PriceSource:
    kind: Literal["fixed", "chainlink_usd", "chainlink_native", "uniswap_v2"]
    rate: Decimal | None = None
    max_age_seconds: int | None = None
    feed: str | None = None
    heartbeat_seconds: int | None = None
    native_feed: str | None = None
    native_heartbeat_seconds: int | None = None
    sequencer_feed: str | None = None
    sequencer_grace_seconds: int | None = None
    pair: str | None = None
    wrapped_native: str | None = None
    min_liquidity: Decimal | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FeeToken:
    id: str
    network: str
    symbol: str
    address: str
    enabled: bool
    margin_bps: int
    max_spread_bps: int
    sources: tuple[PriceSource, ...]
    decimals: int | None = None
    rate: Decimal | None = None
    rated_at: datetime | None = None
    rate_error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    id: str
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A change of many rows, and its progress."""

    id: str
    kind: Literal["pause_relayers", "replay_deliveries", "resume_relayers"]
    state: JobState
    total: int
    done: int
    skipped: int
    failed: int
    failures: tuple[Failure, ...]
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        return self.state in ("finished", "stopped")


@dataclass(frozen=True, kw_only=True, slots=True)
class RotatedToken:
    token: str
    expires_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Rotation:
    """A new token, and what it replaces."""

    token: str = field(repr=False)
    name: str
    scopes: tuple[str, ...]
    allowed_relayers: tuple[str, ...]
    expires_at: datetime | None
    replaces: RotatedToken


@dataclass(frozen=True, kw_only=True, slots=True)
class Readiness:
    status: Literal["ready", "not ready"]
    parts: dict[str, str]
    notes: tuple[str, ...] | None = None

    @property
    def is_ready(self) -> bool:
        return self.status == "ready"
