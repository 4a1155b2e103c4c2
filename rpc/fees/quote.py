"""The fee of a transaction, in the native coin and in tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from chain import limits, native_fee
from chain.head import MAX_TIMESTAMP
from chain.native_fee import NativeFee
from chain.networks import Network, networks
from chain.readings import gather
from chain.transactions import NotATransaction, Transaction, decode
from relayer_service.amounts import decimal_text, rate_text, token_units
from relayer_service.storage.databases import release_connection
from relayers import policies
from rpc import errors
from rpc.errors import RpcError
from rpc.fees import tokens
from rpc.fees.prices import Quote, price_reading
from rpc.fees.tokens import Token, TokenOrError
from rpc.relayer_lookup import RpcRelayer

# The name of a token's price among what is read.
PRICE = "price of {}"


@dataclass(frozen=True)
class TokenFee:
    """A fee in a token, in its smallest unit; the native coin is a token at the rate 1."""

    symbol: str
    # Empty for the native coin.
    address: str
    margin_bps: int
    price: Quote
    expected: int
    maximum: int

    @classmethod
    def compute(cls, fee: NativeFee, token: Token | None, price: Quote) -> TokenFee:
        """Return a fee in a token: exact, and each amount rounded up once, to the token's smallest unit."""
        margin_bps = token.margin_bps if token else 0
        expected, maximum = (
            token_units(amount, price.rate, price.decimals, fee.network.decimals, margin_bps)
            for amount in (fee.total.expected, fee.total.maximum)
        )
        symbol, address = (token.symbol, token.address) if token else (fee.network.symbol, "")
        return cls(symbol, address, margin_bps, price, expected, maximum)

    @property
    def expected_fee(self) -> str:
        return decimal_text(self.expected, self.price.decimals)

    @property
    def maximum_fee(self) -> str:
        return decimal_text(self.maximum, self.price.decimals)

    @property
    def conversion_rate(self) -> str:
        return rate_text(self.price.rate)


@dataclass(frozen=True)
class FeeQuote:
    """A fee in the native coin, and in each token that was asked for, or why there is none in it."""

    native: NativeFee
    tokens: dict[str, TokenFee | RpcError]

    def valid_until(self, now: float) -> float:
        """Return the Unix time at which the next block is due or a price gets stale; now, where that has passed."""
        fees = [fee for fee in self.tokens.values() if isinstance(fee, TokenFee)]
        ends = [source.fresh_until for fee in fees for source in fee.price.sources]
        return max(now, min([self.native.head.next_due(self.native.network), MAX_TIMESTAMP, *ends]))


def estimate(relayer: RpcRelayer, fee_token: str, network: str, transaction: str) -> TokenFee:
    """Return the fee of an encoded transaction through a relayer, in a token."""
    found = _quote(relayer, network, transaction, lambda known: {fee_token: tokens.find(known, fee_token)})
    fee = found.tokens[fee_token]
    if isinstance(fee, RpcError):
        raise fee
    return fee


def quote(
    relayer: RpcRelayer,
    network: str,
    transaction: str,
    fee_tokens: Sequence[str] | None = None,
    speed: str | None = None,
) -> FeeQuote:
    """Return the fee of an encoded transaction through a relayer, in these tokens or in all of the network's."""
    return _quote(relayer, network, transaction, lambda known: tokens.find_all(known, fee_tokens), speed)


def _quote(
    relayer: RpcRelayer,
    network: str,
    transaction: str,
    find: Callable[[Network], Mapping[str, TokenOrError]],
    speed: str | None = None,
) -> FeeQuote:
    known = _network(relayer, network)
    decoded = _decode(transaction, known)
    with errors.policy_refusals():
        policies.check_receiver(relayer.policies, decoded)
    sender = decoded.sender or relayer.address
    if not sender:
        raise errors.InsufficientData("The relayer's address is not known yet, and the transaction is not signed.")
    asked = find(known)
    with errors.policy_refusals(), errors.chain_faults():
        policies.check_gas_limit(relayer.policies, decoded)
        readings = native_fee.readings(known, policies.fee_options(relayer.policies), decoded, sender)
    for name, token in asked.items():
        if isinstance(token, Token):
            readings[PRICE.format(name)] = price_reading(token)
    release_connection()
    with errors.policy_refusals(), errors.chain_faults():
        found = gather(relayer.node_urls(), known, readings)
        fee = policies.compute_fee(known, relayer.policies, decoded, sender, found, speed)
    return FeeQuote(fee, {name: _fee(fee, name, token, found) for name, token in asked.items()})


def _fee(fee: NativeFee, name: str, token: TokenOrError, found: Mapping[str, Any]) -> TokenFee | RpcError:
    if isinstance(token, RpcError):
        return token
    if token is None:
        return TokenFee.compute(fee, None, Quote(Fraction(1), (), fee.network.decimals))
    price: Quote | RpcError = found[PRICE.format(name)]
    if isinstance(price, RpcError):
        return price
    if token.decimals is None:
        tokens.keep_decimals(token, price.decimals)
    return TokenFee.compute(fee, token, price)


def _network(relayer: RpcRelayer, network: str) -> Network:
    if network not in {relayer.network, relayer.network_type}:
        raise errors.InvalidParams(f"network: the relayer is on {relayer.network} ({relayer.network_type})")
    known = networks().get(relayer.network)
    if known is None:
        raise errors.InsufficientData(
            "The service does not know the relayer's network, and so neither its coin nor its fees: NETWORKS_FILE can "
            "add it."
        )
    return known


def _decode(text: str, network: Network) -> Transaction:
    try:
        transaction = decode(text)
        limits.check(transaction, network)
    except NotATransaction as error:
        raise errors.InvalidParams(f"transaction: {error}") from None
    if transaction.chain_id not in {None, network.chain_id}:
        raise errors.InvalidParams(
            f"transaction: it is for chain {transaction.chain_id}, and {network.name} is chain {network.chain_id}"
        )
    return transaction
