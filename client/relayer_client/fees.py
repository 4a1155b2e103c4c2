"""Fees of transactions, as `fee_estimate` and `fee_quote` return them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class FeeEstimate:
    """The maximum fee in whole tokens, and tokens per native coin."""

    estimated_fee: Decimal
    conversion_rate: Decimal
    method: Literal["feeEstimate"]


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotedAmount:
    """An amount in wei."""

    expected: int
    maximum: int


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotedGas:
    estimate: int
    buffer: int
    expected: int
    maximum: int


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotedPrice:
    base_fee: int | None = None
    base_fee_source: Literal["eth_feeHistory", "eth_baseFee", "linea_estimateGas", "eip-1559", "last-block"] | None = (
        None
    )
    priority_fee: int | None = None
    expected: int
    maximum: int


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotedNative:
    expected: int
    maximum: int
    symbol: str
    decimals: int


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotedSource:
    name: str
    rate: Decimal
    age_seconds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotedFault:
    code: int
    message: str
    description: str


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotedToken:
    """The fee in whole tokens, or why there is none."""

    fee_token: str
    symbol: str | None = None
    address: str | None = None
    decimals: int | None = None
    expected: Decimal | None = None
    maximum: Decimal | None = None
    conversion_rate: Decimal | None = None
    margin_bps: int | None = None
    sources: tuple[QuotedSource, ...] | None = None
    error: QuotedFault | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FeeQuote:
    """The expected and the maximum fee, with everything they are computed from."""

    method: Literal["feeQuote"]
    network: str
    block_number: int
    block_time: datetime
    valid_until: datetime
    gas: QuotedGas
    gas_price: QuotedPrice
    gas_fee: QuotedAmount
    l1_fee: QuotedAmount
    operator_fee: QuotedAmount
    blob_fee: QuotedAmount
    native: QuotedNative
    tokens: tuple[QuotedToken, ...]
