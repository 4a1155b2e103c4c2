"""The fee of a transaction, in the native coin and in tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from chain import limits
from chain.fees import native_fee
from chain.fees.native_fee import NativeFee
from chain.networks import Network, networks, resolve_alias
from chain.nodes.plausibility import MAX_TIMESTAMP
from chain.readings import gather
from chain.transactions import NotATransaction, Transaction, decode
from relayer_service.amounts import decimal_text, rate_text, token_units
from relayer_service.database.access import release_connection
from relayers import policies
from relayers.models import Relayer
from rpc import errors
from rpc.errors import RpcError
from rpc.fees import tokens
from rpc.fees.prices import Quote, price_reading
from rpc.fees.tokens import Token, TokenOrError

# The name of the reading with a token's price.
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
    def compute(cls, fee: NativeFee, token: Token | None, price: Quote) -> Self:
        """Return the fee in a token. Each amount is rounded once, up to the token's smallest unit."""
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
    """A fee in the native coin and in each requested token, or the error of the token."""

    native: NativeFee
    tokens: dict[str, TokenFee | RpcError]

    def valid_until(self, now: float) -> float:
        """Return the Unix time when the next block is due or a price becomes stale, at least now."""
        fees = [fee for fee in self.tokens.values() if isinstance(fee, TokenFee)]
        ends = [source.fresh_until for fee in fees for source in fee.price.sources]
        return max(now, min([self.native.head.next_due(self.native.network), MAX_TIMESTAMP, *ends]))


def estimate(relayer: Relayer, fee_token: str, network: str, transaction: str) -> TokenFee:
    """Return the fee of an encoded transaction in one token; raise the `RpcError` if there is none."""
    fee = quote(relayer, network, transaction, [fee_token], must_find=True).tokens[fee_token]
    if isinstance(fee, RpcError):
        raise fee
    return fee


@errors.as_rpc_errors()
def quote(
    relayer: Relayer,
    network: str,
    transaction: str,
    fee_tokens: Sequence[str] | None = None,
    speed: str | None = None,
    *,
    must_find: bool = False,
) -> FeeQuote:
    """Return the fee of an encoded transaction in these tokens, by default in all tokens of the network.

    With `must_find`, a token that is not supported raises its error before any node is queried.
    """
    known = _network(relayer, network)
    decoded = _decode(transaction, known)
    policies.check_receiver(relayer.policies, decoded)
    sender = decoded.sender or relayer.address
    if not sender:
        raise errors.InsufficientData("The relayer's address is unknown, and the transaction is not signed.")
    requested = tokens.find_all(known, fee_tokens)
    for token in requested.values():
        if must_find and isinstance(token, RpcError):
            raise token
    policies.check_gas_limit(relayer.policies, decoded)
    readings = native_fee.readings(known, policies.fee_options(relayer.policies), decoded, sender)
    for name, token in requested.items():
        if isinstance(token, Token):
            readings[PRICE.format(name)] = price_reading(token)
    release_connection()
    found = gather(relayer.node_urls(), known, readings)
    fee = policies.compute_fee(known, relayer.policies, decoded, sender, found, speed)
    return FeeQuote(fee, {name: _fee(fee, name, token, found) for name, token in requested.items()})


def _fee(fee: NativeFee, name: str, token: TokenOrError, found: Mapping[str, Any]) -> TokenFee | RpcError:
    if isinstance(token, RpcError):
        return token
    if token is None:
        return TokenFee.compute(fee, None, Quote(Fraction(1), (), fee.network.decimals))
    price: Quote | RpcError = found[PRICE.format(name)]
    if isinstance(price, RpcError):
        return price
    if token.decimals is None:
        tokens.store_decimals(token, price.decimals)
    return TokenFee.compute(fee, token, price)


def _network(relayer: Relayer, network: str) -> Network:
    if not {relayer.network, relayer.network_type} & {network, resolve_alias(network)}:
        raise errors.InvalidParams(f"network: must be {relayer.network} or {relayer.network_type}")
    known = networks().get(relayer.network)
    if known is None:
        raise errors.InsufficientData(f"Unknown network '{relayer.network}'. Add it to NETWORKS_FILE.")
    return known


def _decode(text: str, network: Network) -> Transaction:
    try:
        transaction = decode(text)
        limits.check(transaction, network)
    except NotATransaction as error:
        raise errors.InvalidParams(f"transaction: {error}") from None
    if transaction.chain_id not in {None, network.chain_id}:
        expected = f"{network.chain_id} ({network.name})"
        raise errors.InvalidParams(f"transaction: must be for chain {expected}, not {transaction.chain_id}")
    return transaction
