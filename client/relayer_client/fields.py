"""What calls accept, as keyword arguments. In `update_...`, an omitted field stays, and None removes it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, Required, TypedDict

from relayer_client.results import DeliveryState, Signing, Speed, TransactionStatus

Amount = int | str
HexData = str | bytes


class PriceFields(TypedDict, total=False):
    speed: Speed | None
    gas_price: Amount | None
    max_fee_per_gas: Amount | None
    max_priority_fee_per_gas: Amount | None


class SendingFields(PriceFields, total=False):
    gas_limit: Amount | None
    valid_until: datetime | str | None
    external_id: str | None
    metadata: Mapping[str, str] | None


class TransactionFields(SendingFields, total=False):
    """A transaction: `value` is 0 if omitted, and without `to` a contract is created."""

    to: str | None
    value: Amount
    data: HexData | None


class TypedDataFields(TypedDict, total=False):
    """Either the two hashes, or the whole typed data."""

    domain_separator: HexData
    hash_struct_message: HexData
    types: Mapping[str, Any]
    domain: Mapping[str, Any]
    message: Mapping[str, Any]
    primary_type: str


class SignerFields(TypedDict, total=False):
    id: str
    type: Required[
        Literal[
            "plain",
            "provider_a_kms",
            "provider_b_kms",
            "provider_c",
            "provider_c_transit",
            "provider_d",
            "provider_e",
        ]
    ]
    config: Required[Mapping[str, Any]]


class NotificationFields(TypedDict, total=False):
    id: str
    type: Literal["webhook"]
    url: Required[str]
    signing_key: str | None
    enabled: bool
    events: Sequence[str] | None


class NotificationChanges(TypedDict, total=False):
    type: Literal["webhook"]
    url: str
    signing_key: str | None
    enabled: bool
    events: Sequence[str] | None


class RpcUrlFields(TypedDict, total=False):
    url: Required[str]
    weight: int


class PolicyFields(TypedDict, total=False):
    eip1559_pricing: bool | None
    gas_limit_estimation: bool | None
    gas_price_cap: int | None
    min_balance: int | None
    private_transactions: bool | None
    whitelist_receivers: Sequence[str] | None


class ReceiverRuleFields(TypedDict, total=False):
    address: Required[str]
    selectors: Sequence[str]


class TokenRuleFields(TypedDict, total=False):
    contract: Required[str]
    recipients: Sequence[str]
    max_amount: str
    max_amount_per_day: str


class SpendingRuleFields(TypedDict, total=False):
    max_value: str | None
    max_value_per_day: str | None
    max_gas_cost_per_day: str | None
    receivers: Sequence[ReceiverRuleFields] | None
    tokens: Sequence[TokenRuleFields] | None


class TopUpFields(TypedDict):
    funding_relayer_id: str
    minimum: Amount
    target: Amount
    daily_limit: Amount


class RelayerFields(TypedDict, total=False):
    """A relayer: `network_type` is `evm` and `paused` False if omitted."""

    id: str
    name: Required[str]
    network: Required[str]
    network_type: Literal["evm"]
    chain_id: int
    address: str
    signer_id: Required[str]
    notification_id: str
    paused: bool
    custom_rpc_urls: Sequence[RpcUrlFields | str]
    private_rpc_urls: Sequence[RpcUrlFields | str]
    private_fallback_blocks: int
    policies: PolicyFields
    tags: Sequence[str]
    allow_signing: Sequence[Signing]
    spending_rules: SpendingRuleFields
    top_up: TopUpFields
    reserve: Amount


class RelayerChanges(TypedDict, total=False):
    name: str
    paused: bool
    signer_id: str
    notification_id: str | None
    custom_rpc_urls: Sequence[RpcUrlFields | str] | None
    private_rpc_urls: Sequence[RpcUrlFields | str] | None
    private_fallback_blocks: int | None
    policies: PolicyFields | None
    tags: Sequence[str] | None
    allow_signing: Sequence[Signing] | None
    spending_rules: SpendingRuleFields | None
    top_up: TopUpFields | None
    reserve: Amount | None


class PriceSourceFields(TypedDict, total=False):
    kind: Required[Literal["fixed", "chainlink_usd", "chainlink_native", "uniswap_v2"]]
    rate: str | Decimal
    max_age_seconds: int
    feed: str
    heartbeat_seconds: int
    native_feed: str
    native_heartbeat_seconds: int
    sequencer_feed: str
    sequencer_grace_seconds: int
    pair: str
    wrapped_native: str
    min_liquidity: str | Decimal


class FeeTokenFields(TypedDict, total=False):
    network: Required[str]
    symbol: Required[str]
    address: Required[str]
    enabled: bool
    margin_bps: int
    max_spread_bps: int
    sources: Required[Sequence[PriceSourceFields]]


class FeeTokenChanges(TypedDict, total=False):
    address: str
    enabled: bool
    margin_bps: int
    max_spread_bps: int
    sources: Sequence[PriceSourceFields]
    confirm_rates: bool


RelayerState = Literal["active", "disabled", "paused", "low_balance", "no_address", "unknown"]


class RelayerFilter(TypedDict, total=False):
    q: str | None
    network: str | None
    signer_id: str | None
    tag: str | None
    state: RelayerState | None


class TransactionFilter(TypedDict, total=False):
    status: TransactionStatus | None
    hash: str | None
    idempotency_key: str | None
    external_id: str | None
    metadata: str | None
    to: str | None
    token: str | None
    created_from: datetime | str | None
    created_before: datetime | str | None
    finished_from: datetime | str | None
    finished_before: datetime | str | None


class DeliveryFilter(TypedDict, total=False):
    state: DeliveryState | None
    event: str | None
    created_from: datetime | str | None
    created_before: datetime | str | None


class RelayerJobFilter(TypedDict, total=False):
    """That of a list, without None: a job that changes many relayers must not ignore a filter."""

    q: str
    network: str
    signer_id: str
    tag: str
    state: RelayerState


class RelayerJobFields(TypedDict, total=False):
    """Which relayers a job changes: `{}` selects all."""

    filter: Required[RelayerJobFilter]
    reason: str


class DeliveryJobFilter(TypedDict, total=False):
    state: DeliveryState
    event: str
    created_from: datetime | str
    created_before: datetime | str


class DeliveryJobFields(TypedDict):
    """Which deliveries a job replays: `{}` selects all."""

    filter: DeliveryJobFilter
