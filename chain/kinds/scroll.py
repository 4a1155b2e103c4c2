from collections.abc import Mapping
from typing import Any

import zstandard

from chain.amount import Amount
from chain.contracts import contract_call
from chain.kinds.base import Charges, FeeModel, uint_reading, with_margin
from chain.readings import ChainReading
from chain.transactions import Transaction, encode_with_placeholders

ORACLE = "0x5300000000000000000000000000000000000002"
# How the network's nodes compress; without the magic number in front.
LEVEL = 3


class Scroll(FeeModel):
    """Scroll: an L1 data fee by the size of the signed transaction, compressed if that makes it smaller."""

    def charge_readings(self, transaction: Transaction) -> dict[str, ChainReading]:
        signed = encode_with_placeholders(transaction, with_signature=True)
        call = contract_call(ORACLE, "getL1Fee(bytes)", [compressed(signed)])
        return {"l1_fee": uint_reading(call, "L1 data fee")}

    def charges(self, found: Mapping[str, Any], gas: Amount, l1_margin_bps: int) -> Charges:
        return Charges(with_margin(found["l1_fee"], l1_margin_bps))


def compressed(signed: bytes) -> bytes:
    """Return the bytes whose number the network charges for."""
    # With the size, on which the parameters of a level depend.
    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL, source_size=len(signed), format=zstandard.FORMAT_ZSTD1_MAGICLESS
    )
    return min(zstandard.ZstdCompressor(compression_params=parameters).compress(signed), signed, key=len)
