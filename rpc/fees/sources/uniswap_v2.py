import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from eth_utils.address import to_checksum_address

from chain.contracts import Unreadable, contract_call, read_call
from chain.networks import Network
from chain.nodes.attempts import Call
from rpc.fees.sources.base import NoPrice, Source, SourcePrice
from rpc.models import FeeToken, PriceSource


@dataclass(frozen=True)
class UniswapV2(Source):
    """The reserves of a pair of the token and the wrapped native coin, at the latest block."""

    stands_alone: ClassVar[bool] = False

    pair: str
    token: str
    wrapped_native: str
    min_liquidity: int
    native_decimals: int
    block_seconds: float

    @classmethod
    def from_row(cls, row: PriceSource, token: FeeToken, network: Network) -> Self:
        return cls(
            name=str(row),
            pair=row.pair,
            token=token.address,
            wrapped_native=row.wrapped_native,
            min_liquidity=int(row.min_liquidity_text),
            native_decimals=network.decimals,
            block_seconds=network.block_seconds,
        )

    def calls(self) -> Sequence[Call]:
        return [contract_call(self.pair, name) for name in ("token0()", "token1()", "getReserves()")]

    def price(self, answers: Sequence[Any], decimals: int, now: int) -> SourcePrice:
        try:
            tokens = [to_checksum_address(read_call(answer, ["address"])[0]) for answer in answers[:2]]
            reserves = read_call(answers[2], ["uint112", "uint112", "uint32"])[:2]
        except Unreadable:
            raise NoPrice("did not answer") from None
        held = dict(zip(tokens, reserves, strict=True))
        if set(held) != {self.token, self.wrapped_native}:
            raise NoPrice("is not a pair of the token and the wrapped native coin")
        token, native = held[self.token], held[self.wrapped_native]
        if not token or not native or native < self.min_liquidity:
            raise NoPrice("holds less than its minimum liquidity")
        rate = Fraction(token * 10**self.native_decimals, native * 10**decimals)
        # The reserves are read at this block.
        return SourcePrice(self.name, rate, now, now + math.ceil(self.block_seconds))
