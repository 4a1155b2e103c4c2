from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from eth_utils.address import to_checksum_address

from relayers.chain.attempts import Call
from relayers.chain.contracts import Unreadable, contract_call, read_call
from rpc.fees.sources.base import NoPrice, Source, SourcePrice


class UniswapV2(Source):
    """The reserves of a pair of the token with the wrapped native coin, at the latest block."""

    def calls(self) -> Sequence[Call]:
        return [contract_call(self.row.pair, name) for name in ("token0()", "token1()", "getReserves()")]

    def price(self, answers: Sequence[Any], decimals: int, now: int) -> SourcePrice:
        try:
            tokens = [to_checksum_address(read_call(answer, ["address"])[0]) for answer in answers[:2]]
            reserves = read_call(answers[2], ["uint112", "uint112", "uint32"])[:2]
        except Unreadable:
            raise NoPrice("does not answer") from None
        held = dict(zip(tokens, reserves, strict=True))
        if set(held) != {self.row.token.address, self.row.wrapped_native}:
            raise NoPrice("is not a pair of the token with the wrapped native coin")
        token, native = held[self.row.token.address], held[self.row.wrapped_native]
        if not token or not native or native < int(self.row.min_liquidity_text):
            raise NoPrice("holds too little: less than its least liquidity")
        rate = Fraction(token * 10**self.network.decimals, native * 10**decimals)
        # The reserves are those of this block.
        return SourcePrice(str(self.row), rate, now, now + math.ceil(self.network.block_seconds))
